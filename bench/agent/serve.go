package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/mqd-broker/mqd/bench"
	"github.com/mqd-broker/mqd/bench/figure"
	"github.com/mqd-broker/mqd/bench/machine"
	"github.com/mqd-broker/mqd/engine/aio"
)

// Options are an agent's.
type Options struct {
	// Token is what a coordinator must know, MinToken bytes or more.
	Token []byte
	// CPUs that client threads are pinned to, in order.
	CPUs []int
	// Host is what the agent says of its machine.
	Host func() machine.Host
	// Log, if set, gets a line for whoever comes and goes.
	Log func(line string)
}

// server is an agent.
type server struct {
	Options
	p     bench.Platform
	clock aio.Clock
	busy  sync.Mutex // held by the coordinator that is served
}

// Serve does the parts of runs that coordinators ask for, one coordinator at a time,
// until the context ends.
func Serve(ctx context.Context, l net.Listener, p bench.Platform, o Options) error {
	if len(o.Token) < MinToken {
		return fmt.Errorf("%w: a token of %d bytes, expected %d or more", bench.ErrConfig, len(o.Token), MinToken)
	}
	if o.Log == nil {
		o.Log = func(string) {}
	}
	clock, err := bench.ClockOf(p)
	if err != nil {
		return err
	}
	s := &server{Options: o, p: p, clock: clock}
	var all sync.WaitGroup
	defer all.Wait()
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	for {
		nc, err := l.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		all.Go(func() {
			defer nc.Close()
			hangUp := context.AfterFunc(ctx, func() { _ = nc.Close() })
			defer hangUp()
			s.Log(fmt.Sprintf("%s: %v", nc.RemoteAddr(), s.serve(ctx, newConn(nc))))
		})
	}
}

var errBye = errors.New("the coordinator has gone")

// serve serves one coordinator.
func (s *server) serve(ctx context.Context, c *conn) error {
	if err := c.nc.SetDeadline(time.Now().Add(handshakeWait)); err != nil {
		return err
	}
	ours := false
	defer func() {
		if ours {
			s.busy.Unlock()
		}
	}()
	if err := c.greet(s.Token, s.Host(), func() bool { ours = s.busy.TryLock(); return ours }); err != nil {
		return err
	}
	if err := c.nc.SetDeadline(time.Time{}); err != nil {
		return err
	}
	t := &task{server: s, conn: c}
	defer t.drop()
	for {
		f, err := c.read()
		if err != nil {
			return errors.Join(errBye, ctx.Err())
		}
		if f.Kind == ping {
			err = c.write(frame{Kind: pong, At: s.clock.Now()})
		} else if werr := t.take(ctx, f); werr != nil {
			err = c.write(frame{Kind: failed, Error: werr.Error()})
		}
		if err != nil {
			return err
		}
	}
}

// task is a coordinator's work on an agent.
type task struct {
	*server
	conn *conn

	session *bench.Session
	live    *figure.Live
	begun   bool
	waiting sync.WaitGroup
	mu      sync.Mutex // of done
	done    bool       // the session has ended and its result is on the way
}

// take does what a frame asks for.
func (t *task) take(ctx context.Context, f frame) (err error) {
	t.mu.Lock()
	if t.done {
		t.session, t.begun, t.done = nil, false, false
	}
	t.mu.Unlock()
	switch {
	case f.Kind == plan && f.Plan != nil && t.session == nil:
		f.Plan.Load.CPUs, t.live = t.CPUs, &figure.Live{}
		f.Plan.Load.Live = t.live
		if t.session, err = bench.Join(ctx, t.p, *f.Plan); err != nil {
			return err
		}
		return t.conn.write(frame{Kind: ready})
	case f.Kind == begin && t.session != nil && !t.begun:
		t.begun = true
		t.session.Begin(f.At)
		s, live := t.session, t.live
		t.waiting.Go(func() { t.report(ctx, s, live) })
		return nil
	case f.Kind == ended && t.session != nil && t.begun:
		return t.session.Ended(f.Acked)
	}
	return fmt.Errorf("a frame %q is out of place", f.Kind)
}

// report waits for a session and sends what it has found. An error of the write ends the
// connection, which the reader sees.
func (t *task) report(ctx context.Context, s *bench.Session, live *figure.Live) {
	end := t.show(live)
	defer end()
	answer := frame{Kind: found}
	var err error
	if answer.Found, err = s.Wait(ctx); err != nil {
		answer = frame{Kind: failed, Error: err.Error()}
	}
	end()
	t.mu.Lock()
	t.done = true
	t.mu.Unlock()
	_ = t.conn.write(answer)
}

// glances is how often a coordinator hears of a part under way.
const glances = time.Second

// show sends a glance now and then, until end is called.
func (t *task) show(live *figure.Live) (end func()) {
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(glances)
		defer tick.Stop()
		live.Look() // the first time it only asks
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				if t.conn.write(frame{Kind: glance, Glance: live.Look()}) != nil {
					return // the reader sees it too
				}
			}
		}
	}()
	return sync.OnceFunc(func() {
		close(stop)
		<-done
	})
}

// drop ends what is under way for a coordinator that has gone.
func (t *task) drop() {
	if t.session != nil {
		t.session.Abort()
		if !t.begun {
			t.session.Begin(t.clock.Now())
			_, _ = t.session.Wait(context.Background()) // nobody asks for it any more
		}
	}
	t.waiting.Wait()
}
