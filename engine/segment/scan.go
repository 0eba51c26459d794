package segment

import (
	"errors"
	"io"

	"github.com/mqd-broker/mqd/batch"
)

// Tail says what may follow the last batch of a log.
type Tail uint8

const (
	// TailExact: nothing. The log is sealed, or its end is known.
	TailExact Tail = iota
	// TailZeros: zeros, up to the end: space allocated in advance.
	TailZeros
)

// ScanOptions say what is scanned and what counts as whole.
type ScanOptions struct {
	Path string // names the log in errors
	From int64  // position of a batch
	To   int64  // end of the log in bytes
	// Offset is the one that the first batch should have.
	Offset int64
	// EndOffset is the one behind the last batch; 0 means unknown.
	EndOffset int64
	// Chain is the recorded history, nil for none.
	Chain Chain
	Tail  Tail
}

// ScanEnd is where a scan has stopped.
type ScanEnd struct {
	Pos    int64 // position behind the last whole batch
	Offset int64 // the next offset
}

// Scan walks the batches of a log in order and calls fn for each one that is
// whole: a record batch v2 of a length that can be, with the right CRC, the
// offset that follows the one before (or a recorded gap), and the recorded
// epoch. It stops at the first that is not with a [*CorruptError], at an error
// of fn with that error, and otherwise at the end of the log.
//
// It reads r at multiples of 4 KiB into aligned memory and holds 256 KiB,
// whatever lengths the log claims. The *Batch is valid during the call.
func Scan(r io.ReaderAt, o ScanOptions, fn func(*Batch) error) (ScanEnd, error) {
	s := newScanner(newLogReader(r, o.To), o)
	for {
		f, err := s.step()
		switch {
		case err != nil:
			return s.where(), withPath(err, o.Path)
		case f.check != CheckNone:
			return s.where(), s.corrupt(f)
		case s.done:
			return s.where(), nil
		}
		if err := fn(&s.b); err != nil {
			return s.where(), err
		}
	}
}

// scanner stands at a position of a log, and knows which offset comes next.
type scanner struct {
	*logReader
	o    ScanOptions
	pos  int64
	next int64
	b    Batch // the batch before pos
	done bool  // the log has ended as it should

	known knownStart // of resync
}

func newScanner(l *logReader, o ScanOptions) *scanner {
	return &scanner{logReader: l, o: o, pos: o.From, next: o.Offset}
}

// fault is a broken rule at a position: a CorruptError before anybody wants to
// read it.
type fault struct {
	check           Check
	expected, found int64
}

// step moves over one batch and leaves it in s.b, or finds the end, or says what
// is wrong at s.pos. An error is one of reading.
func (s *scanner) step() (fault, error) {
	if s.pos == s.end {
		return s.finish(), nil
	}
	h, f, err := s.header(s.pos)
	if s.o.Tail == TailZeros && (f.check == CheckMagic || f.check == CheckEnd) {
		f, err = s.zeroTail(f)
	}
	if s.done || f.check != CheckNone || err != nil {
		return f, err
	}
	if f, err = s.judge(s.pos, &h); f.check != CheckNone || err != nil {
		return f, err
	}
	if f, err = s.follows(s.pos, &h); f.check != CheckNone || err != nil {
		return f, err
	}
	s.b.Set(s.pos, &h)
	s.pos, s.next = s.b.End(), h.NextOffset()
	return fault{}, nil
}

// zeroTail looks whether the log ends at s.pos with nothing but zeros behind it.
// Otherwise it returns what is wrong there: f, or zeros that do not go on.
func (s *scanner) zeroTail(f fault) (fault, error) {
	zero, at, err := s.allZero(s.pos)
	switch {
	case err != nil:
		return fault{}, err
	case zero:
		return s.finish(), nil
	case at >= s.pos+batch.HeaderSize:
		return fault{CheckTail, s.end, at}, nil
	}
	return f, nil
}

