package conn_test

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
	"github.com/mqd-broker/mqd/net/conn"
)

// pieces asks for a lent answer of n bytes.
func pieces(n int) []byte { return frame('g', binary.BigEndian.AppendUint32(nil, uint32(n))) }

func TestAPausedConnectionIsNotRead(t *testing.T) {
	r := newRig(t, rigOptions{seed: 20, drv: aio.Options{RecvBufferBytes: 4096, RecvBuffers: 64},
		world: sim.Options{SocketBuffer: 64 << 10}})
	p := r.shards[0].proto
	p.later = true
	c, other := r.dial(), r.dial()
	var want [][]byte
	for i := range 300 {
		f := frame('l', noise(1000+i, i))
		want = append(want, f)
		c.write(f)
	}
	r.settle()
	if o := r.shards[0].srv.Outstanding(); o.Buffers > 32 || o.Frames != 0 || p.taken != 0 {
		t.Errorf("paused, but %+v and %d frames taken", o, p.taken)
	}
	f := frame('e', noise(100, 1))
	other.write(f)
	equalFrames(t, other.waitFor(1), f)

	p.resume()
	equalFrames(t, c.waitFor(len(want)), want...)
	r.closeAll()
	r.home()
}

func TestPauseAndResumeKeepTheOrderOfFrames(t *testing.T) {
	for seed := range uint64(20) {
		r := newRig(t, rigOptions{seed: seed, drv: aio.Options{RecvBufferBytes: 4096, RecvBuffers: 16}})
		p := r.shards[0].proto
		c := r.dial()
		var want [][]byte
		for i := range 200 {
			f := frame('l', noise(i*7%900, i))
			want = append(want, f)
			c.write(f)
		}
		for i := 0; len(frames(c.got)) < len(want); i++ {
			if i > 1_000_000 {
				t.Fatalf("seed %d: stuck after %d frames", seed, len(frames(c.got)))
			}
			switch r.shards[0].drv.Rand() % 8 {
			case 0:
				p.later = true
			case 1, 2, 3:
				p.resume()
			}
			if r.turn() == 0 {
				r.w.Step()
			}
		}
		equalFrames(t, frames(c.got), want...)
		c.close()
		r.home()
	}
}

func TestAnEmptyReceivePoolStopsNobodyForGood(t *testing.T) {
	r := newRig(t, rigOptions{seed: 21, drv: aio.Options{RecvBufferBytes: 4096, RecvBuffers: 8},
		srv: conn.Options{SmallFrames: 1}})
	p := r.shards[0].proto
	var want [][]byte
	for i := range 24 {
		c := r.dial()
		f := frame('k', noise(3000, i))
		want = append(want, f)
		c.write(f)
	}
	for i := range r.clients {
		r.until("some frames kept", func() bool { return len(p.kept) > 0 })
		r.settle()
		if n := r.shards[0].srv.Outstanding().Buffers; n > 8 {
			t.Fatalf("round %d: %d buffers out of 8", i, n)
		}
		p.release()
		r.settle()
		if p.taken == len(r.clients) {
			break
		}
	}
	p.release()
	for i, c := range r.clients {
		equalFrames(t, c.waitFor(1), want[i])
	}
	if r.shards[0].srv.Counters().Get(conn.Starvations) == 0 {
		t.Error("no receive ever found the pool empty: the test shows nothing")
	}
	r.closeAll()
	r.home()
}

func TestAGreedyConnectionLeavesBuffersForOthers(t *testing.T) {
	r := newRig(t, rigOptions{seed: 22, drv: aio.Options{RecvBufferBytes: 4096, RecvBuffers: 64},
		srv: conn.Options{SmallFrames: 1}, world: sim.Options{SocketBuffer: 4096}})
	p := r.shards[0].proto
	greedy := r.dial()
	for i := range 200 {
		greedy.write(frame('k', noise(2000, i)))
	}
	r.settle()
	if o := r.shards[0].srv.Outstanding(); o.Buffers > 48 {
		t.Errorf("one connection holds %d of 64 receive buffers", o.Buffers)
	}
	f := frame('e', noise(50, 1))
	other := r.dial()
	other.write(f)
	equalFrames(t, other.waitFor(1), f)
	for p.taken < 201 {
		r.until("frames kept", func() bool { return len(p.kept) > 0 })
		p.release()
		r.settle()
	}
	p.release()
	r.settle()
	if got := frames(greedy.got); len(got) != 200 {
		t.Errorf("%d frames came back, want 200", len(got))
	}
	r.closeAll()
	r.home()
}

