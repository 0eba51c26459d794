package images

import (
	"time"

	"github.com/mqd-broker/mqd/engine/aio/sim"
	"github.com/mqd-broker/mqd/test/history"
)

// workload is a script and the machine that it runs on.
type workload struct {
	name  string
	dsync sim.DSYNC
	play  func(s *script)
}

const ringBytes = 1 << 20

// workloads go through what leaves different things behind.
var workloads = []workload{
	{"rounds", sim.DSYNCOwnBytes, rounds},
	{"rounds on a device without FUA", sim.DSYNCFlushes, rounds},
	{"classes memory and written", sim.DSYNCOwnBytes, weakClasses},
	{"the ring wraps", sim.DSYNCOwnBytes, wrap},
	{"segments are sealed", sim.DSYNCOwnBytes, seal},
	{"both generations of a checkpoint", sim.DSYNCOwnBytes, checkpoints},
	{"tail fragments", sim.DSYNCOwnBytes, tails},
	{"classes change", sim.DSYNCOwnBytes, classes},
	{"topics come and go", sim.DSYNCOwnBytes, topics},
	{"the number of shards changes", sim.DSYNCOwnBytes, shardCounts},
	{"lives that begin with a recovery", sim.DSYNCOwnBytes, recoveries},
	{"short lives", sim.DSYNCOwnBytes, shortLives},
	{"idempotent producers", sim.DSYNCOwnBytes, retries},
	{"compaction", sim.DSYNCOwnBytes, compact},
}

// rounds are a few, with one batch and with several, of a sector and of many, one at a
// time and one behind the other.
func rounds(s *script) {
	s.up(1)
	tp := s.create("rounds", 3, history.Flushed)
	s.watch(true)
	for i, size := range []int{20, 300, 900, 3000, 40, 7000} {
		s.send(tp.parts[i%2], 1+i%3, size)
		s.settle()
	}
	for i := range 12 {
		s.send(tp.parts[i%3], 1+i%2, 100+i*170)
		if i%4 == 3 {
			s.rest(40 * time.Microsecond)
		}
	}
	s.settle()
	s.rest(2 * time.Millisecond) // until the mark
	s.send(tp.parts[0], 1, 50)
	s.settle()
}

// weakClasses let time pass, so that flushes come by themselves.
func weakClasses(s *script) {
	s.up(1)
	list := []*topic{
		s.create("memory", 2, history.Memory, "flush.interval", "1ms"),
		s.create("written", 1, history.Written, "flush.interval", "1ms"),
		s.create("flushed", 1, history.Flushed),
	}
	s.watch(true)
	for i := range 14 {
		tp := list[[]int{0, 1, 0, 2, 1, 0, 0}[i%7]]
		s.send(tp.parts[i%len(tp.parts)], 1+i%2, 30+i*60)
		s.rest(time.Duration(i%3) * 200 * time.Microsecond)
	}
	s.settle()
	s.rest(3 * time.Millisecond)
	s.send(list[0].parts[0], 1, 40)
	s.send(list[1].parts[0], 1, 40)
	s.settle()
	s.down(endKill, sim.KeepAll)
	s.up(1)
	s.send(list[0].parts[0], 2, 60)
	s.send(list[1].parts[0], 2, 60)
	s.rest(500 * time.Microsecond)
	s.down(endCut, sim.KeepPrefix)
	s.watch(false)
	s.up(1)
}

// fill sends until bytes have been acknowledged.
func (s *script) fill(tp *topic, bytes, size int) {
	for n := 0; n < bytes; n += size {
		s.send(tp.parts[n/size%len(tp.parts)], 1, size)
		if n/size%8 == 7 {
			s.settle()
		}
	}
	s.settle()
}

