package link

import (
	"fmt"
	"io"

	"github.com/mqd-broker/mqd/net/wire"
)

const (
	// readBuffer is how much one read can bring. Frames up to this size are
	// handled where they lie.
	readBuffer = 256 << 10

	// MaxAnswer bounds a frame from the broker, whatever it claims.
	MaxAnswer = 1 << maxBufferBits

	// growStep bounds what is made for a larger frame before its bytes come.
	growStep = 1 << 20

	// directBytes is the size of a body that is read into memory of its own, if not all of
	// it has come: it need not be copied then.
	directBytes = 32 << 10

	// headBytes is how much is read behind such a frame to find the next one's header.
	headBytes = 4 << 10
)

// Frame is one frame from the broker.
type Frame struct {
	wire.Header
	// Body is valid until the next frame is read, unless Own is set.
	Body []byte
	// Own is the memory of Body when that was read into memory of its own. Whoever keeps the memory sets Own to nil.
	Own *Buffer
}

// frameReader cuts a stream into frames with few reads.
type frameReader struct {
	src   io.Reader
	pool  *BufferPool
	limit uint32
	buf   []byte
	r, w  int  // read and write position in buf
	large bool // the last frame was read into memory of its own
}

// next returns the next frame. Errors are those of the stream, or wrap
// [ErrProtocol].
func (fr *frameReader) next() (Frame, error) {
	room := len(fr.buf)
	if fr.large {
		room = headBytes // what comes is probably the head of another one
	}
	if err := fr.fill(wire.HeaderSize, room); err != nil {
		return Frame{}, err
	}
	h, err := wire.ParseHeader(fr.buf[fr.r:fr.w], fr.limit)
	if err != nil {
		return Frame{}, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	fr.large = h.FrameSize() > len(fr.buf) || h.BodySize() >= directBytes && h.FrameSize() > fr.w-fr.r
	if fr.large {
		fr.r += wire.HeaderSize
		own, err := fr.direct(h.BodySize())
		if err != nil {
			return Frame{}, err
		}
		return Frame{Header: h, Body: own.B, Own: own}, nil
	}
	if err := fr.fill(h.FrameSize(), len(fr.buf)); err != nil {
		return Frame{}, err
	}
	body := fr.buf[fr.r+wire.HeaderSize : fr.r+h.FrameSize()]
	fr.r += h.FrameSize()
	return Frame{Header: h, Body: body[:len(body):len(body)]}, nil
}

// more reports whether a whole frame lies in the buffer already.
func (fr *frameReader) more() bool {
	h, err := wire.ParseHeader(fr.buf[fr.r:fr.w], fr.limit)
	return err == nil && h.FrameSize() <= fr.w-fr.r
}

// fill reads until n bytes, at most the buffer, are unread, and no more than room in the
// buffer.
func (fr *frameReader) fill(n, room int) error {
	if fr.r == fr.w {
		fr.r, fr.w = 0, 0
	}
	if len(fr.buf)-fr.r < n {
		fr.w = copy(fr.buf, fr.buf[fr.r:fr.w])
		fr.r = 0
	}
	for fr.w-fr.r < n {
		got, err := fr.src.Read(fr.buf[fr.w:min(len(fr.buf), fr.r+room)])
		fr.w += got
		if err != nil && fr.w-fr.r < n {
			return err
		}
	}
	return nil
}

// direct reads a body of n bytes into memory of its own, which grows as the
// bytes come.
func (fr *frameReader) direct(n int) (*Buffer, error) {
	b := fr.pool.Get(min(n, growStep))
	have := copy(b.B, fr.buf[fr.r:fr.w])
	fr.r += have
	for {
		got, err := io.ReadFull(fr.src, b.B[have:])
		have += got
		if err != nil {
			b.Release()
			return nil, err
		}
		if have == n {
			return b, nil
		}
		bigger := fr.pool.Get(min(n, 2*have))
		copy(bigger.B, b.B)
		b.Release()
		b = bigger
	}
}
