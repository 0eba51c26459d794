package ringbuf

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
)

// The hammers run real threads against each other; they are made for -race,
// which checks that every hand-over of a slot and of lent memory is ordered.

func TestHammerRingKeepsOrderBetweenTwoThreads(t *testing.T) {
	for _, capacity := range []int{2, 8, 256} {
		hammerRing(t, capacity, 100_000)
	}
}

func hammerRing(t *testing.T, capacity, messages int) {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("capacity %d, seed %d", capacity, seed)
	r := NewSPSC[*int](capacity) // pointers: what is behind them is handed over too
	var done sync.WaitGroup
	done.Go(func() {
		random := rand.New(rand.NewPCG(seed, 1))
		for sent := 0; sent < messages; {
			batch := 1 + random.IntN(capacity)
			for ; batch > 0 && sent < messages; batch-- {
				v := new(int)
				*v = sent
				if !r.Push(v) {
					break
				}
				sent++
			}
			r.Publish()
			if batch > 0 {
				runtime.Gosched()
			}
		}
	})
	random := rand.New(rand.NewPCG(seed, 2))
	for next := 0; next < messages; {
		v, ok := r.Take()
		if !ok {
			r.Release()
			runtime.Gosched()
			continue
		}
		if *v != next {
			t.Errorf("message %d, expected %d", *v, next)
			break
		}
		*v = -1 // ours now
		next++
		if random.IntN(capacity) == 0 {
			r.Release()
		}
	}
	r.Release()
	if t.Failed() {
		return // the producer may be stuck on a ring nobody empties
	}
	done.Wait()
	if occupied(r) != 0 {
		t.Error("slots are still occupied")
	}
}

// loan is memory that travels: the asking shard fills it, the answering shard
// changes it, the reply brings it home.
type loan struct {
	mem *[8]int
}

func TestHammerMeshBringsLentMemoryHome(t *testing.T) {
	const shards, credits, rounds = 3, 4, 10_000
	m := NewMesh[loan](shards, credits)
	var asked, running sync.WaitGroup
	asked.Add(shards)
	all := make(chan struct{}) // closed when every shard has all its replies
	for i := range shards {
		running.Go(func() { lendAndAnswer(t, m.Port(i), rounds, asked.Done, all) })
	}
	asked.Wait()
	close(all)
	running.Wait()
}

// lendAndAnswer is a shard that polls: it lends all peers its buffers, rounds
// times each, and answers whoever asks, until all is closed.
func lendAndAnswer(t *testing.T, p *Port[loan], rounds int, finished func(), all <-chan struct{}) {
	peers := p.mesh.Shards()
	home := make([][]*[8]int, peers) // buffers that are not lent, by peer
	left := make([]int, peers)
	replies := 0
	for to := range peers {
		if to == p.Shard() {
			continue
		}
		for range p.Credits(to) {
			home[to] = append(home[to], new([8]int))
		}
		left[to] = rounds
		replies += rounds
	}
	for {
		for from, v, ok := p.NextReply(); ok; from, v, ok = p.NextReply() {
			if v.mem[0] != from {
				t.Errorf("shard %d got memory changed by %d home from %d", p.Shard(), v.mem[0], from)
			}
			home[from] = append(home[from], v.mem)
			if replies--; replies == 0 {
				finished()
			}
		}
		for from, v, ok := p.NextRequest(); ok; from, v, ok = p.NextRequest() {
			if v.mem[0] != from {
				t.Errorf("shard %d was lent memory of %d by %d", p.Shard(), v.mem[0], from)
			}
			v.mem[0] = p.Shard()
			p.Reply(from, v)
		}
		for to := range peers {
			for left[to] > 0 && p.Credits(to) > 0 {
				last := len(home[to]) - 1 // as many buffers as credits: never empty here
				mem := home[to][last]
				home[to] = home[to][:last]
				mem[0] = p.Shard()
				if !p.Send(to, loan{mem}) {
					t.Errorf("shard %d: a send with credit was refused", p.Shard())
				}
				left[to]--
			}
		}
		if p.Publish().Empty() {
			select {
			case <-all:
				return
			default:
				runtime.Gosched()
			}
		}
	}
}

func TestHammerInboxLosesNothingAndKeepsEachPostersOrder(t *testing.T) {
	const posters, messages = 4, 20_000
	type posted struct{ poster, seq int }
	var sleep Sleep
	b := NewInbox[posted]("inbox", 8, &sleep)
	var posting sync.WaitGroup
	for i := range posters {
		posting.Go(func() {
			for seq := 0; seq < messages; {
				if _, err := b.Post(posted{i, seq}); err != nil {
					runtime.Gosched()
					continue
				}
				seq++
			}
		})
	}
	var next [posters]int
	for total := 0; total < posters*messages; {
		v, ok := b.Take()
		if !ok {
			b.Release()
			runtime.Gosched()
			continue
		}
		if v.seq != next[v.poster] {
			t.Errorf("poster %d: message %d, expected %d", v.poster, v.seq, next[v.poster])
		}
		next[v.poster] = v.seq + 1
		total++
	}
	posting.Wait()
	if b.Pending() {
		t.Error("more came out than went in")
	}
}