func TestSmallFramesAreCopiedOutWhenBuffersAreScarce(t *testing.T) {
	r := newRig(t, rigOptions{seed: 23, drv: aio.Options{RecvBufferBytes: 4096, RecvBuffers: 8}})
	p := r.shards[0].proto
	var want [][]byte
	for i := range 40 {
		f := frame('k', noise(30, i))
		want = append(want, f)
		c := r.dial()
		c.write(f)
	}
	r.until("all frames kept", func() bool { return len(p.kept) == 40 })
	p.release()
	for i, c := range r.clients {
		equalFrames(t, c.waitFor(1), want[i])
	}
	r.closeAll()
	r.home()
}

func TestASlowReaderCostsBoundedMemoryAndNobodyElse(t *testing.T) {
	r := newRig(t, rigOptions{seed: 24, door: conn.DoorOptions{MaxOutput: 256 << 10}})
	s := r.shards[0]
	slow, other := r.dialDeaf(), r.dial()
	for range 200 {
		slow.write(pieces(100_000))
	}
	for i := range 3000 {
		slow.write(frame('e', noise(200, i)))
	}
	r.settle()
	taken := s.proto.taken
	if taken > 40 {
		t.Errorf("%d requests taken from a peer that reads nothing", taken)
	}
	for i := range 50 {
		f := frame('e', noise(100, i))
		other.write(f)
		equalFrames(t, other.waitFor(i + 1)[i:], f)
	}
	r.advance(29 * time.Second)
	if slow.ended() {
		t.Error("closed before the write timeout")
	}
	r.advance(4 * time.Second)
	if len(s.proto.why) != 1 || s.proto.why[0] != conn.ReasonSlowReader {
		t.Errorf("ended for %v", s.proto.why)
	}
	if s.proto.lent != 0 {
		t.Errorf("%d lent answers did not come home", s.proto.lent)
	}
	f := frame('e', noise(100, 1))
	other.write(f)
	r.until("the other goes on", func() bool { return len(frames(other.got)) == 51 })
	r.closeAll()
	r.home()
}

func TestAReaderThatWakesUpGetsEverything(t *testing.T) {
	r := newRig(t, rigOptions{seed: 25, srv: conn.Options{SendBuffers: 4}, door: conn.DoorOptions{MaxOutput: 32 << 10}})
	s := r.shards[0]
	c := r.dialDeaf()
	var want [][]byte
	for i := range 2000 {
		f := frame('e', noise(300+i%5000, i))
		if i%10 == 0 {
			c.write(pieces(20_000))
			want = append(want, nil)
		} else {
			c.write(f)
			want = append(want, f)
		}
	}
	r.settle()
	if o := s.srv.Outstanding(); o.SendBuffers > 4 {
		t.Errorf("%+v", o)
	}
	c.deaf = false
	c.hear()
	got := c.waitFor(len(want))
	for i, f := range want {
		if f == nil {
			f = make([]byte, 20_005)
			got[i] = append(make([]byte, 1), got[i][1:]...)
		}
		equalFrames(t, got[i:i+1], f)
	}
	c.close()
	r.home()
}

func TestAnswersThatFindNoSendMemoryAreSentLater(t *testing.T) {
	r := newRig(t, rigOptions{seed: 26, srv: conn.Options{SendBuffers: 1}, door: conn.DoorOptions{MaxOutput: 8 << 20}})
	p := r.shards[0].proto
	var want [][]byte
	for i := range 10 {
		c := r.dial()
		f := frame('k', noise(20_000, i))
		want = append(want, f)
		c.write(f)
	}
	r.until("all frames kept", func() bool { return len(p.kept) == 10 })
	p.release()
	for i, c := range r.clients {
		equalFrames(t, c.waitFor(1), want[i])
	}
	r.closeAll()
	r.home()
}

