package batch

// Iterator walks the records of one batch without allocating: the views that it
// returns point into the body. It is strict, because records reach a log without
// anybody having looked at them: lengths must fit exactly, offsets must rise and
// stay within the batch, the count must be the header's, and nothing may follow.
// The first violation ends the walk, and [Iterator.Err] tells it.
//
//	it := h.Records(body)
//	for it.Next() {
//		use(it.Record())
//	}
//	if err := it.Err(); err != nil { ... }
//
// The views stay valid as long as the body's memory does.
type Iterator struct {
	rec  RecordView
	body []byte
	p    int // position of the next record in body

	index int32 // of the next record
	count int32
	last  int32 // offset delta of the last record returned, -1 before the first
	max   int32 // the header's last offset delta

	base       int64 // offset
	baseTime   int64 // milliseconds
	appendTime int64 // milliseconds; of every record, if appended is set
	appended   bool

	err error
}

// RecordView is one record of a batch. Its slices point into the batch's
// memory and have no spare capacity.
type RecordView struct {
	Offset    int64
	Timestamp int64  // milliseconds since 1970; the append time in a LogAppendTime batch
	Key       []byte // nil if the record has no key, which differs from an empty one
	Value     []byte // nil if the record has no value (a tombstone)

	headers HeaderList
}

// HeaderList is the headers of a record as they stand in the batch. They were checked with
// the record. The zero value has none.
type HeaderList struct {
	raw []byte
	n   int32
}

// Len returns the number of headers.
func (l HeaderList) Len() int { return int(l.n) }

// All returns an iterator over the headers.
func (l HeaderList) All() HeaderIterator { return HeaderIterator{rest: l.raw, left: l.n} }

// Records returns an iterator over body, the batch's uncompressed records: the
// bytes of a batch from AtRecords on, or what [Decompress] made of them.
func (h *Header) Records(body []byte) Iterator {
	return Iterator{
		body:       body,
		count:      h.Count,
		last:       -1,
		max:        h.LastOffsetDelta,
		base:       h.BaseOffset,
		baseTime:   h.BaseTimestamp,
		appendTime: h.MaxTimestamp,
		appended:   h.Attributes&AttrAppendTime != 0,
	}
}

// Next goes to the next record and reports whether there is one. False means
// the end or an error.
func (it *Iterator) Next() bool {
	if it.err != nil {
		return false
	}
	if it.index < it.count {
		return it.short() || it.parse()
	}
	if it.p != len(it.body) {
		it.err = failRecord(ErrInvalid, int(it.index), "bytes after the records", it.p, int64(it.p), int64(len(it.body)))
	}
	return false
}

// Record returns the record that Next went to.
func (it *Iterator) Record() RecordView { return it.rec }

// At is [Iterator.Record] without a copy: the view is that of the next record after the
// next Next.
func (it *Iterator) At() *RecordView { return &it.rec }

// Err returns what ended the walk before the batch's end: an [Error] of kind
// [ErrTruncated] or [ErrInvalid], or nil.
func (it *Iterator) Err() error { return it.err }

// short reads one record of the common form: its lengths have at most two bytes, it has a
// value and no headers, and it is not at the end of the batch. False means that it may have
// another form, or be wrong, which parse will tell; nothing has changed then.
func (it *Iterator) short() bool {
	const after = 8 // bytes that can be read behind the record without looking
	b := it.body
	if len(b)-it.p < MinRecordSize+after {
		return false
	}
	length, p := shortVarint(b, it.p)
	if p == 0 || length < MinRecordSize-1 || int(length) > len(b)-p-after {
		return false
	}
	end := p + int(length)
	ts, p := shortVarint(b, p+1)
	if p == 0 {
		return false
	}
	delta, p := shortVarint(b, p)
	if p == 0 || delta <= it.last || delta > it.max {
		return false
	}
	n, p := shortVarint(b, p)
	if p == 0 || n < -1 {
		return false
	}
	var key []byte
	if n >= 0 {
		if int(n) >= end-p {
			return false
		}
		key = b[p : p+int(n) : p+int(n)]
		p += int(n)
	}
	if p >= end {
		return false
	}
	n, p = shortVarint(b, p)
	if p == 0 || n < 0 || p+int(n) != end-1 || b[end-1] != 0 {
		return false
	}
	r := &it.rec
	r.Offset = it.base + int64(delta)
	r.Timestamp = it.baseTime + int64(ts)
	if it.appended {
		r.Timestamp = it.appendTime
	}
	r.Key, r.Value = key, b[p:end-1:end-1]
	r.headers = HeaderList{}
	it.p, it.last = end, delta
	it.index++
	return true
}

// parse reads one record. The position moves only if the whole record is good.
func (it *Iterator) parse() bool {
	length, start := varint32(it.body, it.p)
	if start < 0 {
		return it.bad(it.body, "record length", it.p, start)
	}
	if length < MinRecordSize-1 {
		return it.reject("record length", it.p, MinRecordSize-1, int64(length))
	}
	if int(length) > len(it.body)-start {
		return it.bad(it.body, "record length", it.p, varintTruncated)
	}
	end := start + int(length)
	b := it.body[:end:end]

	// The record's own attributes byte has no meaning yet and is skipped.
	at := start + 1
	ts, p := varint64(b, at)
	if p < 0 {
		return it.bad(b, "timestamp delta", at, p)
	}
	at = p
	delta, p := varint32(b, at)
	if p < 0 {
		return it.bad(b, "offset delta", at, p)
	}
	if delta <= it.last || delta > it.max {
		return it.reject("offset delta", at, int64(it.last)+1, int64(delta))
	}
	at = p
	key, p := nullableBytes(b, at)
	if p < 0 {
		return it.bad(b, "key length", at, p)
	}
	at = p
	value, p := nullableBytes(b, at)
	if p < 0 {
		return it.bad(b, "value length", at, p)
	}
	at = p
	headers, p := varint32(b, at)
	if p < 0 {
		return it.bad(b, "header count", at, p)
	}
	if headers != 0 && !it.checkHeaders(b, at, p, headers) {
		return false
	}
	if headers == 0 && p != end {
		return it.reject("bytes after the record", p, int64(p), int64(end))
	}
	r := &it.rec
	r.Offset = it.base + int64(delta)
	r.Timestamp = it.baseTime + ts
	if it.appended {
		r.Timestamp = it.appendTime
	}
	r.Key, r.Value = key, value
	r.headers = HeaderList{}
	if headers != 0 {
		r.headers = HeaderList{b[p:], headers}
	}
	it.p = end
	it.last = delta
	it.index++
	return true
}

