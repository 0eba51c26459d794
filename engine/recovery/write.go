package recovery

import (
	"fmt"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/layout"
)

// writeBytes is the size of a write to a segment, writeDepth how many are under way.
const (
	writeBytes = 512 << 10
	writeDepth = 4
)

// writer has several writes to segments under way.
type writer struct {
	d     aio.Driver
	slots [writeDepth]writeSlot
	err   error
}

// writeSlot is the memory of a write.
type writeSlot struct {
	w   *writer
	op  aio.Op
	buf []byte // aligned
}

// Complete notes the end of the write.
func (s *writeSlot) Complete(op *aio.Op) {
	if s.w.err == nil {
		s.w.err = op.Err
	}
}

func (w *writer) open(d aio.Driver) error {
	w.d = d
	for i := range w.slots {
		buf, err := d.Alloc(writeBytes)
		if err != nil {
			return err
		}
		w.slots[i] = writeSlot{w: w, buf: buf}
	}
	return nil
}

// slot is memory in which nothing is under way.
func (w *writer) slot() (*writeSlot, error) {
	for {
		for i := range w.slots {
			if s := &w.slots[i]; !s.op.InFlight() {
				return s, w.err
			}
		}
		if _, err := w.d.Poll(groupWait); err != nil {
			return nil, err
		}
	}
}

// write writes the first n bytes of a slot, filled up with zeros to whole blocks, and
// returns how many that are.
func (w *writer) write(s *writeSlot, f aio.File, n int, off int64) int64 {
	end := (n + aio.BlockSize - 1) &^ (aio.BlockSize - 1)
	clear(s.buf[n:end])
	s.op.Kind, s.op.File, s.op.Buf, s.op.Off, s.op.Owner = aio.KindWrite, f, s.buf[:end], off, s
	w.d.Submit(&s.op)
	return int64(end)
}

// settle waits for everything that is under way.
func (w *writer) settle() error {
	for i := range w.slots {
		for w.slots[i].op.InFlight() {
			if _, err := w.d.Poll(groupWait); err != nil {
				return err
			}
		}
	}
	return w.err
}

// flushAll writes the pending batches of every partition.
func (r *recovery) flushAll() error {
	for _, p := range r.sorted() {
		if err := r.startFlush(p); err != nil {
			return err
		}
	}
	return r.writer.settle()
}

// flushPending writes a partition's pending batches.
func (r *recovery) flushPending(p *replayed) error {
	if err := r.startFlush(p); err != nil {
		return err
	}
	return r.writer.settle()
}

// startFlush begins to write a partition's pending batches, whole blocks at a time; the
// rest of the last block is zeros. Nothing else of the partition may be under way.
func (r *recovery) startFlush(p *replayed) error {
	if len(p.pending) == 0 {
		return nil
	}
	if err := r.openFile(p); err != nil {
		return err
	}
	block := p.seg.Size &^ (aio.BlockSize - 1)
	s, err := r.writer.slot()
	if err != nil {
		return err
	}
	n := int(p.seg.Size - block)
	if n > 0 {
		if err := r.oldHead(p, s.buf, block, n); err != nil {
			return err
		}
	}
	for _, rest := range p.pending {
		for len(rest) > 0 {
			if n == len(s.buf) {
				block += r.writer.write(s, p.file, n, block)
				if s, err = r.writer.slot(); err != nil {
					return err
				}
				n = 0
			}
			m := copy(s.buf[n:], rest)
			n, rest = n+m, rest[m:]
		}
	}
	block += r.writer.write(s, p.file, n, block)
	p.seg.Size += p.waiting
	p.seg.Allocated = max(p.seg.Allocated, block)
	p.noteFile()
	r.pending -= p.waiting
	p.pending, p.waiting, p.head = nil, 0, nil
	return nil
}

// oldHead puts the n bytes before the partition's end into buf: from a tail entry if
// there is one, else from the file.
func (r *recovery) oldHead(p *replayed, buf []byte, block int64, n int) error {
	if len(p.head) == n {
		copy(buf, p.head)
		return nil
	}
	got, err := aio.ReadAt(r.d, p.file, buf[:aio.BlockSize], block)
	if err == nil && got < n {
		err = &layout.CorruptError{Path: p.dir, Pos: block, Offset: -1, Expected: fmt.Sprintf("%d bytes", n), Found: fmt.Sprintf("%d bytes", got)}
	}
	return err
}
