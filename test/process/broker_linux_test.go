package process

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// fake is a broker that is a script of the shell.
func fake(t *testing.T, script string) *Broker {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mqd")
	if err := Script(path, "#!/bin/sh\n"+script); err != nil {
		t.Fatal(err)
	}
	b, err := Start(Config{Binary: path, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Kill() }) // most have ended by themselves
	return b
}

// The log comes through a pipe of its own: a line that the broker has written before its
// address may be read behind it, and half a line is none.
func TestWhatABrokerSaysIsWaitedFor(t *testing.T) {
	b := fake(t, `echo 127.0.0.1:1 >&3; printf 'this is ' >&2; sleep 0.1; echo 'at last' >&2; exec sleep 3600`)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if addr, _, err := b.Ready(ctx); addr != "127.0.0.1:1" || err != nil {
		t.Fatal(addr, err)
	}
	if line, err := b.Said(ctx, "this is"); line != "this is at last\n" || err != nil {
		t.Fatalf("%q, %v", line, err)
	}
	cancel()
	if _, err := b.Said(ctx, "something else"); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

func TestABrokerThatHasEndedSaysNothingMore(t *testing.T) {
	b := fake(t, `echo first >&2; echo last >&2`)
	if line, err := b.Said(t.Context(), "last"); line != "last\n" || err != nil {
		t.Fatalf("%q, %v", line, err)
	}
	if _, err := b.Said(t.Context(), "more"); err == nil || !strings.Contains(err.Error(), "exit status 0") {
		t.Fatal(err)
	}
}
