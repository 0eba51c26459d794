package uring

import (
	"errors"
	"testing"

	"github.com/mqd-broker/mqd/engine/aio"
)

func TestMemoryDoesNotStraddlePieces(t *testing.T) {
	const piece = 64 << 10
	a, err := newArena(4*piece-aio.BlockSize, piece)
	check(t, err)
	t.Cleanup(a.close)
	r := rawRing(t, 2, 4)
	check(t, a.register(r))
	if a.registered != len(a.mem) {
		t.Skipf("%d of %d bytes could be registered", a.registered, len(a.mem))
	}
	for _, c := range []struct{ n, buffer, off int }{
		{40 << 10, 0, 0},
		{20 << 10, 0, 40 << 10},
		{5 << 10, 1, 0}, // 4 KiB are left in the first piece
		{piece, 2, 0},
		{1, 3, 0},
	} {
		b, err := a.alloc(c.n)
		check(t, err)
		if len(b) != c.n || cap(b) != c.n || addressOf(b)%aio.BlockSize != 0 {
			t.Fatalf("%d bytes: len %d, cap %d, at %#x", c.n, len(b), cap(b), addressOf(b))
		}
		if off := int(addressOf(b) - a.span.start); a.buffer(b) != c.buffer || off != c.buffer*piece+c.off {
			t.Fatalf("%d bytes: piece %d, at %d", c.n, a.buffer(b), off)
		}
	}
	if n := a.buffer(a.mem[piece-1 : piece+1]); n != noBuffer {
		t.Errorf("two bytes of two pieces are in piece %d", n)
	}
	if n := a.buffer(a.mem[piece : 2*piece]); n != 1 {
		t.Errorf("the second piece is piece %d", n)
	}
	for _, n := range []int{piece + 1, 60 << 10, -1} {
		if _, err := a.alloc(n); !errors.Is(err, aio.ErrNoMemory) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

func TestOnlyRegisteredMemoryHasABuffer(t *testing.T) {
	a, err := newArena(1<<20, maxPiece)
	check(t, err)
	t.Cleanup(a.close)
	a.registered = 512 << 10
	for _, c := range []struct{ from, to, want int }{
		{0, 4096, 0}, {508 << 10, 512 << 10, 0}, {508 << 10, 516 << 10, noBuffer}, {512 << 10, 516 << 10, noBuffer},
	} {
		if got := a.buffer(a.mem[c.from:c.to]); got != c.want {
			t.Errorf("bytes %d to %d: buffer %d, expected %d", c.from, c.to, got, c.want)
		}
	}
	if a.buffer(make([]byte, 10)) != noBuffer {
		t.Error("Go memory is registered")
	}
	if a.span.holds(a.mem[:0]) != true || a.span.holds(a.mapping) {
		t.Error("the arena's limits are wrong")
	}
}

func TestOptionsOutOfRangeAreRefused(t *testing.T) {
	for name, o := range map[string]aio.Options{
		"Entries":         {Entries: 3},
		"Entries above":   {Entries: 2 * maxEntries},
		"Entries below":   {Entries: -1},
		"RecvBuffers":     {RecvBuffers: 2 * maxRecvBuffers},
		"RecvBufferBytes": {RecvBufferBytes: 5000},
		"Files":           {Files: -1},
		"Helpers":         {Helpers: -1},
		"ArenaBytes":      {ArenaBytes: -1},
	} {
		if _, err := New(o, Config{}); err == nil {
			t.Errorf("%s: %+v was accepted", name, o)
		}
	}
	for _, c := range []Config{{SubmitEntries: 3}, {CompletionEntries: 6}, {SubmitEntries: 64, CompletionEntries: 32}} {
		if _, err := New(aio.Options{}, c); err == nil {
			t.Errorf("%+v was accepted", c)
		}
	}
}
