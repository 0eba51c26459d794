package ringbuf

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// load is what a mesh of sleepers has to do.
type load struct {
	name            string
	shards, credits int
	askers          int // shards 0 to askers−1 send requests
	requests        int // of each asker
	inFlight        int // requests of an asker that may be out at once
	posters, posts  int // goroutines that post to inboxes, and how often each
}

// sleepers is a mesh of shards that block on a channel, which stands for the
// kernel, whenever they find nothing to do. Inside a synctest bubble a lost
// wake-up needs no clock to be noticed: as soon as every goroutine is blocked
// and none can go on, the runtime stops the test as a deadlock.
//
// The windows in which a wake-up could get lost are a few nanoseconds wide, so
// the goroutines yield in them at random.
type sleepers struct {
	t       *testing.T
	load    load
	mesh    *Mesh[int]
	inboxes []*Inbox[chan struct{}] // carries where to confirm
	random  []*rand.Rand            // of each shard
	wake    []chan struct{}         // the kernel's side of each shard
	done    chan struct{}           // closed when nothing is left to do
	left    atomic.Int64            // replies and posts outstanding

	announced atomic.Int64 // announcements, each worth one wake-up at most
	slept     atomic.Int64 // announcements that let the shard block
	woken     atomic.Int64 // wake-ups sent
}

func newSleepers(t *testing.T, l load, seed uint64) *sleepers {
	s := &sleepers{t: t, load: l, mesh: NewMesh[int](l.shards, l.credits), done: make(chan struct{})}
	s.left.Store(int64(l.askers*l.requests + l.posters*l.posts))
	for i := range l.shards {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		s.random = append(s.random, random)
		// Each shard empties its channel every turn and each announcement adds
		// one wake-up at most, so a few places hold all that can be under way.
		s.wake = append(s.wake, make(chan struct{}, 16))
		sleep := s.mesh.Port(i).Sleep() // looks at the port first
		sleep.Watch(&hook{func() { maybeYield(random) }})
		s.inboxes = append(s.inboxes, NewInbox[chan struct{}]("inbox", 8, sleep))
		sleep.Watch(&hook{func() { maybeYield(random) }})
	}
	return s
}

func maybeYield(random *rand.Rand) {
	if random.IntN(4) == 0 {
		runtime.Gosched()
	}
}

func (s *sleepers) wakeUp(shard int) {
	s.woken.Add(1)
	select {
	case s.wake[shard] <- struct{}{}:
	default:
		s.t.Errorf("wake-ups of shard %d pile up", shard)
	}
}

func (s *sleepers) finish() {
	if s.left.Add(-1) == 0 {
		close(s.done)
	}
}

// shard is the loop of a shard: it asks random peers, answers theirs, confirms
// what is posted to it, and sleeps whenever it has nothing to do.
func (s *sleepers) shard(i int) {
	p, random := s.mesh.Port(i), s.random[i]
	requests, out := 0, 0
	if i < s.load.askers {
		requests = s.load.requests
	}
	for {
		out -= s.drain(i)
		if requests > 0 && out < s.load.inFlight {
			to := (i + 1 + random.IntN(s.load.shards-1)) % s.load.shards
			if p.Send(to, requests) {
				requests--
				out++
			}
		}
		p.Publish()
		maybeYield(random)
		for set := p.TakeSleepers(); !set.Empty(); {
			var peer int
			peer, set = set.Next()
			s.wakeUp(peer)
		}
		select {
		case <-s.wake[i]:
		default:
		}
		if requests > 0 && out < s.load.inFlight && s.anyCredit(p) {
			continue // still something to send
		}
		maybeYield(random)
		s.announced.Add(1)
		if !p.AnnounceSleep() {
			continue
		}
		s.slept.Add(1)
		maybeYield(random)
		select {
		case <-s.wake[i]:
		case <-s.done:
			return
		}
		p.Awake()
	}
}