func TestTooManyConnectionsAreClosedAtOnce(t *testing.T) {
	r := newRig(t, rigOptions{seed: 27, conns: 5})
	for range 5 {
		r.dial()
	}
	r.settle()
	for range 20 {
		c := r.dial()
		r.until("refused", c.ended)
	}
	f := frame('e', noise(10, 1))
	for _, c := range r.clients[:5] {
		c.write(f)
		equalFrames(t, c.waitFor(1), f)
	}
	if n := r.shards[0].srv.Counters().Get(conn.Refused); n != 20 {
		t.Errorf("%d refused, want 20", n)
	}
	r.clients[0].close()
	r.settle()
	c := r.dial()
	c.write(f)
	equalFrames(t, c.waitFor(1), f)
	r.closeAll()
	r.home()
}

func TestTooManyConnectionsOfOneAddressAreClosedAtOnce(t *testing.T) {
	r := newRig(t, rigOptions{seed: 127, conns: 100, perAddress: 5, shards: 2})
	for range 5 {
		r.dial()
	}
	r.settle()
	for range 20 {
		c := r.dial()
		r.until("refused", c.ended)
	}
	f := frame('e', noise(10, 1))
	for _, c := range r.clients[:5] {
		c.write(f)
		equalFrames(t, c.waitFor(1), f)
	}
	r.clients[0].close()
	r.settle()
	c := r.dial()
	c.write(f)
	equalFrames(t, c.waitFor(1), f)
	r.closeAll()
	r.home()
}

func TestNoMoreConnectionsAreAcceptedInASecondThanTheLimit(t *testing.T) {
	r := newRig(t, rigOptions{seed: 128, conns: 1000, perSecond: 50})
	accepted := func() uint64 { return r.shards[0].srv.Counters().Get(conn.Accepted) }
	for range 200 {
		r.dial()
	}
	r.settle()
	if n := accepted(); n < 50 || n > 55 {
		t.Errorf("%d of 200 that came at once were accepted, the limit is 50 in a second", n)
	}
	r.advance(time.Second)
	before := accepted()
	for range 20 {
		r.dial()
	}
	r.settle()
	if n := accepted() - before; n != 20 {
		t.Errorf("%d of 20 were accepted after a second without any", n)
	}
	r.closeAll()
	r.home()
}

func TestAcceptPausesWhenItFails(t *testing.T) {
	r := newRig(t, rigOptions{seed: 28})
	fault := r.w.Inject(sim.Fault{Filter: sim.Filter{Ops: sim.Accepts}, Times: 3, Err: 24})
	r.settle()
	c := r.dial()
	f := frame('e', noise(10, 1))
	c.write(f)
	r.advance(2 * time.Second)
	equalFrames(t, c.waitFor(1), f)
	if n := r.shards[0].srv.Counters().Get(conn.AcceptErrors); n != 3 || fault.Hits() != 3 {
		t.Errorf("%d failed accepts counted, %d injected", n, fault.Hits())
	}
	c.close()
	r.home()
}

func TestConnectionsThatWaitKeepNoReceiveBuffersFromOthers(t *testing.T) {
	r := newRig(t, rigOptions{seed: 29, drv: aio.Options{RecvBufferBytes: 4096, RecvBuffers: 32}})
	s := r.shards[0]
	s.proto.later = true
	var want [][]byte
	for i := range 20 {
		c := r.dial()
		f := frame('l', noise(60_000, i))
		want = append(want, f)
		c.write(frame('l', nil))
		c.write(f)
	}
	r.settle()
	c := r.dial()
	for i := range 20 {
		f := frame('e', noise(3000, i))
		c.write(f)
		equalFrames(t, c.waitFor(i + 1)[i:], f)
	}
	o := s.srv.Outstanding()
	if s.srv.Counters().Get(conn.Spills) == 0 || o.Unread == 0 {
		t.Errorf("nothing was moved: the test shows nothing: %+v", o)
	}
	s.proto.resume()
	for i, c := range r.clients[:20] {
		equalFrames(t, c.waitFor(2)[1:], want[i])
	}
	r.closeAll()
	r.home()
}

