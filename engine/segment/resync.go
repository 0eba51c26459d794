package segment

import (
	"bytes"
	"sort"

	"github.com/mqd-broker/mqd/batch"
)

// confirmBatches is how many batches in a row must hold before a place that no
// index knows, and that does not lead to the end of the log, counts as the
// continuation. A body can contain what looks like a batch.
const confirmBatches = 3

// maxHintsTried bounds the entries of a wrong index that one resync tries.
const maxHintsTried = 64

// knownStart is a batch start that an index claims and the log confirms.
type knownStart struct {
	pos    int64 // -1 for none
	offset int64
}

// resync finds where the log goes on behind the damage f at s.pos, and returns
// the damaged range. The offset at its end is exact, unless the damage reaches
// the end of the log and EndOffset is unknown: then it is the least that the
// damaged bytes allow.
//
// It tries, in this order: the length at s.pos, when the offset behind it is the
// very next; missing batches, when the batch at s.pos is whole; each byte from
// there on, for a batch with a later offset that is confirmed by the starts that
// an index knows or by what follows; the end of the log.
func (s *scanner) resync(f fault, ix *Index) (Range, error) {
	if err := s.findKnown(ix); err != nil {
		return Range{}, err
	}
	r := Range{FromOffset: s.next, ToOffset: s.next, FromPos: s.pos, ToPos: s.pos, Check: f.check}
	ok, err := s.byLength(&r)
	if !ok && err == nil && f.check == CheckOffset {
		ok, err = s.missing(&r)
	}
	if !ok && err == nil {
		if ok, err = s.byContent(&r); ok {
			err = s.withoutGap(&r)
		}
	}
	if !ok && err == nil {
		err = s.toEnd(&r)
	}
	return r, err
}

// byLength believes the length at s.pos if the batch it leads to has exactly the
// offset that the damaged one implies.
func (s *scanner) byLength(r *Range) (bool, error) {
	h, ok, err := s.claimed()
	to := s.pos + int64(h.Size())
	if !ok || err != nil || to >= s.end || s.known.pos >= 0 && to > s.known.pos {
		return false, err
	}
	after, ok, err := s.whole(to)
	if !ok || err != nil || after.BaseOffset != s.next+int64(h.LastOffsetDelta)+1 || !s.inOrder(&after) {
		return false, err
	}
	r.ToPos, r.ToOffset = to, after.BaseOffset
	return true, nil
}

// withoutGap takes a recorded gap behind the damaged batch out of the range.
func (s *scanner) withoutGap(r *Range) error {
	h, ok, err := s.claimed()
	if !ok || err != nil || s.o.Chain == nil || s.pos+int64(h.Size()) != r.ToPos {
		return err
	}
	if next := s.next + int64(h.LastOffsetDelta) + 1; next > s.next && next < r.ToOffset && s.o.Chain.AllowsGap(next, r.ToOffset) {
		r.ToOffset = next
	}
	return nil
}

// claimed reads the header at s.pos as far as its length and offset delta can
// be, whatever else is wrong with it.
func (s *scanner) claimed() (batch.Header, bool, error) {
	b, err := s.peek(s.pos, batch.HeaderSize)
	if err != nil || len(b) < batch.HeaderSize {
		return batch.Header{}, false, err
	}
	b = bytes.Clone(b)
	b[batch.AtMagic] = batch.Magic
	h, err := batch.ParseHeader(b)
	if err != nil || int64(h.Size()) > s.end-s.pos {
		return h, false, nil // the length is part of the damage
	}
	return h, h.LastOffsetDelta >= 0 && h.LastOffsetDelta < batch.MaxRecords, nil
}

// missing handles a whole batch with a later offset than the next: those between
// are not in the log. What follows must agree, or the offset itself is what is
// damaged.
func (s *scanner) missing(r *Range) (bool, error) {
	h, ok, err := s.whole(s.pos)
	if !ok || err != nil || h.BaseOffset <= s.next || !s.inOrder(&h) {
		return false, err
	}
	to := s.pos + int64(h.Size())
	if to == s.end {
		ok = h.NextOffset() == s.o.EndOffset
	} else {
		var after batch.Header
		after, ok, err = s.whole(to)
		ok = ok && s.reaches(&after, h.NextOffset())
	}
	if ok {
		r.ToOffset = h.BaseOffset
	}
	return ok, err
}

// byContent looks at each byte behind s.pos.
func (s *scanner) byContent(r *Range) (bool, error) {
	for pos := s.pos + 1; ; pos++ {
		var found bool
		var err error
		if pos, found, err = s.nextMagic(pos); err != nil || !found {
			return false, err
		}
		if pos == s.known.pos {
			r.ToPos, r.ToOffset = pos, s.known.offset
			return true, nil
		}
		h, ok, err := s.candidate(pos)
		if err != nil {
			return false, err
		}
		if ok {
			r.ToPos, r.ToOffset = pos, h.BaseOffset
			return true, nil
		}
	}
}

