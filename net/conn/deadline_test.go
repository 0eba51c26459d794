package conn_test

import (
	"testing"
	"time"

	"github.com/mqd-broker/mqd/net/conn"
)

// endedFor fails the test unless exactly one connection has ended, for a reason.
func (r *rig) endedFor(why conn.Reason) {
	r.t.Helper()
	if got := r.shards[0].proto.why; len(got) != 1 || got[0] != why {
		r.t.Errorf("ended for %v, want [%v]", got, why)
	}
}

func TestASilentConnectionEnds(t *testing.T) {
	r := newRig(t, rigOptions{seed: 40})
	c := r.dial()
	c.write(frame('e', nil))
	r.advance(118 * time.Second)
	if c.ended() {
		t.Fatal("closed before the idle timeout")
	}
	r.advance(5 * time.Second)
	r.endedFor(conn.ReasonIdle)
	c.close()
	r.home()
}

func TestWhatIsInTheWorksKeepsAConnection(t *testing.T) {
	r := newRig(t, rigOptions{seed: 41})
	c := r.dial()
	c.write(frame('h', nil))
	r.advance(300 * time.Second)
	if c.ended() {
		t.Fatal("closed with something in the works")
	}
	r.shards[0].proto.drop()
	r.advance(115 * time.Second)
	if c.ended() {
		t.Fatal("the time of the hold was counted as idle")
	}
	r.advance(8 * time.Second)
	r.endedFor(conn.ReasonIdle)
	c.close()
	r.home()
}

func TestPausedTimeIsNotIdleTime(t *testing.T) {
	r := newRig(t, rigOptions{seed: 42})
	p := r.shards[0].proto
	p.later = true
	c := r.dial()
	c.write(frame('l', nil))
	r.advance(200 * time.Second)
	if c.ended() {
		t.Fatal("closed while we did not read it")
	}
	p.resume()
	c.waitFor(1)
	r.advance(115 * time.Second)
	if c.ended() {
		t.Fatal("paused time was counted")
	}
	c.close()
	r.home()
}

func TestPausedTimeIsNotTheFramesTime(t *testing.T) {
	r := newRig(t, rigOptions{seed: 47})
	p := r.shards[0].proto
	c := r.dial()
	f := frame('e', noise(100, 1))
	c.write(append(frame('k', nil), f[:50]...))
	r.until("kept", func() bool { return len(p.kept) == 1 })
	r.settle()
	p.kept[0].Conn().Pause()
	r.advance(200 * time.Second)
	p.kept[0].Conn().Resume()
	p.release()
	r.advance(7 * time.Second)
	c.write(f[50:])
	equalFrames(t, c.waitFor(2)[1:], f)

	c.write(frame('k', nil))
	r.until("kept", func() bool { return len(p.kept) == 1 })
	k := p.kept[0].Conn()
	p.release()
	k.Pause()
	r.advance(200 * time.Second)
	k.Resume()
	r.advance(115 * time.Second)
	if c.ended() {
		t.Error("paused time was counted as idle")
	}
	c.close()
	r.home()
}

func TestConnectionsThatEndWhileDeadlinesAreWatched(t *testing.T) {
	r := newRig(t, rigOptions{seed: 48, conns: 1000})
	r.dial()
	r.settle()
	watched := r.w.Now() + int64(time.Second) // the walk over all of them begins
	for range 600 {
		r.dial()
	}
	r.settle()
	r.advance(time.Duration(watched-r.w.Now()) - 10*time.Millisecond)
	for r.w.Now() < watched+int64(200*time.Microsecond) {
		r.turn()
	}
	for _, c := range r.clients { // now it stands in the middle
		r.w.Reset(c.sock)
	}
	r.settle()
	r.advance(2 * time.Second)
	for i, c := range r.clients {
		if !c.ended() {
			t.Fatalf("client %d goes on", i)
		}
	}
	r.closeAll()
	r.home()
}

func TestAHandshakeHasItsTime(t *testing.T) {
	r := newRig(t, rigOptions{seed: 43})
	r.shards[0].proto.lazy = true
	c := r.dial()
	for range 8 {
		r.advance(time.Second)
		c.write(frame('e', nil))
	}
	if c.ended() {
		t.Fatal("closed before the handshake timeout")
	}
	r.advance(4 * time.Second)
	r.endedFor(conn.ReasonHandshake)
	c.close()
	r.home()
}

func TestAFrameThatDribblesEndsTheConnection(t *testing.T) {
	r := newRig(t, rigOptions{seed: 44})
	dribble, other := r.dial(), r.dial()
	f := frame('e', noise(30_000, 1))
	for i := range 9 {
		dribble.write(f[i : i+1])
		r.advance(time.Second)
	}
	if dribble.ended() {
		t.Fatal("closed too early")
	}
	if o := r.shards[0].srv.Outstanding(); o.Slabs > 1 || o.Buffers != 0 {
		t.Errorf("a dribble holds %+v", o)
	}
	for i := range 4 {
		dribble.write(f[9+i : 10+i])
		r.advance(time.Second)
	}
	r.endedFor(conn.ReasonSlowFrame)
	g := frame('e', noise(40, 1))
	other.write(g)
	equalFrames(t, other.waitFor(1), g)
	r.closeAll()
	r.home()
}

func TestALargeFrameHasTimeForItsSize(t *testing.T) {
	r := newRig(t, rigOptions{seed: 45, door: conn.DoorOptions{FrameLimit: 1 << 20, MinFrameRate: 16 << 10}})
	f := frame('e', noise(600_000, 1)) // at 20 KB a second: 30 s
	c := r.dial()
	for at := 0; at < len(f); at += 20_000 {
		c.write(f[at:min(at+20_000, len(f))])
		r.advance(time.Second)
	}
	equalFrames(t, c.waitFor(1), f)
	c.close()
	r.home()
}

func TestManySlowPeersDoNotKeepOneFromBeingServed(t *testing.T) {
	r := newRig(t, rigOptions{seed: 46, srv: conn.Options{SmallFrames: 16, MediumFrames: 4, LargeFrames: 1}})
	f := frame('e', noise(2000, 1))
	for range 60 {
		c := r.dial()
		c.write(f[:100])
	}
	r.settle()
	c := r.dial()
	for range 20 {
		c.write(f)
	}
	r.advance(8 * time.Second)
	if n := len(frames(c.got)); n != 20 {
		t.Errorf("%d of 20 frames came back although others had no claim to the memory", n)
	}
	r.advance(16 * time.Second)
	ended := 0
	for _, c := range r.clients[:60] {
		if c.ended() {
			ended++
		}
	}
	if ended != 60 {
		t.Errorf("%d of 60 slow peers were closed", ended)
	}
	r.closeAll()
	r.home()
}
