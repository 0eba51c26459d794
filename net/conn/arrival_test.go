package conn_test

import (
	"slices"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/net/conn"
)

func TestAFrameArrivesWithItsLastBytes(t *testing.T) {
	r := newRig(t, rigOptions{seed: 74})
	p := r.shards[0].proto
	p.timed = true
	c := r.dial()
	whole, parts := frame('e', noise(100, 1)), frame('e', noise(3000, 2))
	began := r.w.Now()
	c.write(append(slices.Clone(whole), parts[:2]...)) // not even its length
	c.waitFor(1)
	r.settle()
	r.advance(time.Millisecond)
	first := r.w.Now()
	c.write(parts[2:1000])
	r.settle()
	r.advance(time.Millisecond)
	last := r.w.Now()
	c.write(parts[1000:])
	equalFrames(t, c.waitFor(2), whole, parts)
	if a := p.arrived; len(a) != 2 || a[0] < began || a[0] > first-int64(time.Millisecond) || a[1] < last || a[1] > r.w.Now() {
		t.Errorf("frames arrived at %v; the first was sent at %d, the end of the other at %d", a, began, last)
	}
	c.close()
	r.home()
}

// Frames that wait, also on the heap because receive buffers are scarce, arrived when they
// came and not when they are read.
func TestFramesThatWaitArrivedWhenTheyCame(t *testing.T) {
	r := newRig(t, rigOptions{seed: 29, drv: aio.Options{RecvBufferBytes: 4096, RecvBuffers: 32}})
	s := r.shards[0]
	s.proto.later, s.proto.timed = true, true
	for i := range 20 {
		r.dial().write(append(frame('l', nil), frame('l', noise(2000, i))...))
	}
	r.settle()
	before, spills := r.w.Now(), s.srv.Counters().Get(conn.Spills)
	r.advance(time.Millisecond)
	for i := range 12 { // needs the buffers of those that wait
		r.dial().write(frame('l', noise(2000, i)))
	}
	r.settle()
	if s.srv.Counters().Get(conn.Spills) == spills {
		t.Error("nothing was moved: the test shows nothing")
	}
	s.proto.resume()
	for _, c := range r.clients[:20] {
		c.waitFor(2)
	}
	r.settle()
	early := 0
	for _, at := range s.proto.arrived {
		if at > 0 && at <= before {
			early++
		}
	}
	if len(s.proto.arrived) != 52 || early != 40 {
		t.Errorf("%d of %d frames had arrived by %d, expected 40 of 52", early, len(s.proto.arrived), before)
	}
	r.closeAll()
	r.home()
}

func TestBytesThatMoveKeepTheTimesAtWhichTheyCame(t *testing.T) {
	r := newRig(t, rigOptions{seed: 75, shards: 2, srv: conn.Options{VisitFrames: 1}})
	from, to := r.shards[0].proto, r.shards[1].proto
	c := r.dial()
	r.settle()
	if len(from.conns) == 0 {
		from, to = to, from
	}
	target := byte(slices.IndexFunc(r.shards, func(s *testShard) bool { return s.proto == to }))
	var stream []byte
	for range 40 {
		stream = append(stream, frame('h', nil)...) // it cannot move until they are dropped
	}
	stream = append(append(stream, frame('m', []byte{target})...), frame('e', nil)...)
	c.write(stream)
	r.until("the first frames", func() bool { return from.taken > 1 })
	before := r.w.Now()
	c.write(frame('e', nil))
	for range 8 { // it comes before the move is asked for
		r.turn()
		r.w.Step()
	}
	if from.taken > 40 || r.w.Now() == before {
		t.Fatalf("%d frames at %d, %d before: the test shows nothing", from.taken, r.w.Now(), before)
	}
	r.until("the order to move", func() bool { return from.taken == 41 })
	r.advance(time.Millisecond)
	moved := r.w.Now()
	to.timed = true
	for _, held := range from.held {
		held.Drop()
	}
	c.waitFor(3)
	if a := to.arrived; len(a) != 2 || a[0] > before || a[1] <= before || a[1] > moved-int64(time.Millisecond) {
		t.Errorf("the frames came at %v, expected one up to %d, and one between that and %d", a, before, moved-int64(time.Millisecond))
	}
	c.close()
	r.home()
}