// wrap looks at the rounds around the end of the ring. The topic that has brought the
// journal there is deleted. A round may end just where the ring does.
func wrap(s *script) {
	s.up(1)
	tp := s.create("wrap", 2, history.Flushed, "segment.bytes", "65536")
	filler := s.create("filler", 1, history.Flushed)
	for s.n.Journal(0).Stats().Bytes < ringBytes-100<<10 {
		s.fill(filler, 16<<10, 16<<10)
	}
	s.remove(filler)
	s.watch(true)
	for i := 0; i < 40 && s.n.Journal(0).Stats().Bytes < ringBytes; i++ {
		s.send(tp.parts[i%2], 1, []int{15 << 10, 3000, 9000, 40}[i%4])
		if i%2 == 1 {
			s.settle()
		}
	}
	s.reached("the end of the ring", s.n.Journal(0).Stats().Bytes/ringBytes)
	for i := range 4 {
		s.send(tp.parts[i%2], 1, 500*i+40)
	}
	s.settle()
	s.rest(2 * time.Millisecond)
	s.down(endCut, sim.KeepRandom)
	s.up(1)
	s.send(tp.parts[0], 1, 200)
	s.settle()
}

// seal fills small segments: they are rolled, written, flushed and sealed.
func seal(s *script) {
	s.up(1)
	tp := s.create("seal", 1, history.Flushed, "segment.bytes", "16384", "index.interval.bytes", "256")
	s.watch(true)
	for range 14 {
		s.send(tp.parts[0], 2, 1900)
		s.rest(300 * time.Microsecond)
	}
	s.settle()
	s.rest(3 * time.Millisecond)
	s.reached("sealed segments", s.n.Store(0).Stats().SealedSegments)
	s.down(endCut, sim.KeepRandom)
	s.up(1)
	for range 5 {
		s.send(tp.parts[0], 2, 1900)
	}
	s.settle()
	s.stop()
}

// checkpoints ends in order time and again: each end writes the other generation.
func checkpoints(s *script) {
	s.up(1)
	tp := s.create("checkpoints", 3, history.Flushed)
	s.watch(true)
	for life := range 3 {
		s.send(tp.parts[life], 2, 500+700*life)
		s.send(tp.parts[0], 1, 100)
		s.settle()
		s.stop()
		s.up(1)
	}
	s.send(tp.parts[1], 1, 200)
	s.settle()
}

// tails keep many partitions a message each while a topic that is deleted fills the
// ring: a checkpoint brings their partial blocks to the files, and before it does so again
// the old content goes into the journal once more.
func tails(s *script) {
	s.up(1)
	small := s.create("small", 6, history.Flushed)
	for cycle := range 2 {
		for i, p := range small.parts {
			s.send(p, 1, 40+i*90)
		}
		filler := s.create("filler", 1, history.Flushed)
		s.fill(filler, ringBytes*36/100, 16<<10)
		s.remove(filler)
		s.watch(cycle == 1)
		for i := 0; i < 100 && int(s.n.Store(0).Stats().Checkpoints) <= cycle; i++ {
			s.send(small.parts[i%4], 1, 1900)
			s.settle()
		}
	}
	s.reached("a checkpoint", s.n.Store(0).Stats().Checkpoints)
	s.reached("tail fragments", s.n.Store(0).Stats().TailEntries)
	for _, p := range small.parts[2:] {
		s.send(p, 1, 60)
	}
	s.settle()
	s.rest(2 * time.Millisecond)
	s.stop()
	s.up(1)
	s.send(small.parts[0], 1, 70)
	s.settle()
	s.stop()
}

// classes change, to stronger and to weaker ones, with traffic before and behind.
func classes(s *script) {
	s.up(1)
	tp := s.create("classes", 2, history.Memory, "flush.interval", "20ms")
	s.watch(true)
	for i, c := range []history.Class{history.Flushed, history.Written, history.Memory, history.Written, history.Flushed} {
		for n := range 3 {
			s.send(tp.parts[n%2], 1, 60+100*i)
		}
		s.alter(tp, c)
		s.send(tp.parts[i%2], 2, 90)
		s.settle()
	}
	s.down(endCut, sim.KeepNone)
	s.up(1)
	s.send(tp.parts[0], 1, 70)
	s.settle()
}

