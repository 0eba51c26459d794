package conn_test

import (
	"strings"
	"testing"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/net/conn"
)

func TestAMovedConnectionGoesOnWithItsPipelinedBytes(t *testing.T) {
	for seed := range uint64(30) {
		r := newRig(t, rigOptions{seed: 200 + seed, shards: 2})
		c := r.dial()
		var stream []byte
		var want [][]byte
		add := func(f []byte) {
			want = append(want, f)
			stream = append(stream, f...)
		}
		for i := range 20 {
			add(frame('e', noise(i*37, i)))
		}
		for i := range 6 {
			add(frame('m', []byte{byte(i+1) % 2}))
			for j := range 20 {
				add(frame('e', noise(j*51, j)))
			}
		}
		c.write(stream)
		equalFrames(t, c.waitFor(len(want)), want...)
		moves := uint64(0)
		r.settle()
		for _, s := range r.shards {
			moves += s.srv.Counters().Get(conn.Imported)
		}
		if moves != 6 {
			t.Errorf("seed %d: %d moves, want 6", seed, moves)
		}
		c.close()
		r.home()
	}
}

// Whoever lists connections is told where they come from wherever they have moved to, and
// is not kept from it by a peer that has gone.
func TestAConnectionKeepsTheAddressOfItsPeer(t *testing.T) {
	r := newRig(t, rigOptions{seed: 72, shards: 2})
	listed := func() (all []conn.Entry) {
		for _, s := range r.shards {
			list, _ := s.srv.List(make([]conn.Entry, 0, 4))
			all = append(all, list...)
		}
		return all
	}
	c := r.dial()
	c.write(frame('e', noise(30, 1)))
	c.waitFor(1)
	before := listed()
	if len(before) != 1 || !strings.Contains(before[0].Peer, ":") {
		t.Fatalf("listed: %+v", before)
	}
	for to := range byte(2) { // on one of the two it is already
		c.write(append(frame('m', []byte{to}), frame('e', noise(30, 1))...))
		r.settle()
		if after := listed(); len(after) != 1 || after[0].Peer != before[0].Peer {
			t.Errorf("on shard %d: %+v, expected the peer %s", to, after, before[0].Peer)
		}
	}
	c.close()
	r.home()
}

func TestAMoveThatIsRefusedStays(t *testing.T) {
	r := newRig(t, rigOptions{seed: 70})
	c := r.dial()
	f := frame('e', noise(30, 1))
	c.write(append(frame('m', []byte{7}), f...))
	equalFrames(t, c.waitFor(2), frame('s', nil), f)
	c.close()
	r.home()
}

func TestAMoveWithTooManyUnreadBytesStays(t *testing.T) {
	r := newRig(t, rigOptions{seed: 71, shards: 2, srv: conn.Options{MaxHandover: 100}})
	c := r.dial()
	f := frame('e', noise(3000, 1))
	c.write(append(frame('m', []byte{1}), f...))
	c.write(append(frame('m', []byte{0}), f...))
	got := c.waitFor(4)
	if got[0][0] != 's' && got[2][0] != 's' {
		t.Error("neither move was refused")
	}
	c.close()
	r.home()
}

func TestAMoveWaitsUntilNothingIsInFlight(t *testing.T) {
	r := newRig(t, rigOptions{seed: 72, shards: 2})
	c := r.dial()
	m := frame('m', []byte{1})
	h, k := frame('h', nil), frame('k', noise(10, 1))
	stay := frame('m', []byte{0})
	c.write(append(append(append(append([]byte(nil), h...), k...), m...), stay...))
	r.settle()
	if len(c.got) != 0 {
		t.Fatal("moved with a frame in the works")
	}
	for _, s := range r.shards {
		s.proto.release()
	}
	r.settle()
	if n := len(frames(c.got)); n != 1 {
		t.Fatalf("%d answers while held, want only the kept frame", n)
	}
	for _, s := range r.shards {
		s.proto.drop()
	}
	equalFrames(t, c.waitFor(3), k, m, stay)
	c.close()
	r.home()
}

func TestAFrameThatHasBegunMovesWithItsConnection(t *testing.T) {
	for _, part := range []int{1, 3, 4, 50, 2000} {
		r := newRig(t, rigOptions{seed: 74, shards: 2, drv: aio.Options{RecvBufferBytes: 4096, RecvBuffers: 16}})
		c := r.dial()
		k, f := frame('k', noise(10, 1)), frame('e', noise(9000, 1))
		c.write(append(append([]byte(nil), k...), f[:part]...))
		r.settle()
		for i, s := range r.shards {
			if len(s.proto.kept) == 1 {
				s.proto.kept[0].Conn().Move(1-i, nil)
				s.proto.release()
			}
		}
		r.settle()
		c.write(f[part:])
		equalFrames(t, c.waitFor(2), k, f)
		if n := r.shards[0].srv.Counters().Get(conn.Imported) + r.shards[1].srv.Counters().Get(conn.Imported); n != 1 {
			t.Errorf("%d moves, want 1", n)
		}
		c.close()
		r.home()
	}
}

func TestAPeerThatLeavesDuringAMoveIsNoticed(t *testing.T) {
	for seed := range uint64(20) {
		r := newRig(t, rigOptions{seed: 300 + seed, shards: 2})
		c := r.dial()
		c.write(frame('m', []byte{1}))
		c.write(frame('e', nil))
		c.write(frame('m', []byte{0}))
		for range seed * 2 {
			r.turn()
		}
		if seed%2 == 0 {
			r.w.Reset(c.sock)
		} else {
			r.w.CloseWrite(c.sock)
		}
		r.until("closed", c.ended)
		c.close()
		r.home()
	}
}

func TestAConnectionThatArrivesAtAStoppedServerIsClosed(t *testing.T) {
	r := newRig(t, rigOptions{seed: 73, shards: 2})
	var c *client
	for c == nil || len(r.shards[0].proto.conns) == 0 {
		c = r.dial()
		r.settle()
	}
	r.shards[1].srv.Stop()
	c.write(frame('m', []byte{1}))
	r.until("closed", c.ended)
	r.closeAll()
	r.home()
}