// checkHeaders checks that b[p:] is exactly n headers; at is where n stands.
func (it *Iterator) checkHeaders(b []byte, at, p int, n int32) bool {
	// A header takes at least 2 bytes.
	if left := len(b) - p; n < 0 || int(n) > left/2 {
		return it.reject("header count", at, int64(left/2), int64(n))
	}
	for range n {
		at = p
		var key []byte
		if key, p = nullableBytes(b, at); p < 0 {
			return it.bad(b, "header key length", at, p)
		}
		if key == nil {
			return it.reject("header key length", at, 0, -1)
		}
		at = p
		if _, p = nullableBytes(b, at); p < 0 {
			return it.bad(b, "header value length", at, p)
		}
	}
	if p != len(b) {
		return it.reject("bytes after the record", p, int64(p), int64(len(b)))
	}
	return true
}

// bad ends the walk: the read of field at b[at:] returned code.
func (it *Iterator) bad(b []byte, field string, at, code int) bool {
	left := int64(len(b) - at)
	found, p := varint32(b, at)
	switch {
	case code == lengthNegative:
		it.err = failRecord(ErrInvalid, int(it.index), field, at, -1, int64(found))
	case code == varintOverflow:
		it.err = failRecord(ErrInvalid, int(it.index), field, at, maxVarint32, left)
	case p < 0:
		it.err = failRecord(ErrTruncated, int(it.index), field, at, left+1, left)
	default:
		it.err = failRecord(ErrTruncated, int(it.index), field, at, int64(found), int64(len(b)-p))
	}
	return false
}

// reject ends the walk: field at byte at has a forbidden value.
func (it *Iterator) reject(field string, at int, expected, found int64) bool {
	it.err = failRecord(ErrInvalid, int(it.index), field, at, expected, found)
	return false
}

// lengthNegative joins the codes of the varints: a length below -1.
const lengthNegative = -3

// nullableBytes reads a length and as many bytes at b[p:]. Length -1 is nil. It
// returns the next position or a code below 0.
func nullableBytes(b []byte, p int) ([]byte, int) {
	n, p := varint32(b, p)
	if p < 0 {
		return nil, p
	}
	if n < 0 {
		if n == -1 {
			return nil, p
		}
		return nil, lengthNegative
	}
	if int(n) > len(b)-p {
		return nil, varintTruncated
	}
	end := p + int(n)
	return b[p:end:end], end
}

// HeaderCount returns the number of headers of the record.
func (r *RecordView) HeaderCount() int { return r.headers.Len() }

// HeaderList returns the record's headers, to keep without the rest of the view.
func (r *RecordView) HeaderList() HeaderList { return r.headers }

// Headers returns an iterator over the record's headers.
func (r *RecordView) Headers() HeaderIterator { return r.headers.All() }

// HeaderIterator walks the headers of a record, in their order. They were
// checked with the record, so there is no error to ask for.
type HeaderIterator struct {
	key, value []byte
	rest       []byte
	left       int32
}

// Next goes to the next header and reports whether there is one.
func (it *HeaderIterator) Next() bool {
	if it.left == 0 {
		return false
	}
	it.left--
	var p int
	it.key, p = nullableBytes(it.rest, 0)
	it.value, p = nullableBytes(it.rest, p)
	it.rest = it.rest[p:]
	return true
}

// Key returns the key of the header, UTF-8 by convention, never nil.
func (it *HeaderIterator) Key() []byte { return it.key }

// Value returns the value of the header, or nil if it has none.
func (it *HeaderIterator) Value() []byte { return it.value }

// DefaultDecodeLimit is a [Decoder]'s limit unless it has its own: 16 MiB, 16
// times the default max.message.bytes.
const DefaultDecodeLimit = 16 << 20

// Decoder opens batches one after another and owns the memory into which their
// records are decompressed. The zero value is ready. It is for one goroutine.
type Decoder struct {
	// Limit bounds the decompressed records of a batch in bytes; 0 means
	// DefaultDecodeLimit.
	Limit int

	buf []byte
}

// Open checks b with [CheckStored], decompresses its records if they are
// compressed, and returns the header and an iterator. The iterator and its
// records point into b, or into the decoder's memory until the next Open.
func (d *Decoder) Open(b []byte) (Header, Iterator, error) {
	h, err := CheckStored(b)
	if err != nil {
		return Header{}, Iterator{}, err
	}
	body := b[AtRecords:]
	if h.Attributes.Codec() != CodecNone && h.Count > 0 {
		limit := d.Limit
		if limit == 0 {
			limit = DefaultDecodeLimit
		}
		d.buf, err = Decompress(d.buf[:0], h, body, limit)
		if err != nil {
			return Header{}, Iterator{}, err
		}
		body = d.buf
	}
	return h, h.Records(body), nil
}
