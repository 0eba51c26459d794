package ringbuf

import "github.com/mqd-broker/mqd/internal/invariant"

// burst is how many messages in a row a port takes from one peer before it looks
// at the next. Staying pays, because a peer's published batch lies in
// neighbouring cache lines; the bound keeps a busy peer from holding up others.
const burst = 16

// Port is a shard's side of a [Mesh]: the only thing by which it reaches others.
//
// Nothing that a port sends is visible before [Port.Publish], which the loop
// calls once a turn. All methods are for the owning shard's thread, except where
// they say "any goroutine". None of them allocates, waits or calls the kernel.
type Port[T any] struct {
	_     linePad
	shard int
	mesh  *Mesh[T]
	links []link[T] // by peer; the shard's own entry is unused

	unpublished ShardSet // peers for which something was pushed
	unreleased  ShardSet // peers from which something was taken
	unclaimed   ShardSet // peers published to, whose sleep was not looked at

	requestTurn turn
	replyTurn   turn

	sleep Sleep
}

// turn is a position in the round over peers.
type turn struct {
	peer int
	left int // messages that this peer may still deliver in a row
}

func newPort[T any](m *Mesh[T], shard, shards int) *Port[T] {
	p := &Port[T]{shard: shard, mesh: m, links: make([]link[T], shards)}
	p.requestTurn.left, p.replyTurn.left = burst, burst
	p.sleep.Watch(p)
	return p
}

// Shard returns the number of the shard that owns the port. Any goroutine.
func (p *Port[T]) Shard() int { return p.shard }

// Sleep returns the shard's sleep handshake, for inboxes and other sources that
// can hold work for this shard. Any goroutine.
func (p *Port[T]) Sleep() *Sleep { return &p.sleep }

// Send sends a request to another shard at the next Publish. It reports false,
// and counts that, when there is no credit: the caller keeps v and tries again
// after a reply, pausing the connection that it came from.
func (p *Port[T]) Send(to int, v T) bool {
	l := p.peer(to)
	if l.credits == 0 {
		l.refused.Store(l.refused.Load() + 1) // single writer
		return false
	}
	if !l.requestsOut.Push(v) {
		invariant.Violated("ringbuf: a request with a credit finds room")
	}
	l.credits--
	p.unpublished = p.unpublished.With(to)
	return true
}

// Reply answers one request of another shard at the next Publish. It cannot
// fail. Replies may leave in another order than the requests came in, but there
// is exactly one for each: one more is an invariant violation.
func (p *Port[T]) Reply(to int, v T) {
	l := p.peer(to)
	if l.owed == 0 {
		invariant.Violated("ringbuf: every reply answers a request")
	}
	if !l.repliesOut.Push(v) {
		invariant.Violated("ringbuf: a reply finds room")
	}
	l.owed--
	p.unpublished = p.unpublished.With(to)
}

// NextRequest takes a request of any peer, in order per peer and fairly between
// peers. It reports false, with from −1, when there is none. The caller counts
// its calls to bound the work of a turn, and owes a Reply for each.
func (p *Port[T]) NextRequest() (from int, v T, ok bool) {
	for range p.links {
		from = p.requestTurn.peer
		if from != p.shard {
			l := &p.links[from]
			if v, ok = l.requestsIn.Take(); ok {
				l.owed++
				p.unreleased = p.unreleased.With(from)
				p.requestTurn.took(len(p.links))
				return from, v, true
			}
		}
		p.requestTurn.next(len(p.links))
	}
	return -1, v, false
}

// NextReply takes a reply of any peer, in the order in which that peer answered
// and fairly between peers, and gives the credit of its request back. It reports
// false, with from −1, when there is none. The caller counts its calls to bound
// the work of a turn.
func (p *Port[T]) NextReply() (from int, v T, ok bool) {
	for range p.links {
		from = p.replyTurn.peer
		if from != p.shard {
			l := &p.links[from]
			if v, ok = l.repliesIn.Take(); ok {
				p.giveBack(l)
				p.unreleased = p.unreleased.With(from)
				p.replyTurn.took(len(p.links))
				return from, v, true
			}
		}
		p.replyTurn.next(len(p.links))
	}
	return -1, v, false
}

