package compaction

import (
	"errors"
	"fmt"
	"io"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/segment"
)

// pieceBytes is how much of a log one run of a job reads, in bytes: some milliseconds of a
// helper. A larger batch is read whole.
const pieceBytes = 1 << 20

// expandLimit bounds what one batch may expand to, in bytes. What expands to more is kept as
// it is.
const expandLimit = 64 << 20

// cursor walks the batches of a sealed log, a piece at a time. Nothing is open between two
// pieces.
type cursor struct {
	log  segment.Log
	size int64 // of the log, in bytes
	pos  int64 // of the next batch
	next int64 // its offset, if no gap is recorded there
	buf  []byte
	body []byte // what a batch has expanded to
}

func newCursor(s *Segment) cursor {
	return cursor{log: s.Log, size: s.Bytes, next: s.Log.ID.Base}
}

// rewind goes back to the start of the log.
func (c *cursor) rewind() { c.pos, c.next = 0, c.log.ID.Base }

// read reads the next piece and calls fn for each whole batch in it, at least one. It
// reports whether that was the end of the log. An error of fn ends the walk before the batch
// that fn was called for. Damage is an error that wraps segment.ErrCorrupt, and a log that
// has another size one that wraps segment.ErrLogSize.
func (c *cursor) read(fs aio.FS, fn func(h *batch.Header, b []byte) error) (end bool, err error) {
	if c.pos == c.size {
		return true, nil
	}
	f, size, err := segment.OpenLog(fs, c.log.LogPath())
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }() // read only: nothing can be lost
	if size != c.size {
		return false, fmt.Errorf("%s: %w: expected %d bytes, found %d", c.log.LogPath(), segment.ErrLogSize, c.size, size)
	}
	piece, err := c.fill(f, int(min(pieceBytes, c.size-c.pos)))
	if err != nil {
		return false, err
	}
	if n, serr := batch.Size(piece); serr == nil && n > len(piece) && c.pos+int64(n) <= c.size {
		if piece, err = c.fill(f, n); err != nil {
			return false, err
		}
	}
	return c.walk(piece, fn)
}

// fill reads n bytes, or what there is, from c.pos on.
func (c *cursor) fill(f io.ReaderAt, n int) ([]byte, error) {
	const block = aio.BlockSize
	start := c.pos &^ (block - 1)
	skip := int(c.pos - start)
	if whole := (skip + n + block - 1) &^ (block - 1); whole > len(c.buf) {
		c.buf = segment.AlignedBuffer(whole)
	}
	want := int(min(int64(len(c.buf)), c.size-start))
	got, err := f.ReadAt(c.buf, start)
	if got < want {
		switch {
		case err == nil || errors.Is(err, io.EOF):
			err = c.damaged("the file ends early")
		case aio.IsUnreadable(err):
			err = c.damaged(err.Error())
		}
		return nil, err
	}
	return c.buf[skip:want], nil
}

// walk goes over the whole batches of a piece, at least one.
func (c *cursor) walk(piece []byte, fn func(h *batch.Header, b []byte) error) (end bool, err error) {
	for first := true; len(piece) > 0; first = false {
		n, err := batch.Size(piece)
		if err == nil && n > len(piece) && !first && c.pos+int64(n) <= c.size {
			return false, nil
		}
		if err != nil || n > len(piece) {
			return false, c.damaged("no whole batch begins there")
		}
		h, err := batch.CheckStored(piece[:n])
		if err != nil {
			return false, c.damaged(err.Error())
		}
		if !c.follows(h.BaseOffset) {
			return false, c.damaged(fmt.Sprintf("a batch begins at %d", h.BaseOffset))
		}
		if err := fn(&h, piece[:n]); err != nil {
			return false, err
		}
		c.pos, c.next = c.pos+int64(n), h.NextOffset()
		piece = piece[n:]
	}
	if c.pos < c.size {
		return false, nil
	}
	if !c.follows(c.log.EndOffset) {
		return false, c.damaged(fmt.Sprintf("the log ends before %d", c.log.EndOffset))
	}
	return true, nil
}

// follows reports whether offset may come next.
func (c *cursor) follows(offset int64) bool {
	return offset == c.next || offset > c.next && c.log.Chain != nil && c.log.Chain.AllowsGap(c.next, offset)
}

func (c *cursor) damaged(found string) error {
	return fmt.Errorf("%s: %w: at byte %d, offset %d: %s", c.log.LogPath(), segment.ErrCorrupt, c.pos, c.next, found)
}

// expand is the records of a batch, valid until the next call.
func (c *cursor) expand(h *batch.Header, b []byte) ([]byte, error) {
	body := b[batch.HeaderSize:]
	if h.Attributes.Codec() == batch.CodecNone {
		return body, nil
	}
	if cap(c.body) > 4*pieceBytes {
		c.body = nil // of an unusual batch
	}
	var err error
	c.body, err = batch.Decompress(c.body[:0], *h, body, expandLimit)
	return c.body, err
}