func TestConnectionsThatWaitEndBeforeNobodyCanReceive(t *testing.T) {
	r := newRig(t, rigOptions{seed: 30, drv: aio.Options{RecvBufferBytes: 4096, RecvBuffers: 16}, srv: conn.Options{SpillBytes: 50_000}})
	s := r.shards[0]
	s.proto.later = true
	for i := range 20 {
		c := r.dial()
		c.write(frame('l', nil))
		c.write(frame('l', noise(60_000, i)))
	}
	r.settle()
	if o := s.srv.Outstanding(); o.Unread > 50_000 || o.Unread == 0 {
		t.Errorf("%+v", o)
	}
	c := r.dial()
	f := frame('e', noise(3000, 1))
	c.write(f)
	equalFrames(t, c.waitFor(1), f)
	ended := s.srv.Counters().ClosedFor(conn.ReasonOverload)
	if ended == 0 || ended > 15 {
		t.Errorf("%d of 20 connections were ended", ended)
	}
	s.proto.resume()
	r.closeAll()
	r.home()
}

func TestPeersThatDoNotReadGiveWayWhenSendMemoryIsUsedUp(t *testing.T) {
	r := newRig(t, rigOptions{seed: 31, srv: conn.Options{SendBuffers: 16}, world: sim.Options{SocketBuffer: 4096}})
	s := r.shards[0]
	for i := range 30 {
		c := r.dialDeaf()
		for range 5 {
			c.write(frame('e', noise(8000, i)))
		}
	}
	r.settle()
	c := r.dial()
	f := frame('e', noise(3000, 1))
	c.write(f)
	r.advance(5 * time.Second)
	equalFrames(t, frames(c.got), f)
	if n := s.srv.Counters().ClosedFor(conn.ReasonSlowReader); n == 0 || n > 20 {
		t.Errorf("%d of 30 slow readers were closed", n)
	}
	r.closeAll()
	r.home()
}

func TestPeersThatDoNotTakeLentMemoryGiveWayToThoseWhoWait(t *testing.T) {
	waiting := 0 // in the next walk over the connections
	r := newRig(t, rigOptions{seed: 33, srv: conn.Options{Waiting: func() int {
		n := waiting
		waiting = 0
		return n
	}}})
	slow := []*client{r.dialDeaf(), r.dialDeaf(), r.dialDeaf()}
	for _, c := range slow {
		for range 20 {
			c.write(pieces(100_000))
		}
	}
	written := r.dialDeaf() // waits with an answer that nobody has lent
	for i := range 3000 {
		written.write(frame('e', noise(200, i)))
	}
	r.settle()
	closed := func() uint64 { return r.shards[0].srv.Counters().ClosedFor(conn.ReasonSlowReader) }
	r.advance(5 * time.Second)
	if n := closed(); n != 0 {
		t.Fatalf("%d slow readers were closed, and nobody waits", n)
	}
	waiting = 2
	r.advance(5 * time.Second)
	if n := closed(); n != 2 {
		t.Errorf("%d slow readers were closed, expected as many as waited", n)
	}
	waiting = 100
	r.advance(5 * time.Second)
	if n := closed(); n != 3 {
		t.Errorf("%d slow readers were closed, expected those with lent memory", n)
	}
	if n := r.shards[0].proto.lent; n != 0 {
		t.Errorf("%d lent answers did not come home", n)
	}
	r.closeAll()
	r.home()
}

func TestOneSlowReaderLeavesSendMemoryForOthers(t *testing.T) {
	r := newRig(t, rigOptions{seed: 32, srv: conn.Options{SendBuffers: 32}, door: conn.DoorOptions{FrameLimit: 1 << 20, MaxOutput: 4 << 20}})
	slow := r.dialDeaf()
	slow.write(frame('e', noise(1<<20-5, 1)))
	r.settle()
	if o := r.shards[0].srv.Outstanding(); o.SendBuffers > 20 || o.Spilled == 0 {
		t.Errorf("%+v", o)
	}
	for i := range 10 {
		c := r.dial()
		f := frame('e', noise(10_000, i))
		c.write(f)
		equalFrames(t, c.waitFor(1), f)
	}
	slow.deaf = false
	slow.hear()
	equalFrames(t, slow.waitFor(1), frame('e', noise(1<<20-5, 1)))
	r.closeAll()
	r.home()
}
