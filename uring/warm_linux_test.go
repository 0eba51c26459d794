package uring

import (
	"bytes"
	"testing"

	"github.com/mqd-broker/mqd/engine/aio"
)

func TestMemoryIsRegisteredWhenADriverIsWarm(t *testing.T) {
	d := open(t, small, Config{Warm: true})
	f := newFile(t, d, 0)
	pass := func(off int64) {
		t.Helper()
		out := memory(t, d, 8192)
		check(t, aio.WriteAt(d, f, out, off, 0))
		in, err := d.Alloc(8192)
		check(t, err)
		if n, err := aio.ReadAt(d, f, in, off); err != nil || n != len(in) || !bytes.Equal(in, out) {
			t.Fatalf("read %d bytes: %v", n, err)
		}
	}
	if d.arena.registered != 0 {
		t.Fatalf("%d bytes are registered", d.arena.registered)
	}
	pass(0)
	check(t, d.Warm())
	registered := d.arena.registered
	if registered == 0 {
		t.Skipf("no memory can be registered: %q", d.Notes())
	}
	pass(8192)
	check(t, d.Warm())
	if d.arena.registered != registered {
		t.Fatalf("%d bytes are registered, %d were", d.arena.registered, registered)
	}
	fresh, err := d.Alloc(64 << 10)
	check(t, err)
	if len(bytes.Trim(fresh, "\x00")) != 0 {
		t.Fatal("memory is not zeroed")
	}
}

func TestADriverIsClosedWhileItsMemoryIsMade(t *testing.T) {
	o := small
	o.ArenaBytes = 128 << 20
	for range 3 {
		d := open(t, o, Config{Warm: true})
		check(t, d.Close())
		select {
		case <-d.warming.done:
		default:
			t.Fatal("the memory is still being made, and is mapped no more")
		}
	}
}
