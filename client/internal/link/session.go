package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/mqd-broker/mqd/net/wire"
)

// Session is one connection of a link, from the hello response to its end.
type Session struct {
	l     *Link
	nc    net.Conn
	addr  string
	Hello wire.HelloResponse
	idle  time.Duration // after which the broker closes a silent connection
	rd    frameReader
	raw   *rawWriter // nil where only the write loop can write
	out   outbox     // belongs to whoever has the link's right to write

	frame    Frame         // that readLoop is handling; here, it is made once
	received atomic.Uint64 // frames
	dead     chan struct{} // closed with err set, under the link's lock
	err      error
}

// open dials one address and shakes hands.
func (l *Link) open(ctx context.Context, addr string) (s *Session, err error) {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.Timeout)
	defer cancel()
	start := time.Now()
	defer func() {
		if err == nil {
			l.cfg.Counters.Connects.Add(1)
			l.cfg.Log.Info("connected", "address", addr, "shard", s.Hello.Shard, "wanted", l.shard, "broker", s.Hello.ServerVersion)
		} else {
			l.cfg.Counters.ConnectFailures.Add(1)
		}
		if h := l.cfg.OnConnect; h != nil {
			h(addr, time.Since(start), err)
		}
	}()
	nc, err := l.cfg.Dial(ctx, addr)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDisconnected, err)
	}
	s = &Session{l: l, nc: nc, addr: addr, dead: make(chan struct{})}
	s.rd = frameReader{src: nc, pool: &l.cfg.Buffers, limit: wire.MaxFrameBeforeHello, buf: make([]byte, readBuffer)}
	// The past as a deadline makes reads and writes return at once.
	stop := context.AfterFunc(ctx, func() { _ = nc.SetDeadline(time.Unix(1, 0)) })
	err = s.shakeHands()
	if !stop() {
		err = fmt.Errorf("%w: %w", ErrDisconnected, context.Cause(ctx))
	}
	if err != nil {
		_ = nc.Close()
		return nil, err
	}
	s.raw = newRawWriter(nc)
	return s, nil
}

// shakeHands sends hello and takes the answer.
func (s *Session) shakeHands() error {
	cfg := s.l.cfg
	hello := wire.AppendHelloRequest(nil, 0, wire.HelloRequest{
		MinProtocol: wire.Protocol, MaxProtocol: wire.Protocol, WantedShard: s.l.shard,
		ClientID: cfg.ClientID, Tenant: cfg.Tenant,
	})
	if _, err := s.nc.Write(hello); err != nil {
		return fmt.Errorf("%w: hello: %w", ErrDisconnected, err)
	}
	f, err := s.rd.next()
	if err != nil {
		return fmt.Errorf("%w: hello: %w", ErrDisconnected, err)
	}
	switch {
	case f.Op != wire.OpHello || !f.IsResponse() || f.Correlation != 0:
		return fmt.Errorf("%w: hello answered with %s", ErrProtocol, f.Op)
	case f.IsError():
		e, err := wire.DecodeErrorResponse(f.Body)
		if err != nil {
			return fmt.Errorf("%w: hello: %w", ErrProtocol, err)
		}
		return &Refusal{Code: e.Code, Message: e.Message}
	}
	if s.Hello, err = wire.DecodeHelloResponse(f.Body); err != nil {
		return fmt.Errorf("%w: hello: %w", ErrProtocol, err)
	}
	if s.Hello.Protocol != wire.Protocol {
		return fmt.Errorf("%w: hello chose protocol %d, expected %d", ErrProtocol, s.Hello.Protocol, wire.Protocol)
	}
	s.idle = time.Duration(s.Hello.IdleTimeout) * time.Millisecond
	if s.idle <= 0 {
		s.idle = 2 * time.Minute
	}
	s.rd.limit = MaxAnswer
	return nil
}

// kill ends the session with its first error; the link's run does the rest.
func (s *Session) kill(err error) {
	s.l.mu.Lock()
	if s.err == nil {
		s.err = err
		close(s.dead)
	}
	s.l.mu.Unlock()
	_ = s.nc.Close()
}

// readLoop handles frames until the connection ends. Requests that answers give
// rise to are sent together, when all frames that one read brought are handled.
func (s *Session) readLoop() {
	f := &s.frame
	for {
		var err error
		if *f, err = s.rd.next(); err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				err = errors.New("the broker closed the connection")
			}
			s.kill(fmt.Errorf("%w: %w", ErrDisconnected, err))
			return
		}
		s.received.Add(1)
		s.l.cfg.Counters.FramesReceived.Add(1)
		if err := s.handle(f); err != nil {
			s.kill(err)
			return
		}
		if !s.rd.more() {
			s.l.Flush()
		}
	}
}

// handle gives one answer to its request.
func (s *Session) handle(f *Frame) error {
	l := s.l
	l.mu.Lock()
	r, ok := l.waiting[f.Correlation]
	delete(l.waiting, f.Correlation)
	l.mu.Unlock()
	// Deliver takes Own away from the frame if it keeps the memory.
	defer func() {
		if f.Own != nil {
			f.Own.Release()
		}
	}()
	if !ok {
		if f.IsError() {
			// An unacknowledged request that the broker could not decode.
			l.cfg.Log.Warn("error response to no request", "op", f.Op, "correlation", f.Correlation)
			return nil
		}
		return fmt.Errorf("%w: %s answers correlation id %d, which is not in use", ErrProtocol, f.Op, f.Correlation)
	}
	var err error
	if !f.IsResponse() || f.Op != r.Op() {
		err = fmt.Errorf("%s answered with %s", r.Op(), f.Op)
	} else {
		err = r.Deliver(l, f)
	}
	if err == nil {
		return nil
	}
	// The request fails with the session, when nobody writes its frame any more.
	l.mu.Lock()
	l.waiting[f.Correlation] = r
	l.mu.Unlock()
	return fmt.Errorf("%w: %w", ErrProtocol, err)
}