// drain takes at most three messages of each kind, so that a shard needs many
// turns, and returns how many of them were replies.
func (s *sleepers) drain(i int) (replies int) {
	p := s.mesh.Port(i)
	for range 3 {
		if _, _, ok := p.NextReply(); ok {
			replies++
			s.finish()
		}
		if from, v, ok := p.NextRequest(); ok {
			p.Reply(from, v)
		}
		if confirm, ok := s.inboxes[i].Take(); ok {
			confirm <- struct{}{}
		}
	}
	s.inboxes[i].Release()
	return replies
}

func (s *sleepers) anyCredit(p *Port[int]) bool {
	for to := range s.load.shards {
		if to != p.Shard() && p.Credits(to) > 0 {
			return true
		}
	}
	return false
}

// poster posts to random shards, each time waiting until it was heard.
func (s *sleepers) poster(random *rand.Rand) {
	confirm := make(chan struct{}, 1)
	for range s.load.posts {
		to := random.IntN(s.load.shards)
		wake, err := s.inboxes[to].Post(confirm)
		if err != nil {
			s.t.Errorf("an inbox with room for every poster is full: %v", err)
		}
		maybeYield(random)
		if wake {
			s.wakeUp(to)
		}
		<-confirm
		s.finish()
	}
}

// In the first two loads there is never more than one message, so that no later
// one can make up for a wake-up that got lost.
func TestHammerNoWakeUpIsLost(t *testing.T) {
	for _, l := range []load{
		{name: "one request between two", shards: 2, credits: 2, askers: 1, requests: 10_000, inFlight: 1},
		{name: "one post to one", shards: 1, credits: 2, posters: 1, posts: 10_000},
		{name: "one request each", shards: 3, credits: 2, askers: 3, requests: 5_000, inFlight: 1},
		{name: "all to all", shards: 3, credits: 2, askers: 3, requests: 10_000, inFlight: 4, posters: 2, posts: 3_000},
	} {
		t.Run(l.name, func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			synctest.Test(t, func(t *testing.T) { hammerSleepers(t, l, seed) })
		})
	}
}

func hammerSleepers(t *testing.T, l load, seed uint64) {
	s := newSleepers(t, l, seed)
	for i := range l.shards {
		go s.shard(i)
	}
	for i := range l.posters {
		go s.poster(rand.New(rand.NewPCG(seed, uint64(l.shards+i))))
	}
	<-s.done
	synctest.Wait()
	announced, slept, woken := s.announced.Load(), s.slept.Load(), s.woken.Load()
	t.Logf("%d announcements, %d sleeps, %d wake-ups", announced, slept, woken)
	if slept == 0 || woken == 0 || announced == slept {
		t.Errorf("a hammer that never sleeps, wakes or changes its mind proves nothing")
	}
	if woken > announced {
		t.Errorf("%d wake-ups for %d announcements", woken, announced)
	}
}

func TestHammerASleeperIsClaimedByOneOfMany(t *testing.T) {
	const claimers, rounds = 3, 20_000
	var sleep Sleep
	var round, wins, finished atomic.Int64
	var claiming sync.WaitGroup
	for range claimers {
		claiming.Go(func() {
			for r := int64(1); r <= rounds; r++ {
				for round.Load() < r {
					runtime.Gosched()
				}
				if sleep.Claim() {
					wins.Add(1)
				}
				finished.Add(1)
			}
		})
	}
	defer claiming.Wait()
	defer round.Store(rounds) // lets the claimers go when the test fails
	for r := int64(1); r <= rounds; r++ {
		if !sleep.Announce() {
			t.Fatal("a shard without sources may not sleep")
		}
		round.Store(r)
		for finished.Load() < r*claimers {
			runtime.Gosched()
		}
		if got := wins.Load(); got != r {
			t.Fatalf("%d wake-ups for %d sleeps", got, r)
		}
	}
}
