package slab

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
)

func pool(t testing.TB, bytes int64) *Pool {
	t.Helper()
	d := sim.New(sim.Options{Seed: 1}).Driver(aio.Options{ArenaBytes: bytes + aio.BlockSize, RecvBuffers: 2})
	p, err := New(d, bytes)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPiecesNeverOverlapAndAllComeHome(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := pool(t, 1<<20)
		owner := map[*byte]int{} // by the address of a unit
		held := map[int]Piece{}
		for i := range rapid.IntRange(1, 300).Draw(rt, "steps") {
			if len(held) > 0 && rapid.Bool().Draw(rt, "give back") {
				for id, piece := range held {
					for u := 0; u < len(piece.Mem); u += UnitBytes {
						if owner[&piece.Mem[u]] != id {
							rt.Fatal("a unit belongs to two pieces")
						}
						delete(owner, &piece.Mem[u])
					}
					p.Put(piece)
					delete(held, id)
					break
				}
				continue
			}
			c := Class(rapid.IntRange(0, int(Largest)).Draw(rt, "class"))
			piece, ok := p.Take(c)
			if !ok {
				continue
			}
			if len(piece.Mem) != c.Bytes() || cap(piece.Mem) < len(piece.Mem) {
				rt.Fatalf("a piece of class %d has %d bytes", c, len(piece.Mem))
			}
			for u := 0; u < len(piece.Mem); u += UnitBytes {
				if _, taken := owner[&piece.Mem[u]]; taken {
					rt.Fatal("a unit was given out twice")
				}
				owner[&piece.Mem[u]] = i
			}
			held[i] = piece
		}
		if got := int64(len(owner)) * UnitBytes; got != p.Used() {
			rt.Fatalf("%d bytes are out, the pool says %d", got, p.Used())
		}
		for _, piece := range held {
			p.Put(piece)
		}
		for range p.Size() / int64(Largest.Bytes()) {
			if _, ok := p.Take(Largest); !ok {
				rt.Fatal("neighbours have not merged")
			}
		}
	})
}

func TestTakingAndPuttingAllocateNothing(t *testing.T) {
	p := pool(t, 1<<20)
	if n := testing.AllocsPerRun(1000, func() {
		piece, ok := p.Take(1)
		if !ok {
			t.Fatal("no memory")
		}
		p.Put(piece)
	}); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

func TestAPieceGoesHomeOnce(t *testing.T) {
	p := pool(t, 1<<20)
	piece, _ := p.Take(0)
	p.Put(piece)
	defer func() {
		if recover() == nil {
			t.Fatal("a piece went home twice")
		}
	}()
	p.Put(piece)
}

func TestThePaceFollowsHowLongPiecesLast(t *testing.T) {
	const second = int64(time.Second)
	p, now := Pace{}, 100*second
	p.Begun(true, now)
	for _, c := range []struct {
		lasted int64
		want   Class
	}{{1, 1}, {1, 2}, {1, 3}, {1, 3}, {10, 3}, {21, 2}, {10, 2}, {30, 1}, {30, 0}, {30, 0}, {1, 1}} {
		now += c.lasted * second
		if got := p.Next(now); got != c.want {
			t.Fatalf("after %d s: class %d, want %d", c.lasted, got, c.want)
		}
		p.Begun(false, now)
	}
	p.Begun(true, now)
	if got := p.Next(now + 10*second); got != 0 {
		t.Fatalf("a beginner has class %d", got)
	}
}
