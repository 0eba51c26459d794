package drive

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/mqd-broker/mqd/bench/dialect"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/internal/invariant"
	"github.com/mqd-broker/mqd/net/wire"
)

// closeWait bounds how long a connection takes to close.
const closeWait = 10 * time.Second

// Framer gets the frames of a link.
type Framer interface {
	// Frame is called for each frame; body is valid during the call only. now is
	// the time at which the frame's last bytes were received.
	Frame(l *Link, h wire.Header, body []byte, now int64) error
}

// Link is one connection on a driver, in either direction. Frames are built in
// one of two buffers while the other is being sent: what has gathered goes with
// one send as soon as the previous one is done.
type Link struct {
	drv   aio.Driver
	clock aio.Clock
	sock  aio.Sock
	To    Framer
	Talk  dialect.Dialect
	Limit uint32 // largest frame taken, in bytes

	send, recv aio.Op
	vec        [1][]byte
	bufs       [2][]byte
	fill       int    // the buffer being filled
	used       int    // bytes in it
	part       []byte // the beginning of a frame
	closing    bool
	Err        error
}

// NewLink makes a link of an open socket. bufBytes is the size of each of its
// send buffers, partBytes the largest frame expected.
func NewLink(drv aio.Driver, sock aio.Sock, to Framer, bufBytes, partBytes int) (*Link, error) {
	l := &Link{drv: drv, clock: drv.Clock(), sock: sock, To: to, Talk: dialect.Native{}, Limit: uint32(max(partBytes, wire.MaxFrameBeforeHello))}
	for i := range l.bufs {
		b, err := drv.Alloc(bufBytes)
		if err != nil {
			return nil, err
		}
		l.bufs[i] = b
	}
	l.part = make([]byte, 0, partBytes)
	l.recv = aio.Op{Kind: aio.KindRecv, Sock: sock, Owner: l}
	l.send = aio.Op{Kind: aio.KindSend, Sock: sock, Owner: l}
	drv.Submit(&l.recv)
	return l, nil
}

// Room returns the bytes gathered so far with room for n more behind them, or nil
// if there is none now. The caller appends and calls Filled.
func (l *Link) Room(n int) []byte {
	b := l.bufs[l.fill]
	if len(b)-l.used < n {
		return nil
	}
	return b[:l.used:len(b)]
}

// Filled takes what the caller has made of Room's result.
func (l *Link) Filled(b []byte) {
	if len(b) > len(l.bufs[l.fill]) || &b[0] != &l.bufs[l.fill][0] {
		invariant.Violated("drive: a frame outgrew the send buffer")
	}
	l.used = len(b)
}

// Flush sends what has gathered, unless a send is in flight, and reports whether
// it did.
func (l *Link) Flush() bool {
	if l.used == 0 || l.send.InFlight() || l.Err != nil {
		return false
	}
	l.vec[0] = l.bufs[l.fill][:l.used]
	l.send.Vec = l.vec[:]
	l.fill, l.used = 1-l.fill, 0
	l.drv.Submit(&l.send)
	return true
}

// Complete implements aio.Completer.
func (l *Link) Complete(op *aio.Op) {
	switch {
	case op.Kind == aio.KindSend:
		l.fail("send", op.Err)
	case op.Err != nil && !errors.Is(op.Err, aio.ErrNoBuffers):
		l.fail("receive", op.Err)
	case op.Err == nil && len(op.Data) == 0:
		l.fail("receive", io.EOF)
	default:
		if len(op.Data) > 0 {
			now := l.clock.Now()
			err := l.receive(op.Data, now)
			l.drv.ReleaseBuf(op.BufID)
			l.fail("receive", err)
		}
		if !op.More && !l.closing && l.Err == nil {
			l.drv.Submit(op)
		}
	}
}

// fail keeps the first error.
func (l *Link) fail(what string, err error) {
	if err != nil && l.Err == nil && !l.closing {
		l.Err = fmt.Errorf("%w: %s: %w", ErrConnection, what, err)
	}
}

