package conn_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
	"github.com/mqd-broker/mqd/net/conn"
)

// FuzzAnyStreamLeavesNothingBehind sends arbitrary bytes: nothing panics, and
// everything comes home.
func FuzzAnyStreamLeavesNothingBehind(f *testing.F) {
	f.Add(uint64(1), []byte{})
	f.Add(uint64(2), frame('e', []byte("hello")))
	f.Add(uint64(3), []byte{0xff, 0xff, 0xff, 0xff, 'e'})
	f.Add(uint64(4), append(frame('m', []byte{1}), frame('e', noise(600, 1))...))
	f.Add(uint64(5), append(frame('h', nil), frame('k', noise(9000, 1))...))
	f.Add(uint64(6), bytes.Join([][]byte{frame('f', nil), frame('c', nil), pieces(50)}, nil))
	f.Add(uint64(7), append(frame('l', nil), 0, 0, 0, 9, 'e'))
	f.Add(uint64(8), pieces(0))
	f.Add(uint64(6), []byte("\x00\x00\x00\tg\x00\x00\x00\x00c\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, seed uint64, stream []byte) {
		r := newRig(t, rigOptions{seed: seed, shards: 2, drv: aio.Options{RecvBufferBytes: 4096, RecvBuffers: 16},
			srv: conn.Options{SmallFrames: 1, MediumFrames: 1, LargeFrames: 1, SendBuffers: 2}})
		for _, s := range r.shards {
			s.proto.guard = true
		}
		c := r.dial()
		c.write(stream)
		r.settle()
		for _, s := range r.shards {
			s.proto.release()
			s.proto.drop()
		}
		r.settle()
		c.close()
		r.home()
	})
}

// storm lets clients do everything they can in random order.
type storm struct {
	r      *rig
	rand   func(n int) int
	honest []*client // are never reset
	want   map[*client][][]byte
}

func (s *storm) act() {
	r := s.r
	c := s.honest[s.rand(len(s.honest))]
	switch s.rand(20) {
	case 0, 1, 2, 3, 12, 13, 14, 15, 16, 17:
		f := frame("ekl"[s.rand(3)], noise(s.rand(1<<s.rand(17)), s.rand(1000)))
		c.write(f)
		s.want[c] = append(s.want[c], f)
	case 4:
		f := frame('m', []byte{byte(s.rand(2))})
		c.write(f)
	case 5:
		rude := r.dial()
		rude.write(frame('k', noise(s.rand(20_000), 1)))
		rude.write(pieces(1 + s.rand(50_000)))
		rude.write(frame('h', nil)[:s.rand(6)])
		for range s.rand(30) {
			r.turn()
			r.w.Step()
		}
		r.w.Reset(rude.sock)
	case 6:
		s.shard().proto.later = true
	case 7, 8:
		s.let()
	case 9:
		r.advance(time.Duration(s.rand(300)) * time.Millisecond)
	default:
		for range s.rand(30) {
			r.turn()
			r.w.Step()
		}
	}
}

func (s *storm) shard() *testShard { return s.r.shards[s.rand(len(s.r.shards))] }

// let lets everything go on that waits.
func (s *storm) let() {
	for _, sh := range s.r.shards {
		sh.proto.release()
		sh.proto.resume()
		sh.proto.drop()
	}
}

// done reports whether every honest client has its answers.
func (s *storm) done() bool {
	for _, c := range s.honest {
		n := 0
		for _, f := range frames(c.got) {
			if f[0] != 's' && f[0] != 'm' {
				n++
			}
		}
		if n < len(s.want[c]) {
			return false
		}
	}
	return true
}

func TestAStormLosesNoFrameAndNoMemory(t *testing.T) {
	for seed := range uint64(25) {
		r := newRig(t, rigOptions{seed: seed, shards: 2, conns: 1000,
			world: sim.Options{SocketBuffer: 16 << 10},
			drv:   aio.Options{RecvBufferBytes: 4096, RecvBuffers: 16},
			srv:   conn.Options{SmallFrames: 2, MediumFrames: 2, LargeFrames: 1, SendBuffers: 6, TurnFrames: 20, VisitFrames: 3},
			door:  conn.DoorOptions{FrameLimit: 1 << 20, MaxOutput: 32 << 10, FrameTimeout: time.Hour}})
		s := &storm{r: r, rand: func(n int) int { return int(r.clock.Rand() % uint64(n)) }, want: map[*client][][]byte{}}
		for range 12 {
			s.honest = append(s.honest, r.dial())
		}
		for range 300 {
			s.act()
		}
		for range 3000 {
			if s.done() {
				break
			}
			s.let()
			r.settle()
			r.advance(300 * time.Millisecond)
		}
		if !s.done() {
			t.Fatalf("seed %d: answers are missing; %+v %+v", seed, r.shards[0].srv.Outstanding(), r.shards[1].srv.Outstanding())
		}
		for i, c := range s.honest {
			sameFrames(t, seed, i, frames(c.got), s.want[c])
		}
		s.let()
		r.closeAll()
		s.let()
		r.home()
	}
}

// sameFrames compares answers with requests. Kept frames are answered later than
// those behind them, the others in order.
func sameFrames(t *testing.T, seed uint64, client int, got, want [][]byte) {
	t.Helper()
	for _, kept := range []bool{true, false} {
		var a, b [][]byte
		for _, f := range got {
			if f[0] != 's' && f[0] != 'm' && kept == (f[0] == 'k') {
				a = append(a, f)
			}
		}
		for _, f := range want {
			if kept == (f[4] == 'k') {
				b = append(b, f)
			}
		}
		if len(a) != len(b) {
			t.Fatalf("seed %d client %d: %d answers, want %d", seed, client, len(a), len(b))
		}
		equalFrames(t, a, b...)
	}
}
