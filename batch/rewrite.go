package batch

import (
	"slices"

	"github.com/mqd-broker/mqd/internal/invariant"
)

// Rewrite says what compaction makes of a stored batch.
type Rewrite struct {
	// Keep has an element for each record of the batch: true for those that stay.
	Keep []bool
	// Horizon, if not 0, becomes the batch's delete horizon, in milliseconds since 1970.
	Horizon int64

	records []byte
}

// Append appends the batch of header h, without the records that do not stay, to dst.
// body are its uncompressed records, which an [Iterator] has walked without an error.
// Offsets, timestamps, epoch, producer and sequence stay what they were, and the codec,
// unless the records do not become smaller by it. At least one record stays.
func (r *Rewrite) Append(dst []byte, h Header, body []byte) []byte {
	if h.Attributes.Control() || int(h.Count) != len(r.Keep) {
		invariant.Violated("batch: only data is compacted, record by record")
	}
	base := h.BaseTimestamp
	if r.Horizon != 0 {
		h.Attributes |= AttrDeleteHorizon
		h.BaseTimestamp = r.Horizon
	}
	appended := h.Attributes&AttrAppendTime != 0
	newest, count := int64(NoTimestamp), int32(0)
	r.records = r.records[:0]
	it := h.Records(body)
	it.baseTime = base
	for i := 0; ; i++ {
		start := it.p
		if !it.Next() {
			break
		}
		if !r.Keep[i] {
			continue
		}
		if count == 0 || it.rec.Timestamp > newest {
			newest = it.rec.Timestamp
		}
		count++
		r.records = appendShifted(r.records, body[start:it.p], base-h.BaseTimestamp)
	}
	if it.err != nil || count == 0 {
		invariant.Violated("batch: what is compacted has been walked, and something of it stays")
	}
	if !appended {
		h.MaxTimestamp = newest
	}
	at := len(dst)
	dst = slices.Grow(dst, HeaderSize)[:at+HeaderSize]
	codec := h.Attributes.Codec()
	h.Attributes &^= attrCodec
	if codec != CodecNone {
		dst = Compress(dst, codec, r.records)
		if len(dst)-at-HeaderSize < len(r.records) {
			h.Attributes |= Attributes(codec)
		} else {
			dst, codec = dst[:at+HeaderSize], CodecNone
		}
	}
	if codec == CodecNone {
		dst = append(dst, r.records...)
	}
	h.Count = count
	h.Length = int32(len(dst) - at - LengthPrefix)
	h.Put(dst[at:])
	seal(dst[at:])
	return dst
}

// appendShifted appends a record, as a batch holds it, with a timestamp delta that is
// larger by shift.
func appendShifted(dst, record []byte, shift int64) []byte {
	if shift == 0 {
		return append(dst, record...)
	}
	_, start := varint32(record, 0)
	delta, rest := varint64(record, start+1)
	delta += shift
	n := 1 + varintSize64(delta) + len(record) - rest
	at := len(dst)
	dst = slices.Grow(dst, varintSize32(int32(n))+n)[:at+varintSize32(int32(n))+1+varintSize64(delta)]
	p := putVarint32(dst, at, int32(n))
	dst[p] = record[start] // attributes
	putVarint64(dst, p+1, delta)
	return append(dst, record[rest:]...)
}

// AppendEmpty appends an empty batch to dst, which stands in a log for the offsets from
// first to last that compaction has emptied; they have the same leader epoch. There are at
// most MaxRecords of them.
func AppendEmpty(dst []byte, first, last int64, epoch int32) []byte {
	if first < 0 || last < first || last-first >= MaxRecords {
		invariant.Violated("batch: an empty batch stands for offsets")
	}
	at := len(dst)
	dst = slices.Grow(dst, HeaderSize)[:at+HeaderSize]
	h := Header{
		BaseOffset: first, Length: HeaderSize - LengthPrefix, LeaderEpoch: epoch, Magic: Magic,
		LastOffsetDelta: int32(last - first), BaseTimestamp: NoTimestamp, MaxTimestamp: NoTimestamp,
		ProducerID: NoProducer, ProducerEpoch: NoProducer, BaseSequence: NoProducer,
	}
	h.Put(dst[at:])
	seal(dst[at:])
	return dst
}
