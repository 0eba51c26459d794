package link

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/mqd-broker/mqd/net/wire"
)

// Request is one frame to send and what becomes of it. Exactly one of
// Deliver and Fail ends a request that is answered; Written alone ends one that
// is not. All are called without locks of this package.
type Request interface {
	// Op is the frame's operation; the answer must have the same.
	Op() wire.Op
	// Answered says whether an answer will come.
	Answered() bool
	// Encode returns the whole frame. It is called again when the frame must be
	// sent on another connection. The bytes stay as they are until Written.
	Encode(corr uint32) []byte
	// Written tells that the operating system has the whole frame. It may come
	// after the answer.
	Written()
	// Deliver hands over the answer, which came on link cur. It must not wait.
	// An error says that the answer breaks the protocol; nothing has been done
	// with it then, and Fail follows when the session has ended.
	Deliver(cur *Link, f *Frame) error
	// Fail ends the request without an answer; sent says whether the broker may
	// have received it.
	Fail(err error, sent bool)
}

// Link is the way to one shard of the broker: a queue of requests and the
// connection over which they leave. Connections come and go; the queue stays.
//
// What was written when a connection dies is failed with an unknown outcome and
// never sent again. What was not written completely cannot have been carried
// out, goes back to the front of the queue, and is sent on the next connection
// in the same order.
type Link struct {
	cfg   *Config
	shard int32 // wanted in hello

	mu      sync.Mutex
	queue   []Request
	waiting map[uint32]Request // sent and not answered, by correlation id
	corr    uint32
	sess    *Session // nil while there is no connection
	writing bool     // somebody has the right to write
	closed  error

	wake chan struct{} // the write loop should look again
	done chan struct{} // Run has ended
}

// New makes a link that asks for a shard, wire.AnyShard for whichever the
// broker likes. Nothing happens before Run.
func New(cfg *Config, shard int32) *Link {
	return &Link{
		cfg: cfg, shard: shard,
		waiting: map[uint32]Request{},
		wake:    make(chan struct{}, 1),
		done:    make(chan struct{}),
	}
}

// Pin has further connections ask for a shard; call it before Run.
func (l *Link) Pin(shard uint32) { l.shard = int32(shard) }

// Done is closed when Run has ended.
func (l *Link) Done() <-chan struct{} { return l.done }

// Enqueue adds a request; false means that the link is closed. Whoever enqueues
// calls Kick or Flush afterwards, outside its own locks.
func (l *Link) Enqueue(r Request) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed != nil {
		return false
	}
	l.queue = append(l.queue, r)
	return true
}

// Kick has the write loop look at the queue.
func (l *Link) Kick() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Withdraw takes a request back that has not been sent; false if it was.
func (l *Link) Withdraw(r Request) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.queue, r)
	if i < 0 {
		return false
	}
	l.queue = slices.Delete(l.queue, i, i+1)
	return true
}

// Run keeps a connection up until the client is closed. first may be a session
// that is already open.
func (l *Link) Run(first *Session) {
	defer close(l.done)
	s := first
	for attempt := 0; ; {
		if s == nil {
			if !l.pause(attempt) {
				return
			}
			var err error
			if s, err = l.Connect(l.cfg.Context); err != nil {
				attempt++
				l.refused(err)
				continue
			}
		}
		if !l.serve(s) {
			return
		}
		// A broker that hangs up right after hello is not hammered.
		if attempt++; s.received.Load() > 0 {
			attempt = 0
		}
		s = nil
	}
}

// pause waits before an attempt to connect; false if the client closes.
func (l *Link) pause(attempt int) bool {
	t := time.NewTimer(Backoff(l.cfg.BackoffMin, l.cfg.BackoffMax, attempt))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-l.cfg.Context.Done():
		return false
	}
}

// Backoff doubles least with every attempt up to most, less a random part of up
// to half, so that clients do not come back together.
func Backoff(least, most time.Duration, attempt int) time.Duration {
	d := most
	if attempt < 30 && least<<attempt < most {
		d = least << attempt
	}
	return d - rand.N(d/2+1)
}

// refused deals with a failed attempt. A broker that answered hello with a
// refusal will not take the queued requests either, so they end.
func (l *Link) refused(err error) {
	l.cfg.Log.Warn("connection failed", "shard", l.shard, "error", err)
	var r *Refusal
	if !errors.As(err, &r) || r.Code.Retriable() {
		return
	}
	l.mu.Lock()
	queue := l.queue
	l.queue = nil
	l.mu.Unlock()
	for _, q := range queue {
		q.Fail(err, false)
	}
}

// Connect tries the addresses in turn, each for at most the configured timeout.
func (l *Link) Connect(ctx context.Context) (*Session, error) {
	var errs []error
	for _, addr := range l.cfg.Addrs {
		s, err := l.open(ctx, addr)
		if err == nil {
			return s, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", addr, err))
		if ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(errs...)
}

// serve uses a session until it dies; false if the link was closed before.
func (l *Link) serve(s *Session) bool {
	l.mu.Lock()
	if l.closed != nil {
		l.mu.Unlock()
		_ = s.nc.Close()
		return false
	}
	l.sess = s
	l.mu.Unlock()
	l.cfg.Counters.Connections.Add(1)
	l.cfg.OnHello(s.Hello)
	read := make(chan struct{})
	go func() {
		defer close(read)
		s.readLoop()
	}()
	s.writeLoop()
	<-read
	l.cfg.Counters.Connections.Add(-1)
	l.settle(s)
	return true
}

// settle ends or requeues what a dead session leaves. Nobody writes any more.
func (l *Link) settle(s *Session) {
	l.mu.Lock()
	l.sess = nil
	unsent, corrs := s.out.rest()
	for _, c := range corrs {
		delete(l.waiting, c)
	}
	l.queue = append(slices.Clone(unsent), l.queue...)
	lost := l.waiting
	l.waiting = map[uint32]Request{}
	closed := l.closed
	l.mu.Unlock()
	l.cfg.Log.Info("connection ended", "shard", l.shard, "error", s.err, "unanswered", len(lost), "unsent", len(unsent))

	corrs = corrs[:0]
	for c := range lost {
		corrs = append(corrs, c)
	}
	slices.SortFunc(corrs, func(a, b uint32) int { return int(int32(a - b)) })
	err := s.err
	if closed != nil {
		err = closed
	}
	for _, c := range corrs {
		lost[c].Fail(err, true)
	}
	if closed != nil {
		l.drain(closed)
	}
}

// Close ends the link: what is queued fails, what is sent has an unknown
// outcome. It does not wait for Run.
func (l *Link) Close(err error) {
	l.mu.Lock()
	if l.closed == nil {
		l.closed = err
	}
	s := l.sess
	l.mu.Unlock()
	if s != nil {
		s.kill(err) // settle drains the queue
		return
	}
	l.drain(err)
}

// drain fails the queue of a closed link.
func (l *Link) drain(err error) {
	l.mu.Lock()
	queue := l.queue
	l.queue = nil
	l.mu.Unlock()
	for _, r := range queue {
		r.Fail(err, false)
	}
}
