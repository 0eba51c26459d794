package journal

import (
	"errors"
	"fmt"

	"github.com/mqd-broker/mqd/engine/aio"
)

// windowBytes is the memory for reading. It consists of extents, each read at once: one
// is looked at while those behind it are on their way.
const (
	windowBytes   = 1 << 20
	windowExtents = 4
	extentBytes   = windowBytes / windowExtents
)

// mostUnreadable bounds the blocks that may be unreadable before the device is
// given up.
const mostUnreadable = 256

// window reads a ring forward. What is asked for next is on its way already: the ring is
// cut into extents from its start on, the last one shorter, and whoever takes bytes of
// one has the next ones read, round the end of the ring as well. So every byte is read
// once, whatever the sizes of rounds are, and the device does not wait for checksums.
type window struct {
	d       aio.Driver
	region  Region
	end     int64
	buf     []byte // from Alloc
	extents [windowExtents]extent
	turn    int    // the extent that is read into next
	scratch []byte // for what does not lie in one extent
	bad     int    // unreadable blocks so far
}

// extent is a piece of the ring in memory, or on its way there.
type extent struct {
	op   aio.Op
	pos  int64 // 0: none
	buf  []byte
	busy bool
}

// Complete notes the end of the read.
func (e *extent) Complete(*aio.Op) { e.busy = false }

func newWindow(d aio.Driver) (window, error) {
	buf, err := d.Alloc(windowBytes)
	return window{d: d, buf: buf}, err
}

// open begins to read a region of which the ring ends at end.
func (w *window) open(r Region, end int64) {
	w.region, w.end, w.turn = r, end, 0
	w.extents = [windowExtents]extent{}
}

// settle waits for the reads that nobody has waited for. Whoever has opened the window
// calls it before the region or the window is used for something else.
func (w *window) settle() error {
	for i := range w.extents {
		if err := w.wait(&w.extents[i]); err != nil {
			return err
		}
	}
	return nil
}

func (w *window) wait(e *extent) error {
	for e.busy {
		if _, err := w.d.Poll(pollWait); err != nil {
			return err
		}
	}
	return nil
}

// bytes returns the n bytes at pos; they are valid until the next call. A block
// that the device cannot read reads as zeros, which no checksum accepts.
func (w *window) bytes(pos int64, n int) ([]byte, error) {
	e, err := w.extent(pos)
	if err != nil {
		return nil, err
	}
	if at := int(pos - e.pos); at+n <= len(e.buf) {
		return e.buf[at : at+n], nil
	}
	if cap(w.scratch) < n {
		w.scratch = make([]byte, n)
	}
	for got := 0; got < n; {
		if e, err = w.extent(pos + int64(got)); err != nil {
			return nil, err
		}
		got += copy(w.scratch[got:n], e.buf[pos+int64(got)-e.pos:])
	}
	return w.scratch[:n], nil
}

// extent is the one that holds pos, with what the device gave.
func (w *window) extent(pos int64) (*extent, error) {
	at := RingStart + (pos-RingStart)/extentBytes*extentBytes
	e := w.find(at)
	if e == nil {
		e = &w.extents[w.turn]
		if err := w.wait(e); err != nil {
			return nil, err
		}
		w.load(at)
	}
	w.ahead(e)
	if err := w.wait(e); err != nil {
		return nil, err
	}
	switch err := e.op.Err; {
	case err == nil && e.op.N == len(e.buf):
		return e, nil
	case err == nil:
		err = fmt.Errorf("journal: expected %d bytes at %d, found %d: %w", len(e.buf), at, e.op.N, ErrRegion)
		e.pos = 0
		return nil, err
	case !aio.IsUnreadable(err):
		e.pos = 0
		return nil, err
	}
	return e, w.loadBlocks(e)
}

func (w *window) find(at int64) *extent {
	for i := range w.extents {
		if w.extents[i].pos == at {
			return &w.extents[i]
		}
	}
	return nil
}

// load has the extent at pos read into the memory of the oldest one.
func (w *window) load(pos int64) {
	i := w.turn
	w.turn = (i + 1) % windowExtents
	e := &w.extents[i]
	e.pos, e.busy, e.op.Owner = pos, true, e
	e.buf = w.buf[i*extentBytes:][:min(extentBytes, w.end-pos)]
	w.region.Read(&e.op, e.buf, pos)
}

// ahead has those extents read that follow e, as far as there is memory.
func (w *window) ahead(e *extent) {
	at := e.pos
	for range windowExtents - 1 {
		if at += extentBytes; at >= w.end {
			at = RingStart
		}
		if w.find(at) != nil {
			continue
		}
		if next := &w.extents[w.turn]; next == e || next.busy {
			return
		}
		w.load(at)
	}
}

// loadBlocks reads block by block, so that a bad one does not hide its neighbours.
func (w *window) loadBlocks(e *extent) error {
	for at := 0; at < len(e.buf); at += BlockSize {
		b := e.buf[at : at+BlockSize]
		err := readRegion(w.d, w.region, b, e.pos+int64(at))
		if err == nil {
			continue
		}
		if !aio.IsUnreadable(err) {
			e.pos = 0
			return err
		}
		if w.bad++; w.bad > mostUnreadable {
			at := e.pos + int64(at)
			e.pos = 0
			return fmt.Errorf("journal: %d unreadable blocks, last at %d: %w", w.bad, at, errors.Join(ErrUnreadable, err))
		}
		clear(b)
	}
	e.op.Err, e.op.N = nil, len(e.buf)
	return nil
}
