package mqdtest

import (
	"context"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/engine/aio/sim"
)

// InMemory has the broker keep its disk in memory and speak over pipes, so that it touches
// neither files nor sockets. The engine, the journals and the protocol are the real ones.
// The disk keeps through restarts and crashes what a disk would.
//
// In a bubble of testing/synctest, in which New is called then, the time of broker and
// clients is that of the bubble: it passes at once when nobody has anything to do. Which of
// several goroutines comes first stays open, there as elsewhere.
func InMemory() Option {
	return func(b *Broker) {
		b.world = sim.New(sim.Options{Seed: 1, Mode: sim.RealTime})
		b.cfg.Dir, b.cfg.Listen = "/mqd", "127.0.0.1:7878"
	}
}

// ways is how dialers find the relay of the broker's present life.
type ways struct {
	mu    sync.Mutex
	relay *relay // nil: nobody is there
}

func (w *ways) open(r *relay) {
	w.mu.Lock()
	w.relay = r
	w.mu.Unlock()
}

func (w *ways) connect() net.Conn {
	w.mu.Lock()
	r := w.relay
	w.mu.Unlock()
	if r == nil {
		return nil
	}
	return r.connect()
}

// reach connects to a node itself. Any goroutine may call it.
func (b *Broker) reach(addr string) (net.Conn, error) {
	if b.world != nil {
		return b.world.DialConn(addr)
	}
	return net.Dial("tcp", addr)
}

// Dialer is for client.WithDialer: it connects to the broker, whatever the address. A broker
// that is [InMemory] is reached in no other way. It stays good for the life of the test, and
// any goroutine may use it.
func (b *Broker) Dialer() client.Dialer {
	return func(ctx context.Context, addr string) (net.Conn, error) {
		if b.world == nil {
			return new(net.Dialer).DialContext(ctx, "tcp", b.addr)
		}
		if c := b.ways.connect(); c != nil {
			return c, nil
		}
		return nil, &net.OpError{Op: "dial", Net: "mqdtest", Err: fmt.Errorf("%s: %w", addr, syscall.ECONNREFUSED)}
	}
}

// CutPower ends the broker as a power cut does and starts it again: the disk loses
// everything that no flush has covered. What was acknowledged by a topic of class flushed is
// there; of the classes written and memory the newest may be missing. It needs [InMemory].
func (b *Broker) CutPower() {
	b.t.Helper()
	n := b.running()
	b.inMemory("CutPower")
	b.ending.Store(true)
	b.world.Crash(sim.KeepNone)
	_ = b.abort(n) // the node has met the end of its machine
	b.Start()
}

// JumpClock sets the broker's clock forward by d, or back if it is below 0, as somebody does
// who sets the time of a machine. The broker takes the time of records, and retention with
// it, from the clock at its start and goes on evenly from there, so that they show the jump
// behind the next start, and only if it leads forward. Sessions do not go by the clock. It
// needs [InMemory].
func (b *Broker) JumpClock(d time.Duration) {
	b.t.Helper()
	b.inMemory("JumpClock")
	b.world.JumpWall(d)
}

func (b *Broker) inMemory(method string) {
	b.t.Helper()
	if b.world == nil {
		b.t.Fatalf("mqdtest: %s needs a broker InMemory", method)
	}
}