// header reads the header at pos and checks its format and its length.
func (s *scanner) header(pos int64) (batch.Header, fault, error) {
	b, err := s.peek(pos, batch.HeaderSize)
	if err != nil {
		return batch.Header{}, fault{}, err
	}
	if len(b) < batch.HeaderSize {
		return batch.Header{}, fault{CheckEnd, batch.HeaderSize, int64(len(b))}, nil
	}
	if b[batch.AtMagic] != batch.Magic {
		return batch.Header{}, fault{CheckMagic, batch.Magic, int64(int8(b[batch.AtMagic]))}, nil
	}
	h, err := batch.ParseHeader(b)
	if err != nil {
		var be *batch.Error
		if errors.As(err, &be) {
			return h, fault{CheckLength, be.Expected, be.Found}, nil
		}
		return h, fault{}, err
	}
	if limit := s.end - pos; int64(h.Size()) > limit {
		return h, fault{CheckLength, limit, int64(h.Size())}, nil
	}
	return h, fault{}, nil
}

// judge checks what the header at pos, whose length is right, says of the batch.
func (s *scanner) judge(pos int64, h *batch.Header) (fault, error) {
	sum, err := s.crc(pos+batch.AtAttributes, int64(h.Size())-batch.AtAttributes)
	if err != nil {
		return fault{}, err
	}
	switch {
	case sum != h.CRC:
		return fault{CheckCRC, int64(h.CRC), int64(sum)}, nil
	case h.LastOffsetDelta < 0 || h.LastOffsetDelta >= batch.MaxRecords:
		return fault{CheckFields, batch.MaxRecords, int64(h.LastOffsetDelta)}, nil
	case h.Count < 0 || h.Count > h.LastOffsetDelta+1:
		return fault{CheckFields, int64(h.LastOffsetDelta) + 1, int64(h.Count)}, nil
	}
	return fault{}, nil
}

// finish ends the scan at s.pos. A log that ends before its last offset lacks
// batches.
func (s *scanner) finish() fault {
	s.done = true
	c := s.o.Chain
	if s.next >= s.o.EndOffset || c != nil && c.AllowsGap(s.next, s.o.EndOffset) {
		return fault{}
	}
	return fault{CheckEnd, s.o.EndOffset, s.next}
}

// follows checks the batch at pos against the offset that comes next and the
// history.
func (s *scanner) follows(pos int64, h *batch.Header) (fault, error) {
	if !s.reaches(h, s.next) {
		return fault{CheckOffset, s.next, h.BaseOffset}, nil
	}
	if s.o.Chain == nil {
		return fault{}, nil
	}
	if epoch, ok := s.o.Chain.EpochAt(h.BaseOffset); ok && epoch != h.LeaderEpoch {
		return fault{CheckEpoch, int64(epoch), int64(h.LeaderEpoch)}, nil
	}
	if h.BaseOffset == s.next {
		return fault{}, nil
	}
	// An offset that jumped too far where jumps are allowed would condemn every
	// batch behind it. The next header tells.
	after, f, err := s.header(pos + int64(h.Size()))
	if err == nil && f.check == CheckNone && after.BaseOffset > s.next && after.BaseOffset <= h.LastOffset() {
		return fault{CheckOffset, s.next, h.BaseOffset}, nil
	}
	return fault{}, err
}

// reaches reports whether a batch may stand where next comes next.
func (s *scanner) reaches(h *batch.Header, next int64) bool {
	if h.BaseOffset > maxOffset-int64(h.LastOffsetDelta) {
		return false
	}
	if s.o.EndOffset > 0 && h.LastOffset() >= s.o.EndOffset {
		return false
	}
	return h.BaseOffset == next ||
		h.BaseOffset > next && s.o.Chain != nil && s.o.Chain.AllowsGap(next, h.BaseOffset)
}

// maxOffset is the largest offset that has a next one.
const maxOffset = 1<<63 - 2

func (s *scanner) where() ScanEnd { return ScanEnd{Pos: s.pos, Offset: s.next} }

// corrupt makes the error of a fault at s.pos.
func (s *scanner) corrupt(f fault) error {
	return &CorruptError{Path: s.o.Path, Pos: s.pos, Offset: s.next, Check: f.check, Expected: f.expected, Found: f.found}
}

// withPath completes an error of the reader.
func withPath(err error, path string) error {
	var c *CorruptError
	if errors.As(err, &c) && c.Path == "" {
		c.Path = path
	}
	return err
}
