package conn_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/engine/aio/sim"
	"github.com/mqd-broker/mqd/net/conn"
)

func TestAHalfClosedPeerGetsItsAnswers(t *testing.T) {
	r := newRig(t, rigOptions{seed: 60})
	p := r.shards[0].proto
	c := r.dial()
	f, g := frame('k', noise(50, 1)), frame('e', noise(60, 2))
	c.write(append(append([]byte(nil), f...), g...))
	r.until("kept", func() bool { return len(p.kept) == 1 })
	r.w.CloseWrite(c.sock)
	r.settle()
	if p.ended != 1 || len(p.why) != 0 {
		t.Fatalf("ended %d, closed for %v, with a frame in the works", p.ended, p.why)
	}
	p.release()
	r.until("closed", c.ended)
	equalFrames(t, frames(c.got), g, f)
	r.endedFor(conn.ReasonPeer)
	c.close()
	r.home()
}

func TestFramesBeforeTheEndOfTheStreamAreTaken(t *testing.T) {
	r := newRig(t, rigOptions{seed: 61})
	p := r.shards[0].proto
	p.later = true
	hold := r.w.Hold(sim.Filter{Ops: sim.Receives, Driver: r.shards[0].drv})
	c := r.dial()
	f := frame('l', noise(50, 1))
	c.write(append(append(append([]byte(nil), f...), f...), f[:9]...))
	r.until("sent", func() bool { return !c.send.InFlight() })
	r.w.CloseWrite(c.sock)
	r.settle()
	hold.Release() // bytes and end arrive in one turn
	r.settle()
	p.resume()
	r.until("closed", c.ended)
	equalFrames(t, frames(c.got), f, f)
	c.close()
	r.home()
}

func TestAResetWithEverythingInFlightLeaksNothing(t *testing.T) {
	for seed := range uint64(30) {
		r := newRig(t, rigOptions{seed: 100 + seed, door: conn.DoorOptions{MaxOutput: 8 << 20}})
		p := r.shards[0].proto
		c := r.dialDeaf()
		c.write(frame('h', nil))
		for i := range 8 {
			c.write(frame('k', noise(3000*i, i)))
			c.write(pieces(90_000))
			c.write(frame('e', noise(500, i)))
		}
		c.write(frame('e', noise(500, 1))[:200])
		for range r.shards[0].drv.Rand() % 400 {
			r.turn()
			r.w.Step()
		}
		r.w.Reset(c.sock)
		r.settle()
		for _, f := range p.kept {
			f.Release()
		}
		p.kept = nil
		p.drop()
		if p.lent != 0 {
			t.Errorf("seed %d: %d lent answers did not come home", seed, p.lent)
		}
		c.close()
		r.home()
	}
}

func TestAConnectionStaysValidWhileFramesOfItAreOut(t *testing.T) {
	r := newRig(t, rigOptions{seed: 62})
	p := r.shards[0].proto
	c := r.dial()
	f := frame('k', noise(5000, 1))
	c.write(f)
	r.until("kept", func() bool { return len(p.kept) == 1 })
	r.w.Reset(c.sock)
	c.close()
	r.settle()
	r.dial().write(frame('e', noise(5000, 2)))
	r.clients[1].waitFor(1)
	kept := p.kept[0]
	if !kept.Conn().Over() || !bytes.Equal(kept.Bytes(), f) {
		t.Error("the connection or its frame was used again")
	}
	p.release()
	r.closeAll()
	r.home()
}

func TestFinishSendsWhatWasAnsweredFirst(t *testing.T) {
	r := newRig(t, rigOptions{seed: 63})
	c := r.dial()
	f, last := frame('e', noise(20, 1)), frame('f', nil)
	c.write(append(append(append([]byte(nil), f...), last...), f...))
	c.waitFor(2)
	r.advance(3 * time.Second)
	equalFrames(t, frames(c.got), f, last)
	if !c.ended() {
		t.Error("the connection stays")
	}
	c.close()
	r.home()
}

func TestAFinishingConnectionKeepsNoInput(t *testing.T) {
	r := newRig(t, rigOptions{seed: 67})
	c := r.dial()
	c.write(append(append(frame('h', nil), frame('f', nil)...), frame('e', noise(300, 1))...))
	c.waitFor(1)
	c.write(frame('e', noise(3000, 1))[:2000])
	r.settle()
	if o := r.shards[0].srv.Outstanding(); o != (conn.Outstanding{Conns: 1}) {
		t.Errorf("outstanding: %+v", o)
	}
	r.shards[0].proto.drop()
	r.advance(3 * time.Second)
	if !c.ended() || len(frames(c.got)) != 1 {
		t.Errorf("ended %v, %d frames", c.ended(), len(frames(c.got)))
	}
	c.close()
	r.home()
}

func TestCloseEndsAConnectionInTheSameTurn(t *testing.T) {
	r := newRig(t, rigOptions{seed: 64})
	c := r.dial()
	c.write(append(frame('c', nil), frame('e', nil)...))
	r.until("closed", c.ended)
	r.endedFor(conn.ReasonProtocol)
	if r.shards[0].proto.taken != 1 {
		t.Error("a frame was handed over after Close")
	}
	c.close()
	r.home()
}

func TestStopEndsConnectionsWhenTheirAnswersAreSent(t *testing.T) {
	r := newRig(t, rigOptions{seed: 65, shards: 2})
	var want [][]byte
	for i := range 10 {
		c := r.dial()
		f := frame('k', noise(100, i))
		want = append(want, f)
		c.write(f)
	}
	r.until("kept", func() bool { return len(r.shards[0].proto.kept)+len(r.shards[1].proto.kept) == 10 })
	for _, s := range r.shards {
		s.srv.Stop()
	}
	r.settle()
	if _, err := r.far.Dial(r.addr); err == nil {
		t.Error("a stopped server accepts")
	}
	for i, s := range r.shards {
		if n := len(s.proto.kept); s.srv.Stopped() != (n == 0) {
			t.Errorf("shard %d: stopped %v with %d frames in the works", i, s.srv.Stopped(), n)
		}
		s.proto.release()
	}
	r.until("stopped", func() bool { return r.shards[0].srv.Stopped() && r.shards[1].srv.Stopped() })
	r.settle()
	for i, c := range r.clients {
		equalFrames(t, frames(c.got), want[i])
		if !c.ended() {
			t.Errorf("client %d is still connected", i)
		}
	}
	r.closeAll()
	r.home()
}

func TestAbortEndsConnectionsWhateverIsInTheWorks(t *testing.T) {
	r := newRig(t, rigOptions{seed: 66})
	s := r.shards[0]
	for range 5 {
		c := r.dialDeaf()
		c.write(frame('h', nil))
		c.write(pieces(900_000))
	}
	r.settle()
	s.srv.Abort()
	r.settle()
	if s.proto.lent != 0 || len(s.proto.why) != 5 || s.proto.why[0] != conn.ReasonShutdown {
		t.Errorf("%d lent, ended for %v", s.proto.lent, s.proto.why)
	}
	s.proto.drop()
	r.until("stopped", s.srv.Stopped)
	r.closeAll()
	r.home()
}
