package journal

import (
	"errors"
	"fmt"

	"github.com/mqd-broker/mqd/engine/aio"
)

// windowBytes is the memory for reading, and the size of a read.
const windowBytes = 1 << 20

// mostUnreadable bounds the blocks that may be unreadable before the device is
// given up.
const mostUnreadable = 256

// window reads a region forward through one buffer.
type window struct {
	d       aio.Driver
	region  Region
	end     int64
	buf     []byte // from Alloc
	pos     int64  // of buf's content
	n       int    // bytes of it
	scratch []byte // for what is longer than buf
	bad     int    // unreadable blocks so far
}

// bytes returns the n bytes at pos; they are valid until the next call. A block
// that the device cannot read reads as zeros, which no checksum accepts.
func (w *window) bytes(pos int64, n int) ([]byte, error) {
	if pos >= w.pos && pos+int64(n) <= w.pos+int64(w.n) {
		return w.buf[pos-w.pos:][:n], nil
	}
	if n <= len(w.buf) {
		err := w.load(pos)
		return w.buf[:n], err
	}
	if cap(w.scratch) < n {
		w.scratch = make([]byte, n)
	}
	for got := 0; got < n; got += w.n {
		if err := w.load(pos + int64(got)); err != nil {
			return nil, err
		}
		copy(w.scratch[got:n], w.buf[:w.n])
	}
	return w.scratch[:n], nil
}

func (w *window) load(pos int64) error {
	n := int(min(int64(len(w.buf)), w.end-pos))
	w.pos, w.n = pos, n
	err := readRegion(w.d, w.region, w.buf[:n], pos)
	switch {
	case err == nil:
		return nil
	case !aio.IsUnreadable(err):
		w.n = 0
		return err
	}
	return w.loadBlocks()
}

// loadBlocks reads block by block, so that a bad one does not hide its neighbours.
func (w *window) loadBlocks() error {
	for at := 0; at < w.n; at += BlockSize {
		b := w.buf[at : at+BlockSize]
		err := readRegion(w.d, w.region, b, w.pos+int64(at))
		if err == nil {
			continue
		}
		if !aio.IsUnreadable(err) {
			w.n = 0
			return err
		}
		if w.bad++; w.bad > mostUnreadable {
			w.n = 0
			return fmt.Errorf("journal: %d unreadable blocks, last at %d: %w", w.bad, w.pos+int64(at), errors.Join(ErrUnreadable, err))
		}
		clear(b)
	}
	return nil
}
