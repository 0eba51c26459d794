package ringbuf

import (
	"fmt"
	"sync"
)

// Inbox is how goroutines that are not shards hand messages to a shard: admin
// requests, completions of file helpers, finished handshakes. Any number of
// them may post; one shard takes.
//
// It is an [SPSC] ring whose producer is whoever holds the mutex. The mutex is
// the posters' affair alone: the shard takes from the ring without it, so a
// poster that is descheduled in the middle of a post delays other posters and
// never the shard, and an empty inbox costs the shard one atomic load.
//
// An inbox is bounded. A helper whose completions must not be refused needs an
// inbox with room for as many as it can have outstanding.
type Inbox[T any] struct {
	ring  *SPSC[T]
	sleep *Sleep
	full  error

	posting sync.Mutex
}

// NewInbox makes an inbox for the shard that sleeps by sleep, which watches the
// inbox from now on; call it before that shard's loop starts. The name appears
// in errors. The capacity, in messages, is a power of two from [MinCapacity] to
// [MaxCapacity].
func NewInbox[T any](name string, capacity int, sleep *Sleep) *Inbox[T] {
	b := &Inbox[T]{
		ring:  NewSPSC[T](capacity),
		sleep: sleep,
		full:  fmt.Errorf("ringbuf: %s holds %d messages: %w", name, capacity, ErrInboxFull),
	}
	sleep.Watch(b)
	return b
}

// Post hands v to the shard. When wake is true the caller must wake the shard,
// and nobody else will. The error is [ErrInboxFull], with the inbox's name and
// capacity; v was then not taken. Any goroutine but the shard's own loop, which
// must not wait for a mutex.
func (b *Inbox[T]) Post(v T) (wake bool, err error) {
	b.posting.Lock()
	ok := b.ring.Push(v)
	if ok {
		b.ring.Publish()
	}
	b.posting.Unlock()
	if !ok {
		return false, b.full
	}
	return b.sleep.Claim(), nil
}

// Take removes the oldest message. It reports false when there is none. It never
// waits. The room of what was taken is free again after [Inbox.Release]. Shard
// only.
func (b *Inbox[T]) Take() (v T, ok bool) { return b.ring.Take() }

// Release gives the room of everything taken back to the posters: call it once
// after a run of Take. Shard only.
func (b *Inbox[T]) Release() { b.ring.Release() }

// Pending reports whether there is a message: one atomic load. Shard only.
func (b *Inbox[T]) Pending() bool { return !b.ring.Empty() }
