package ringbuf

import "sync/atomic"

// Source is something that can hold work for a sleeping shard.
type Source interface {
	// Pending reports whether there is work. It is called by the shard that
	// owns the source, after the shard has announced its sleep, and must read
	// what producers publish at that moment, not a remembered value that says
	// "nothing".
	Pending() bool
}

// Sleep is the handshake between a shard that wants to block in the kernel and
// those who have work for it. A wake-up costs its sender 8 µs and its receiver
// 20–35 µs, so a polling shard is never woken and a sleeping one is woken once.
//
// # Why no wake-up is lost
//
// The two sides do the same dance, each writing its own word first and reading
// the other's second:
//
//	shard (Announce)                 sender
//	S1  asleep ← true                P1  published ← new counter
//	S2  read published of all        P2  read asleep
//	    nothing new: block               true: compare-and-swap to false,
//	    something: asleep ← false              and on success wake
//
// The message is lost only if the shard blocks and the sender sends no wake-up:
// S2 read the old counter and P2 read false. All four are operations of
// sync/atomic, and the Go memory model places all of those in one total order
// that agrees with each goroutine's program order and in which a read returns
// the last write before it. S2 read the old counter, so S2 stands before P1.
// Program order puts S1 before S2 and P1 before P2. So S1 < S2 < P1 < P2, and P2
// must read true unless somebody wrote false in between. Two can: the shard
// itself, which does so only when it does not block or has stopped blocking
// (Awake), after which it reads the sources again before its next sleep; or
// another sender, whose swap succeeded and who therefore sends the wake-up for
// both. Nothing is lost.
//
// With release stores and acquire loads alone this would be wrong: the store of
// S1 could still sit in the core's store buffer when S2 reads. Go has no such
// weaker operation; on amd64 the store is an XCHG, which drains the buffer.
// That cost is why the shard announces only after polling in vain for a while,
// and why a sender looks at asleep once a turn and not once a message.
//
// # Why exactly one
//
// Only a successful swap from true to false entitles to a wake-up, and only
// Announce writes true. So there is at most one wake-up for each Announce,
// however many senders race.
//
// A wake-up may arrive late: a sender can win the swap just when the shard finds
// the message by itself, or wakes for another reason. The shard then meets a
// wake-up that it does not need, at the latest in its next sleep, and must treat
// it as "look again", which costs one turn.
//
// # Order of duties
//
// A sender must publish first and claim second. A shard must call Awake before
// it drains, and must have nothing unpublished when it announces, for nobody
// would publish it while it sleeps.
type Sleep struct {
	_      linePad
	asleep atomic.Bool
	_      linePad

	sources []Source // fixed before the loop starts
}

// Watch adds a source that Announce looks at. It belongs to construction: call
// it before the owner's loop starts.
func (s *Sleep) Watch(source Source) { s.sources = append(s.sources, source) }

// Announce says that the owner is about to block, then looks at all sources once
// more. It reports true when the owner may block: from now on a sender will wake
// it. It reports false when there is work; the announcement is then withdrawn.
// Owner only.
func (s *Sleep) Announce() bool {
	s.asleep.Store(true)
	for _, source := range s.sources {
		if source.Pending() {
			s.asleep.Store(false)
			return false
		}
	}
	return true
}

// Awake says that the owner has stopped blocking, for whatever reason, and will
// drain its sources. Owner only.
func (s *Sleep) Awake() { s.asleep.Store(false) }

// Claim reports whether the caller must wake the owner. Call it after publishing
// work to one of the owner's sources. Any goroutine.
func (s *Sleep) Claim() bool {
	return s.asleep.Load() && s.asleep.CompareAndSwap(true, false)
}
