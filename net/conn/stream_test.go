package conn_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/net/conn"
)

func TestFramesComeBackWhereverTheStreamIsSplit(t *testing.T) {
	var stream []byte
	var want [][]byte
	for i, n := range []int{0, 1, 3, 11, 40, 7} {
		f := frame('e', noise(n, i))
		want = append(want, f)
		stream = append(stream, f...)
	}
	r := newRig(t, rigOptions{seed: 1})
	for at := range len(stream) + 1 {
		c := r.dial()
		c.write(stream[:at])
		r.until("first part sent", func() bool { return !c.send.InFlight() })
		r.settle()
		c.write(stream[at:])
		equalFrames(t, c.waitFor(len(want)), want...)
		c.close()
	}
	r.home()
}

func TestFramesComeBackByteByByte(t *testing.T) {
	f := frame('e', noise(20, 1))
	r := newRig(t, rigOptions{seed: 2})
	c := r.dial()
	for range 3 {
		for i := range f {
			c.write(f[i : i+1])
			r.until("byte sent", func() bool { return !c.send.InFlight() })
			r.settle()
		}
	}
	equalFrames(t, c.waitFor(3), f, f, f)
	c.close()
	r.home()
}

func TestManyFramesInOneBufferAreNotCopied(t *testing.T) {
	r := newRig(t, rigOptions{seed: 3})
	var stream []byte
	var want [][]byte
	for i := range 500 {
		f := frame('e', noise(i%90, i))
		want = append(want, f)
		stream = append(stream, f...)
	}
	c := r.dial()
	c.write(stream)
	equalFrames(t, c.waitFor(len(want)), want...)
	r.settle()
	n := r.shards[0].srv.Counters()
	if in, made := n.Get(conn.FramesIn), n.Get(conn.FramesAssembled); in != 500 || made > 20 {
		t.Errorf("%d frames taken, %d of them assembled", in, made)
	}
	c.close()
	r.home()
}

func TestFramesLargerThanAReceiveBuffer(t *testing.T) {
	r := newRig(t, rigOptions{seed: 4, drv: aio.Options{RecvBufferBytes: 4096, RecvBuffers: 64},
		door: conn.DoorOptions{FrameLimit: 1 << 20, MaxOutput: 8 << 20}})
	for i, n := range []int{4090, 4096, 4097, 65530, 65536, 70_000, 400_000, 1<<20 - 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			c := r.dial()
			big, small := frame('e', noise(n, i)), frame('e', noise(9, i))
			c.write(append(append(append([]byte(nil), small...), big...), small...))
			equalFrames(t, c.waitFor(3), small, big, small)
			c.close()
		})
	}
	r.home()
}

func TestSeveralConnectionsOfLargeFramesShareTheMemory(t *testing.T) {
	r := newRig(t, rigOptions{seed: 5, drv: aio.Options{RecvBufferBytes: 4096, RecvBuffers: 64},
		srv:  conn.Options{SmallFrames: 2, MediumFrames: 2, LargeFrames: 1, SendBuffers: 8},
		door: conn.DoorOptions{FrameLimit: 1 << 20, MaxOutput: 8 << 20}})
	var want [][]byte
	for i := range 12 {
		c := r.dial()
		f := frame('e', noise(100_000+i, i))
		want = append(want, f)
		c.write(f[:3000])
	}
	r.settle()
	for i, c := range r.clients {
		c.write(want[i][3000:])
	}
	for i, c := range r.clients {
		equalFrames(t, c.waitFor(1), want[i])
	}
	if r.shards[0].srv.Counters().Get(conn.FrameWaits) == 0 {
		t.Error("nobody had to wait for memory: the test shows nothing")
	}
	r.closeAll()
	r.home()
}

func TestAFrameWithoutABodyBehindItsPrefixWaitsForNothing(t *testing.T) {
	r := newRig(t, rigOptions{seed: 6, door: conn.DoorOptions{PrefixBytes: 5}})
	c := r.dial()
	f := frame('e', nil)
	for range 4 {
		c.write(f[:3])
		r.until("part sent", func() bool { return !c.send.InFlight() })
		r.settle()
		c.write(f[3:])
	}
	equalFrames(t, c.waitFor(4), f, f, f, f)
	c.close()
	r.home()
}