// Publish makes everything sent and answered since the last call visible, and
// hands back the room of everything taken: at most four atomic stores for a
// peer. It returns the peers that got something. Call it once a turn, then
// [Port.TakeSleepers].
//
// Room goes back first: that order is what lets credits guarantee room; see
// [Mesh].
func (p *Port[T]) Publish() ShardSet {
	for s := p.unreleased; !s.Empty(); {
		peer, rest := s.Next()
		s = rest
		p.links[peer].requestsIn.Release()
		p.links[peer].repliesIn.Release()
	}
	for s := p.unpublished; !s.Empty(); {
		peer, rest := s.Next()
		s = rest
		p.links[peer].repliesOut.Publish()
		p.links[peer].requestsOut.Publish()
	}
	got := p.unpublished
	p.unclaimed = p.unclaimed.union(got)
	p.unpublished, p.unreleased = ShardSet{}, ShardSet{}
	return got
}

// TakeSleepers returns those peers that were published to since the last call
// and had announced sleep. The caller must wake each of them once; no other
// shard will be told to.
func (p *Port[T]) TakeSleepers() ShardSet {
	var sleepers ShardSet
	for s := p.unclaimed; !s.Empty(); {
		peer, rest := s.Next()
		s = rest
		if p.mesh.ports[peer].sleep.Claim() {
			sleepers = sleepers.With(peer)
		}
	}
	p.unclaimed = ShardSet{}
	return sleepers
}

// AnnounceSleep says that the shard is about to block and looks at everything
// that can hold work for it once more. True: it may block, and will be woken.
// False: there is work, and the announcement is withdrawn. To announce with
// messages unpublished or sleepers not looked at is an invariant violation:
// nobody would make up for it. The argument is on [Sleep].
func (p *Port[T]) AnnounceSleep() bool {
	if !p.unpublished.Empty() || !p.unclaimed.Empty() {
		invariant.Violated("ringbuf: a shard goes to sleep with nothing unpublished and nobody unwoken")
	}
	return p.sleep.Announce()
}

// Awake says that the shard has stopped blocking. Call it before draining.
func (p *Port[T]) Awake() { p.sleep.Awake() }

// Pending reports whether a request or a reply of any peer is there.
func (p *Port[T]) Pending() bool {
	for i := range p.links {
		if i != p.shard && (!p.links[i].requestsIn.Empty() || !p.links[i].repliesIn.Empty()) {
			return true
		}
	}
	return false
}

// Credits returns how many requests may still be sent to a peer.
func (p *Port[T]) Credits(to int) int { return p.peer(to).credits }

// Owed returns how many requests of a peer were taken and not yet answered.
func (p *Port[T]) Owed(to int) int { return p.peer(to).owed }

// Refused returns how many calls of Send to a peer found no credit since the
// start. Any goroutine.
func (p *Port[T]) Refused(to int) uint64 { return p.peer(to).refused.Load() }

// peer returns what the port keeps about another shard.
func (p *Port[T]) peer(shard int) *link[T] {
	if shard == p.shard {
		invariant.Violated("ringbuf: a shard has no link to itself")
	}
	return &p.links[shard]
}

// giveBack returns the credit of a request whose reply was taken.
func (p *Port[T]) giveBack(l *link[T]) {
	l.credits++
	if l.credits > l.requestsOut.Cap() {
		invariant.Violated("ringbuf: no more credits come back than were spent")
	}
}

// took counts a message of the current peer and moves on when its burst is over.
func (t *turn) took(peers int) {
	t.left--
	if t.left == 0 {
		t.next(peers)
	}
}

// next moves to the following peer.
func (t *turn) next(peers int) {
	t.left = burst
	t.peer++
	if t.peer == peers {
		t.peer = 0
	}
}