// topics are deleted and made again under the same name, with batches of both in the
// ring.
func topics(s *script) {
	s.up(1)
	s.watch(true)
	other := s.create("other", 1, history.Flushed)
	for i, class := range []history.Class{history.Flushed, history.Memory, history.Written} {
		tp := s.create("again", 2, class)
		for n := range 3 {
			s.send(tp.parts[n%2], 1, 200+n*300)
		}
		s.send(other.parts[0], 1, 80)
		s.settle()
		if i == 1 {
			s.down(endKill, sim.KeepAll)
			s.up(1)
		}
		s.remove(tp)
		s.send(other.parts[0], 1, 90)
		s.rest(300 * time.Microsecond)
	}
	s.create("again", 1, history.Flushed)
	s.rest(2 * time.Millisecond)
}

// shardCounts starts with other numbers of shards behind power cuts and orderly ends.
func shardCounts(s *script) {
	s.up(2)
	tp := s.create("shards", 5, history.Flushed)
	for life, shards := range []int{3, 1, 2} {
		s.watch(life == 0)
		for i, p := range tp.parts {
			s.send(p, 1, 60+i*200+life*500)
		}
		s.rest(100 * time.Microsecond)
		s.watch(true)
		s.down(endCut, []sim.Keep{sim.KeepRandom, sim.KeepNone, sim.KeepAll}[life])
		s.up(shards)
	}
	s.send(tp.parts[3], 1, 100)
	s.settle()
	s.stop()
	s.up(1)
}

// recoveries ends lives by force, so that the next ones stand on what a recovery has
// made.
func recoveries(s *script) {
	s.up(1)
	tp := s.create("lives", 2, history.Flushed, "segment.bytes", "16384")
	wr := s.create("written", 1, history.Written)
	s.watch(true)
	for life := range 4 {
		for i := range 4 {
			s.send(tp.parts[i%2], 1+i%2, 150+i*900)
			s.send(wr.parts[0], 1, 100)
			s.rest(time.Duration(i) * 60 * time.Microsecond)
		}
		s.down([]end{endCut, endKill, endKill, endCut}[life], []sim.Keep{sim.KeepRandom, 0, 0, sim.KeepPrefix}[life])
		s.up(1)
	}
	s.settle()
}

// shortLives send one small message or two in each life, so that rounds of lives fall
// on one another.
func shortLives(s *script) {
	s.up(1)
	tp := s.create("short", 1, history.Flushed)
	s.settle()
	s.watch(true)
	for life := range 5 {
		for range 1 + life%3 {
			s.send(tp.parts[0], 1, 40)
		}
		s.rest(time.Duration(50+life*70) * time.Microsecond)
		s.down(endCut, []sim.Keep{sim.KeepRandom, sim.KeepPrefix}[life%2])
		s.up(1)
	}
	s.send(tp.parts[0], 1, 40)
	s.settle()
}

// compact fills small segments with few keys, and looks at what happens when they are
// compacted, twice, with a start between.
func compact(s *script) {
	s.cfg.CompactionPause = 5 * time.Millisecond
	s.up(1)
	tp := s.create("compact", 1, history.Flushed, "segment.bytes", "16384", "cleanup.policy", "compact", "min.cleanable.dirty.ratio", "0.1")
	for round := range 2 {
		for range 12 {
			s.send(tp.parts[0], 3, 1200)
			s.rest(300 * time.Microsecond)
		}
		s.settle()
		s.watch(true)
		for i := 0; i < 100 && s.n.Store(0).Stats().CompactedSegments == 0; i++ {
			s.rest(time.Millisecond)
		}
		s.reached("compacted segments", s.n.Store(0).Stats().CompactedSegments)
		s.rest(3 * time.Millisecond)
		s.watch(false)
		if round == 0 {
			s.down(endCut, sim.KeepRandom)
			s.up(1)
		}
	}
	s.stop()
}
