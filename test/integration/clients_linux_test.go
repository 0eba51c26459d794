package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/test/process"
	"github.com/mqd-broker/mqd/test/rig"
)

// phoenix is a broker that dies and comes back at the same address.
type phoenix struct {
	t         *testing.T
	dir, addr string
	b         *process.Broker // nil while it is dead
}

func rise(t *testing.T) *phoenix {
	t.Helper()
	rig.NeedDriver(t)
	// While the broker is dead its port is free, but of this address nobody who only
	// connects is given one.
	l, err := net.Listen("tcp", fmt.Sprintf("127.%d.%d.%d:0", 1+rand.N(250), rand.N(250), 1+rand.N(250)))
	if err != nil {
		t.Fatal(err)
	}
	ph := &phoenix{t: t, dir: rig.DataDir(t), addr: l.Addr().String()}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	ph.start()
	t.Cleanup(func() { ph.end(true) })
	return ph
}

func (ph *phoenix) start() {
	ph.t.Helper()
	args := []string{"--listen", ph.addr, "--shards", "2", "--journal-size", "8MiB", "--cache-size", "8MiB", "--memory-limit", "64MiB", "--idle", "block"}
	b, err := process.Start(process.Config{Binary: rig.Binary(ph.t), Dir: ph.dir, Args: args})
	if err != nil {
		ph.t.Fatal(err)
	}
	ph.b = b
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, _, err := b.Ready(ctx); err != nil {
		ph.t.Fatal(err)
	}
}

// end ends the broker if it lives, by SIGKILL or in order.
func (ph *phoenix) end(inOrder bool) {
	b := ph.b
	ph.b = nil
	if b == nil {
		return
	}
	err := b.Kill
	if inOrder {
		err = func() error {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			return b.Stop(ctx)
		}
	}
	if err := err(); err != nil {
		ph.t.Error(err)
	}
}

// freeze has the broker do nothing more until it is killed.
func (ph *phoenix) freeze() {
	ph.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := ph.b.Freeze(ctx); err != nil {
		ph.t.Fatal(err)
	}
}

func (ph *phoenix) dial(ctx context.Context, opts ...client.Option) *client.Client {
	ph.t.Helper()
	opts = append([]client.Option{client.WithBackoff(time.Millisecond, 20*time.Millisecond), client.WithTimeout(patience)}, opts...)
	c, err := client.Dial(ctx, []string{ph.addr}, opts...)
	if err != nil {
		ph.t.Fatal(err)
	}
	return c
}

// user is a client on a topic of its own. Its consumer is there only for who asks for
// it: its requests would be taken for those of others.
type user struct {
	c  *client.Client
	p  *client.Producer
	co *client.Consumer
}

func (ph *phoenix) user(ctx context.Context, topic string, consumes bool) *user {
	ph.t.Helper()
	u := &user{c: ph.dial(ctx)}
	_, err := u.c.Admin().CreateTopic(ctx, client.TopicSpec{Name: topic, Partitions: 1})
	if err == nil {
		u.p, err = u.c.Producer(topic)
	}
	if err == nil {
		_, err = u.p.Send(ctx, client.Record{Value: []byte("before")})
	}
	if err == nil && consumes {
		if u.co, err = u.c.Consumer(client.Topics(topic)); err == nil {
			err = u.poll(ctx)
		}
	}
	if err != nil {
		ph.t.Fatal(err)
	}
	return u
}

func (u *user) poll(ctx context.Context) error {
	b, err := u.co.Poll(ctx)
	if err == nil {
		b.Release()
	}
	return err
}

func (u *user) send(ctx context.Context) error {
	_, err := u.p.Send(ctx, client.Record{Value: []byte("meanwhile")})
	return err
}

func (u *user) flush(ctx context.Context) error {
	if _, err := u.p.Append(ctx, client.Record{Value: []byte("meanwhile")}); err != nil {
		return err
	}
	return u.p.Flush(ctx)
}

