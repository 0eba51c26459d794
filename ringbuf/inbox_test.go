package ringbuf

import (
	"errors"
	"strings"
	"testing"
)

func TestInboxKeepsOrderAndBounds(t *testing.T) {
	var sleep Sleep
	b := NewInbox[int]("admin inbox of shard 3", 2, &sleep)
	for i := 1; i <= 2; i++ {
		if wake, err := b.Post(i); wake || err != nil {
			t.Fatalf("post %d to an awake shard: wake %v, %v", i, wake, err)
		}
	}
	_, err := b.Post(3)
	if !errors.Is(err, ErrInboxFull) || !strings.Contains(err.Error(), "admin inbox of shard 3 holds 2") {
		t.Fatalf("a full inbox said %v", err)
	}
	for i := 1; i <= 2; i++ {
		if v, ok := b.Take(); !ok || v != i {
			t.Fatalf("took %d %v, expected %d", v, ok, i)
		}
	}
	if _, err := b.Post(4); !errors.Is(err, ErrInboxFull) {
		t.Fatal("room came back before Release")
	}
	b.Release()
	if _, err := b.Post(5); err != nil {
		t.Fatal(err)
	}
	if v, ok := b.Take(); !ok || v != 5 {
		t.Fatalf("took %d %v, expected 5: refused messages must not be kept", v, ok)
	}
}

func TestShardTakesWhileAPosterHoldsTheLock(t *testing.T) {
	var sleep Sleep
	b := NewInbox[int]("inbox", 4, &sleep)
	if _, err := b.Post(1); err != nil {
		t.Fatal(err)
	}
	b.posting.Lock() // a poster that is descheduled in the middle of a post
	defer b.posting.Unlock()
	if !b.Pending() {
		t.Fatal("the inbox looks empty")
	}
	if v, ok := b.Take(); !ok || v != 1 {
		t.Fatalf("took %d %v", v, ok)
	}
	if _, ok := b.Take(); ok || b.Pending() {
		t.Fatal("the inbox is not empty")
	}
	b.Release()
}

func TestPostToASleepingShardAsksForOneWakeUp(t *testing.T) {
	var sleep Sleep
	b := NewInbox[int]("inbox", 4, &sleep)
	if !sleep.Announce() {
		t.Fatal("an idle shard may not sleep")
	}
	for i, want := range []bool{true, false} {
		if wake, err := b.Post(i); wake != want || err != nil {
			t.Fatalf("post %d: wake %v, %v; expected %v", i, wake, err, want)
		}
	}
	sleep.Awake()
	if sleep.Announce() {
		t.Fatal("a shard with a full inbox may sleep")
	}
	if wake, err := b.Post(3); wake || err != nil {
		t.Fatalf("a withdrawn announcement still asks for a wake-up: %v, %v", wake, err)
	}
}

func TestTakingFromAnInboxDoesNotAllocate(t *testing.T) {
	var sleep Sleep
	b := NewInbox[descriptor]("inbox", 2, &sleep)
	full := 0
	allocs := testing.AllocsPerRun(1000, func() {
		for range 3 {
			if _, err := b.Post(descriptor{}); err != nil {
				full++
			}
		}
		for b.Pending() {
			b.Take()
		}
		b.Release()
	})
	if allocs != 0 || full != 1001 {
		t.Fatalf("%v allocations, %d refusals", allocs, full)
	}
}