func TestATooLongFrameIsAnsweredBeforeItIsReceived(t *testing.T) {
	for _, length := range []uint32{64<<10 + 1, 1 << 30, 1<<31 - 1, 1 << 31, 1<<32 - 1} {
		r := newRig(t, rigOptions{seed: 7})
		c := r.dial()
		c.write([]byte{byte(length >> 24), byte(length >> 16), byte(length >> 8), byte(length), 'e'})
		c.write(noise(300_000, 1))
		c.waitFor(1)
		r.advance(3 * time.Second)
		if !c.ended() {
			t.Fatalf("length %#x: the connection stays", length)
		}
		if got := frames(c.got); len(got) != 1 || got[0][0] != '!' {
			t.Errorf("length %#x: answered %q", length, c.got)
		}
		if o := r.shards[0].srv.Outstanding(); o.Slabs != 0 {
			t.Errorf("length %#x: memory was taken: %+v", length, o)
		}
		c.close()
		r.home()
	}
}

func TestAWrongLengthEndsTheConnectionWithAnAnswer(t *testing.T) {
	r := newRig(t, rigOptions{seed: 8})
	c := r.dial()
	good := frame('e', noise(10, 1))
	c.write(append(append([]byte(nil), good...), 0, 0, 0, 4, 'x'))
	c.waitFor(2)
	r.advance(3 * time.Second)
	if !c.ended() {
		t.Fatal("the connection stays")
	}
	got := frames(c.got)
	if len(got) != 2 || !bytes.Equal(got[0], good[4:]) || got[1][0] != '!' {
		t.Errorf("answered %q", c.got)
	}
	if p := r.shards[0].proto; len(p.broken) != 1 || p.why[0] != conn.ReasonProtocol {
		t.Errorf("broken %v, ended for %v", p.broken, p.why)
	}
	c.close()
	r.home()
}

func TestAnswersInOneTurnLeaveInOneSend(t *testing.T) {
	r := newRig(t, rigOptions{seed: 9})
	c := r.dial()
	var stream []byte
	for range 100 {
		stream = append(stream, frame('k', nil)...)
	}
	c.write(stream)
	p := r.shards[0].proto
	r.until("all frames taken", func() bool { return len(p.kept) == 100 })
	r.settle()
	p.release()
	c.waitFor(100)
	r.settle()
	if n := r.shards[0].srv.Counters().Get(conn.Sends); n != 1 {
		t.Errorf("%d sends, want 1", n)
	}
	c.close()
	r.home()
}

func TestAnswersGivenWhenASendCompletesFollowIt(t *testing.T) {
	r := newRig(t, rigOptions{seed: 10})
	r.shards[0].proto.chatty = true
	c := r.dial()
	c.write(pieces(10))
	c.write(pieces(20))
	sizes := map[int]int{}
	for _, f := range c.waitFor(4) {
		sizes[len(f)]++
	}
	if sizes[11] != 1 || sizes[21] != 1 || sizes[1] != 2 {
		t.Errorf("frames of these sizes: %v", sizes)
	}
	c.write(frame('e', nil))
	c.waitFor(5)
	c.close()
	r.home()
}

func TestNothingLentIsDoneWhenWhatWasAnsweredIsSent(t *testing.T) {
	r := newRig(t, rigOptions{seed: 12})
	p := r.shards[0].proto
	c := r.dialDeaf()
	c.write(pieces(900_000))
	c.write(frame('n', nil))
	r.until("answered", func() bool { return p.lent == 2 })
	r.settle()
	if p.lent != 2 {
		t.Error("done before what was answered earlier")
	}
	c.deaf = false
	c.hear()
	r.until("all sent", func() bool { return p.lent == 0 })
	c.write(frame('n', nil))
	r.until("taken", func() bool { return p.taken == 3 })
	r.until("done at once", func() bool { return p.lent == 0 })
	c.close()
	r.home()
}

func TestAQuietConnectionHoldsNoMemory(t *testing.T) {
	r := newRig(t, rigOptions{seed: 11})
	c := r.dial()
	c.write(frame('e', noise(9000, 1)))
	c.write(pieces(500))
	c.waitFor(2)
	r.settle()
	if o := r.shards[0].srv.Outstanding(); o != (conn.Outstanding{Conns: 1}) {
		t.Errorf("outstanding: %+v", o)
	}
	c.close()
	r.home()
}