// Every call that waits is under way when the broker is killed: with its request in a
// broker that does not answer, or queued because there is no broker. Each ends, says
// what it knows, and leaves a client that goes on.
func TestCallsEndWhateverBecomesOfTheBroker(t *testing.T) {
	ph := rise(t)
	ctx, cancel := context.WithTimeout(context.Background(), 4*patience)
	defer cancel()
	lost := func(err error) bool { return errors.Is(err, client.ErrOutcomeUnknown) }
	retriable := func(err error) bool {
		var e *client.Error
		return errors.As(err, &e) && e.Retriable
	}
	for i, c := range []struct {
		name    string
		call    func(u *user) error
		writes  bool // sends a frame at once
		want    func(error) bool
		closing bool
	}{
		{"send", func(u *user) error { return u.send(ctx) }, true, lost, false},
		{"flush", func(u *user) error { return u.flush(ctx) }, true, lost, false},
		{"poll", func(u *user) error { return u.poll(ctx) }, false, retriable, false},
		{"list", func(u *user) error { _, err := u.c.Admin().ListTopics(ctx); return err }, true, func(err error) bool { return err == nil }, false},
		{"create", func(u *user) error { _, err := u.c.Admin().CreateTopic(ctx, client.TopicSpec{Name: "new"}); return err }, true, lost, false},
		{"close of the producer", func(u *user) error {
			_, err := u.p.Append(ctx, client.Record{Value: []byte("meanwhile")})
			return errors.Join(err, u.p.Close(ctx))
		}, true, lost, true},
		{"close of the client", func(u *user) error {
			_, err := u.p.Append(ctx, client.Record{Value: []byte("meanwhile")})
			return errors.Join(err, u.c.Close(ctx))
		}, true, lost, true},
	} {
		for _, inOrder := range []bool{false, true} {
			if inOrder && c.writes {
				continue // a broker that ends in order answers
			}
			u := ph.user(ctx, fmt.Sprintf("t%d%v", i, inOrder), c.name == "poll")
			sent := u.c.Stats().FramesSent
			if !inOrder {
				ph.freeze()
			}
			result := make(chan error, 1)
			go func() { result <- c.call(u) }()
			for c.writes && u.c.Stats().FramesSent == sent {
				pause(ctx)
			}
			ph.end(inOrder)
			ph.start()
			if inOrder {
				// A poll whose fetch was answered before the connection ended has lost
				// nothing: it goes on by itself, and gets this.
				if err := u.send(ctx); err != nil {
					t.Errorf("%s: a send to the next broker: %v", c.name, err)
				}
			}
			if err := <-result; !c.want(err) && (err != nil || !inOrder) || ctx.Err() != nil {
				t.Errorf("%s (in order: %v): %v", c.name, inOrder, err)
			}
			if !c.closing {
				if err := u.send(ctx); err != nil {
					t.Errorf("%s (in order: %v): a send after it: %v", c.name, inOrder, err)
				}
			}
			if err := u.c.Close(ctx); err != nil && !lost(err) {
				t.Errorf("%s (in order: %v): close: %v", c.name, inOrder, err)
			}
		}
	}
}

// Records are in flight, there is no broker and there will be none: closing ends, with
// a context without an end, with one that has ended, with one that will, and twice at
// once.
func TestClosingEndsWithoutABroker(t *testing.T) {
	ph := rise(t)
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	ended, end := context.WithCancel(ctx)
	end()
	var told, appended atomic.Int64
	hooks := client.WithHooks(client.Hooks{OnSend: func(_ context.Context, s client.SendInfo) { told.Add(int64(s.Records)) }})
	if _, err := ph.dial(ctx).Admin().CreateTopic(ctx, client.TopicSpec{Name: "t", Partitions: 4}); err != nil {
		t.Fatal(err)
	}
	var users []*client.Client
	for range 3 {
		c := ph.dial(ctx, hooks, client.WithTimeout(10*time.Second)) // for so long it closes
		if _, err := c.Consumer(client.Topics("t")); err != nil {
			t.Fatal(err)
		}
		users = append(users, c)
	}
	for i, c := range users {
		p, err := c.Producer("t", client.WithMaxInFlight(1))
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			ph.freeze()
		}
		for range 1000 {
			if _, err := p.Append(ctx, client.Record{Value: []byte("x")}); err != nil {
				t.Fatal(err)
			}
			appended.Add(1)
		}
		if i == 0 { // the others look topics up
			if err := ph.b.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
		}
	}
	ph.end(false)
	soon, over := context.WithTimeout(ctx, 200*time.Millisecond)
	defer over()
	for i, closing := range slices.Backward([]context.Context{context.Background(), ended, soon}) {
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() { _ = users[i].Close(closing) })
		}
		both.Wait()
	}
	if told.Load() != appended.Load() {
		t.Errorf("%d records were appended, hooks heard of %d", appended.Load(), told.Load())
	}
}