// receive takes bytes apart into frames.
func (l *Link) receive(data []byte, now int64) error {
	for len(data) > 0 {
		var err error
		if len(l.part) == 0 {
			if data, err = l.whole(data, now); err != nil {
				return err
			}
		}
		if data, err = l.piece(data, now); err != nil {
			return err
		}
	}
	return nil
}

// whole delivers the frames that lie completely in data and returns the rest.
func (l *Link) whole(data []byte, now int64) ([]byte, error) {
	head := l.Talk.HeadSize()
	for len(data) >= head {
		h, err := l.Talk.Head(data, l.Limit)
		if err != nil {
			return nil, err
		}
		if len(data) < h.FrameSize() {
			break
		}
		if err := l.To.Frame(l, h, data[head:h.FrameSize()], now); err != nil {
			return nil, err
		}
		data = data[h.FrameSize():]
	}
	return data, nil
}

// piece adds to the frame that is incomplete, delivers it when it is whole, and
// returns the rest of data.
func (l *Link) piece(data []byte, now int64) ([]byte, error) {
	head := l.Talk.HeadSize()
	want := head
	if len(l.part) >= want {
		h, err := l.Talk.Head(l.part, l.Limit)
		if err != nil {
			return nil, err
		}
		want = h.FrameSize()
	}
	k := min(max(0, want-len(l.part)), len(data))
	l.part = append(l.part, data[:k]...)
	if len(l.part) < head {
		return data[k:], nil
	}
	h, err := l.Talk.Head(l.part, l.Limit)
	if err != nil {
		return nil, err
	}
	if len(l.part) == h.FrameSize() {
		err = l.To.Frame(l, h, l.part[head:], now)
		l.part = l.part[:0]
	}
	return data[k:], err
}

// Close ends the connection and waits until nothing of it is in flight.
func (l *Link) Close(lp *Loop) error {
	l.closing = true
	if err := aio.Do(l.drv, &aio.Op{Kind: aio.KindShutdown, Sock: l.sock}); err != nil && l.Err == nil {
		l.drv.Cancel(&l.recv)
	}
	l.drv.Cancel(&l.recv)
	for end := lp.Clock.Now() + int64(closeWait); l.recv.InFlight() || l.send.InFlight(); {
		if lp.Clock.Now() > end {
			return fmt.Errorf("%w: close: operations still in flight after %v", ErrConnection, closeWait)
		}
		if err := lp.Turn(end); err != nil {
			return err
		}
	}
	return aio.Do(l.drv, &aio.Op{Kind: aio.KindCloseSock, Sock: l.sock})
}

// answer keeps one response, for requests outside measurements.
type answer struct {
	corr uint32
	got  bool
	head wire.Header
	body []byte
}

func (a *answer) Frame(_ *Link, h wire.Header, body []byte, _ int64) error {
	if h.Correlation == a.corr && h.IsResponse() {
		a.got, a.head, a.body = true, h, slices.Clone(body)
	}
	return nil
}

// callWait bounds a call.
const callWait = 30 * time.Second

// Call sends the request that build appends and waits for its response. No other
// request may be in flight.
func (l *Link) Call(lp *Loop, build func(dst []byte, corr uint32) []byte) (wire.Header, []byte, error) {
	a := &answer{corr: uint32(lp.Clock.Now())}
	before := l.To
	l.To = a
	defer func() { l.To = before }()
	l.Filled(build(l.Room(len(l.bufs[l.fill])-l.used), a.corr))
	end := lp.Clock.Now() + int64(callWait)
	for !a.got {
		l.Flush()
		if err := lp.Turn(end); err != nil {
			return a.head, nil, err
		}
		if l.Err != nil {
			return a.head, nil, l.Err
		}
		if lp.Clock.Now() > end {
			return a.head, nil, fmt.Errorf("%w: no answer within %v", ErrBroker, callWait)
		}
	}
	if a.head.IsError() {
		e, err := wire.DecodeErrorResponse(a.body)
		if err != nil {
			return a.head, nil, err
		}
		return a.head, nil, fmt.Errorf("%w: %s: %s %s", ErrBroker, a.head.Op, e.Code, e.Message)
	}
	return a.head, a.body, nil
}