// candidate reports whether the log may go on at pos.
func (s *scanner) candidate(pos int64) (batch.Header, bool, error) {
	h, f, err := s.header(pos)
	if err != nil || f.check != CheckNone || h.BaseOffset <= s.next || !s.inOrder(&h) {
		return h, false, err
	}
	if s.known.pos > pos && (pos+int64(h.Size()) > s.known.pos || h.LastOffset() >= s.known.offset) {
		return h, false, nil
	}
	if f, err = s.judge(pos, &h); err != nil || f.check != CheckNone {
		return h, false, err
	}
	ok, err := s.confirmed(pos, &h)
	return h, ok, err
}

// inOrder reports whether the offsets of h can be in this log.
func (s *scanner) inOrder(h *batch.Header) bool {
	return h.LastOffsetDelta >= 0 && h.BaseOffset <= maxOffset-int64(h.LastOffsetDelta) &&
		(s.o.EndOffset <= 0 || h.LastOffset() < s.o.EndOffset)
}

// confirmed reports whether the whole batch h at pos leads, batch by batch, to
// the next start that the index knows, or without one to the end of the log or
// over enough batches.
func (s *scanner) confirmed(pos int64, h *batch.Header) (bool, error) {
	known := s.known.pos > pos
	for n := 1; ; n++ {
		next := h.NextOffset()
		pos += int64(h.Size())
		switch {
		case known && pos >= s.known.pos:
			return pos == s.known.pos && next <= s.known.offset, nil
		case pos == s.end:
			return s.o.EndOffset <= 0 || next == s.o.EndOffset, nil
		case !known && n >= confirmBatches:
			return true, nil
		}
		nh, ok, err := s.whole(pos)
		if err != nil {
			return false, err
		}
		if !ok {
			return s.endsInZeros(pos)
		}
		if !s.reaches(&nh, next) {
			return false, nil
		}
		h = &nh
	}
}

// endsInZeros reports whether a log that may have a tail of zeros ends at pos.
func (s *scanner) endsInZeros(pos int64) (bool, error) {
	if s.o.Tail != TailZeros {
		return false, nil
	}
	zero, _, err := s.allZero(pos)
	return zero, err
}

// whole reads the batch at pos and reports whether everything about it holds but
// its place in the order.
func (s *scanner) whole(pos int64) (batch.Header, bool, error) {
	h, f, err := s.header(pos)
	if err == nil && f.check == CheckNone {
		f, err = s.judge(pos, &h)
	}
	return h, err == nil && f.check == CheckNone, err
}

// nextMagic returns the first position from pos on that has a batch's magic where
// a batch has it.
func (s *scanner) nextMagic(pos int64) (int64, bool, error) {
	for pos+batch.HeaderSize <= s.end {
		w, err := s.window(pos + batch.AtMagic)
		if err != nil {
			return pos, false, err
		}
		if i := bytes.IndexByte(w, batch.Magic); i >= 0 {
			pos += int64(i)
			return pos, pos+batch.HeaderSize <= s.end, nil
		}
		pos += int64(len(w))
	}
	return pos, false, nil
}

// findKnown finds the first start behind s.pos that ix claims and the log
// confirms.
func (s *scanner) findKnown(ix *Index) error {
	s.known.pos = -1
	if ix == nil {
		return nil
	}
	first := sort.Search(ix.Len(), func(i int) bool { return int64(ix.at(i).pos) > s.pos })
	for i := first; i < min(ix.Len(), first+maxHintsTried); i++ {
		e := ix.At(i)
		if e.Offset <= s.next {
			continue
		}
		h, ok, err := s.whole(e.Pos)
		if err != nil {
			return err
		}
		if ok && h.BaseOffset == e.Offset {
			s.known.pos, s.known.offset = e.Pos, e.Offset
			return nil
		}
	}
	return nil
}

// toEnd gives up: the damage reaches the end of the log.
func (s *scanner) toEnd(r *Range) error {
	r.ToPos, r.ToOffset = s.end, s.next+1
	h, ok, err := s.claimed()
	if err != nil {
		return err
	}
	if to := s.pos + int64(h.Size()); ok {
		zeros, err := s.endsInZeros(to)
		if err != nil {
			return err
		}
		if zeros {
			r.ToPos = to
		}
		r.ToOffset = max(r.ToOffset, min(s.next, maxOffset-batch.MaxRecords)+int64(h.LastOffsetDelta)+1)
	}
	if s.o.EndOffset > 0 {
		r.ToOffset = max(s.next, s.o.EndOffset)
	}
	return nil
}
