package native

import (
	"errors"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/net/wire"
)

const (
	// maxInline is the size in bytes up to which an uncompressed answer is
	// converted on the loop.
	maxInline = 64 << 10
	// maxConverting is the number of answers of a shard that helpers convert at
	// a time. Each may need as much memory as a batch has decompressed.
	maxConverting = 4
)

// plainWork makes the plain encoding of a fetch's answer: each message with its
// offset. Compressed batches and long answers are a helper's work.
type plainWork struct {
	srv    *Server
	q      *fetchRequest
	helper bool
	reader pieceReader
	dec    batch.Decoder
	out    []byte
	next   int64 // where the client goes on
	code   wire.Code
}

// convertLater converts the answer of q, now or when it is its turn.
func (s *Server) convertLater(q *fetchRequest) {
	s.count.add(PlainFetches)
	if w := &s.inline; q.f.Bytes() <= maxInline && w.uncompressed(q.f.Pieces()) {
		w.q = q
		w.Run()
		w.Finished()
		return
	}
	s.convert.Push(&q.at, q)
	s.convertNext()
}

// convertNext gives waiting answers to helpers.
func (s *Server) convertNext() {
	for s.converting < maxConverting {
		q := s.convert.Pop()
		if q == nil {
			return
		}
		switch p := q.peer; {
		case p.c.Over():
			q.finish()
			continue
		case p.pinned >= s.opts.MaxPinned:
			q.park()
			continue
		}
		s.count.add(PlainOffloads)
		s.converting++
		s.conns.Offload(&plainWork{srv: s, q: q, helper: true})
	}
}

// uncompressed reports whether no batch is compressed. Bytes that are not batches
// are left to the conversion.
func (w *plainWork) uncompressed(pieces [][]byte) bool {
	r := &w.reader
	r.begin(pieces)
	for b := r.batch(); b != nil; b = r.batch() {
		if h, err := batch.ParseHeader(b); err == nil && h.Attributes.Codec() != batch.CodecNone {
			return false
		}
	}
	return true
}

// Run converts.
func (w *plainWork) Run() {
	f := &w.q.f
	w.out, w.next, w.code = w.out[:0], f.Next, wire.CodeNone
	limit := f.MaxBytes
	if limit <= 0 {
		limit = w.srv.b.Node().Options().FetchBytes
	}
	r := &w.reader
	r.begin(f.Pieces())
	for b := r.batch(); b != nil; b = r.batch() {
		if !w.add(b, limit) {
			return
		}
	}
}

// add converts one batch, and reports whether the next is wanted too.
func (w *plainWork) add(b []byte, limit int) bool {
	from := w.q.f.Offset
	next, err := w.try(b, from, limit-len(w.out))
	var at *batch.Error
	if errors.As(err, &at) && at.Kind == batch.ErrTooLarge && at.Field == plainField && len(w.out) == 0 {
		// The first message of an answer is sent however large it is.
		next, err = w.try(b, from, int(at.Found))
	}
	h, herr := batch.ParseHeader(b)
	switch {
	case err == nil && next > h.LastOffset():
		return true
	case err == nil:
		w.next = next
	case len(w.out) > 0:
		w.next = max(from, h.BaseOffset) // the next fetch will meet it first
	case herr != nil:
		w.code = wire.CodeCorrupt
	default:
		w.code, w.next = wire.CodeCorrupt, h.NextOffset()
	}
	return false
}

// plainField is what package batch calls a message that does not fit.
const plainField = "plain fetch message"

// try appends the messages of a batch from offset from on, at most limit bytes. It
// returns the offset at which to go on.
func (w *plainWork) try(b []byte, from int64, limit int) (int64, error) {
	h, it, err := w.dec.Open(b)
	if err != nil {
		return from, err
	}
	if h.Attributes.Control() {
		return h.NextOffset(), nil
	}
	var next int64
	w.out, next, err = batch.AppendPlainFetch(w.out, &it, from, limit)
	return next, err
}

// Finished sends the answer.
func (w *plainWork) Finished() {
	s, q := w.srv, w.q
	p := q.peer
	w.q = nil
	if w.code != wire.CodeNone {
		w.out = w.out[:0]
	}
	if p.c.Over() {
		q.finish()
	} else {
		q.head(w.code, len(w.out), w.next)
		p.c.Write(w.out)
		q.pin(len(w.out))
		q.release()
		p.c.Lend(nil, q)
	}
	if w.helper {
		s.converting--
		s.convertNext()
	}
}

// pieceReader walks the batches that lie in pieces of memory; one may lie in
// several.
type pieceReader struct {
	pieces [][]byte
	at     int    // in the first piece
	whole  []byte // a batch that lies in several
}

func (r *pieceReader) begin(pieces [][]byte) { r.pieces, r.at = pieces, 0 }

// batch returns the next batch, nil at the end. It is valid until the next call.
func (r *pieceReader) batch() []byte {
	rest := r.rest()
	if rest == nil {
		return nil
	}
	if n, err := batch.Size(rest); err == nil && n <= len(rest) {
		r.at += n
		return rest[:n:n]
	}
	r.whole = r.whole[:0]
	r.gather(batch.LengthPrefix)
	n, err := batch.Size(r.whole)
	if err != nil {
		n = 1 << 30 // not a batch: all there is, which will be refused
	}
	r.gather(n)
	return r.whole
}

// rest is what is left of the first piece that is not used up.
func (r *pieceReader) rest() []byte {
	for len(r.pieces) > 0 && r.at == len(r.pieces[0]) {
		r.pieces, r.at = r.pieces[1:], 0
	}
	if len(r.pieces) == 0 {
		return nil
	}
	return r.pieces[0][r.at:]
}

// gather adds to whole until it has n bytes, or all there are.
func (r *pieceReader) gather(n int) {
	for len(r.whole) < n {
		rest := r.rest()
		if rest == nil {
			return
		}
		k := min(len(rest), n-len(r.whole))
		r.whole = append(r.whole, rest[:k]...)
		r.at += k
	}
}
