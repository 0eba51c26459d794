package journal

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
)

const crashFile = "/journal"

// crashRun lets a journal live through many lives on a simulated disk, each ended
// by a power cut or a kill at a random moment, and holds every replay against what
// was promised.
type crashRun struct {
	t    *testing.T
	seed uint64
	rng  *rand.Rand
	w    *sim.World
	d    *sim.Driver
	r    *FileRegion
	opts Options
	obs  *recorder
	j    *Journal

	next    int64
	model   []promise // what was appended and is not known to be lost
	killed  bool      // how the last life ended
	lives   int
	dropped int // torn tails seen
}

// promise is an appended entry.
type promise struct {
	id  int64
	lsn uint64
	n   int
}

// driverOptions keep the simulated memory small.
var driverOptions = aio.Options{ArenaBytes: 4 << 20, RecvBuffers: 2, RecvBufferBytes: 4096}

func (c *crashRun) fatalf(format string, args ...any) {
	c.t.Helper()
	c.t.Fatalf("seed %d, life %d: %s", c.seed, c.lives, fmt.Sprintf(format, args...))
}

func newCrashRun(t *testing.T, seed uint64) *crashRun {
	c := &crashRun{t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 42)), next: 1}
	c.w = sim.New(sim.Options{Seed: seed, DSYNC: sim.DSYNC(seed % 2)})
	c.opts = Options{
		Method: Method(c.rng.IntN(3) / 2), MaxInFlight: 1 + c.rng.IntN(maxInFlight),
		RoundBytes: (2 + c.rng.IntN(7)) * BlockSize, MaxBody: (1 + c.rng.IntN(9)) * BlockSize,
	}
	c.d = c.w.Driver(driverOptions)
	// Often so small that rounds meet the limit of an anchor and the end of the ring.
	size := max(8*int64(max(c.opts.RoundBytes, c.opts.MaxBody)), MinRegion) + int64(c.rng.IntN(80))*BlockSize
	if _, err := CreateFile(c.d, crashFile, size, Identity{}); err != nil {
		c.fatalf("create: %v", err)
	}
	c.end()
	return c
}

// end ends the present life.
func (c *crashRun) end() {
	c.killed = c.rng.IntN(3) == 0
	if c.killed {
		c.w.Kill()
	} else {
		c.w.Crash(sim.Keep(c.rng.IntN(4)))
	}
	c.d = c.w.Driver(driverOptions)
}

// recover replays the journal and checks what it finds.
func (c *crashRun) recover() *Result {
	c.t.Helper()
	var err error
	if c.r, err = OpenFileRegion(c.d, crashFile); err != nil {
		c.fatalf("open: %v", err)
	}
	res, list, err := scanAll(c.d, c.r)
	if err != nil {
		c.fatalf("scan: %v", err)
	}
	if !res.Intact() || res.AnchorStale || res.Ending == EndDamaged {
		c.fatalf("ending %v, damage %v", res.Ending, res.Damages)
	}
	wantWholeSearchToAgree(c.t, c.d, c.r, res)
	if res.Ending == EndTorn {
		c.dropped++
	}
	// What is released stays in the model: a kill may have left an anchor in the
	// cache that a power cut then takes back.
	from := 0
	for from < len(c.model) && c.model[from].lsn < res.HeadLSN {
		from++
	}
	expected := c.model[from:]
	if len(list) > len(expected) {
		c.fatalf("found %d entries, %d were appended", len(list), len(expected))
	}
	for i, f := range list {
		p := expected[i]
		if f.e.BaseOffset != p.id || f.lsn != p.lsn || f.body != string(testBatch(p.id, p.n)) {
			c.fatalf("entry %d is batch %d of round %d, expected batch %d of round %d", i, f.e.BaseOffset, f.lsn, p.id, p.lsn)
		}
	}
	if c.obs != nil {
		c.promised(res, from+len(list))
	}
	c.model = c.model[:from+len(list)]
	return res
}

// promised checks that nothing is missing that was reported.
func (c *crashRun) promised(res *Result, n int) {
	safe := c.obs.flushed
	if c.killed {
		safe = c.obs.written
	}
	if res.LastLSN < safe {
		c.fatalf("last round %d, reported up to %d (killed: %v)", res.LastLSN, safe, c.killed)
	}
	if n < len(c.model) && c.model[n].lsn <= safe {
		c.fatalf("batch %d of round %d is missing, reported up to %d (killed: %v)", c.model[n].id, c.model[n].lsn, safe, c.killed)
	}
	if res.HeadLSN <= c.j.Released() {
		c.fatalf("head %d, released up to %d", res.HeadLSN, c.j.Released())
	}
}

// open begins a life; sometimes the machine stops in the middle of it.
func (c *crashRun) open(res *Result) {
	for c.rng.IntN(4) == 0 {
		c.obs = nil
		c.openHalfway(res)
		res = c.recover()
	}
	c.obs = &recorder{}
	o := c.opts
	o.Observer = c.obs
	j, err := Open(c.d, c.r, res, o)
	if err != nil {
		c.fatalf("open: %v", err)
	}
	c.j = j
}

// stopper is a region on which the machine stops at the n-th operation.
type stopper struct {
	*FileRegion
	c    *crashRun
	left int
}

func (s *stopper) Write(op *aio.Op, buf []byte, off int64, how aio.Flags) {
	s.FileRegion.Write(op, buf, off, how)
	s.count()
}

func (s *stopper) Flush(op *aio.Op) {
	s.FileRegion.Flush(op)
	s.count()
}

func (s *stopper) count() {
	if s.left--; s.left == 0 {
		s.c.end()
	}
}

func (c *crashRun) openHalfway(res *Result) {
	s := &stopper{FileRegion: c.r, c: c, left: 1 + c.rng.IntN(5)}
	o := c.opts
	o.Observer = &recorder{}
	d := c.d
	if _, err := Open(d, s, res, o); err == nil {
		c.fatalf("opened on a machine that has stopped")
	}
}

// live appends, writes and releases at random, and then stops.
func (c *crashRun) live() {
	for range c.rng.IntN(300) {
		switch c.rng.IntN(12) {
		case 0:
			c.j.Release(c.j.WrittenLSN() - uint64(c.rng.IntN(4)))
		case 1:
			c.j.Flush()
		case 2:
			c.j.KickAll(c.w.Wall())
		case 3:
			c.rest(3)
		default:
			c.append()
		}
		if c.j.Free() < c.j.Capacity()/3 {
			c.j.Release(c.j.WrittenLSN())
		}
		c.turn()
	}
	if c.rng.IntN(3) == 0 {
		c.rest(20)
	}
	c.end()
}

func (c *crashRun) append() {
	n := c.rng.IntN(600)
	if c.rng.IntN(8) == 0 {
		n = c.rng.IntN(8 * BlockSize)
	}
	id := c.next
	e := Entry{Kind: KindBatch, BaseOffset: id}
	lsn, err := c.j.Append(&e, testBatch(id, n), Need(c.rng.IntN(3)))
	if err == nil {
		c.next++
		c.model = append(c.model, promise{id, lsn, n})
	}
}

func (c *crashRun) turn() {
	c.j.Kick(c.w.Wall())
	c.j.Timer(c.w.Now(), c.w.Wall())
	if _, err := c.d.Poll(0); err != nil {
		c.fatalf("poll: %v", err)
	}
	if c.rng.IntN(2) == 0 {
		c.w.Step()
	}
}

// rest lets several events pass.
func (c *crashRun) rest(events int) {
	for range events {
		c.turn()
		c.w.Step()
	}
}

func TestWhatWasReportedSurvivesEveryCrash(t *testing.T) {
	seeds, lives := uint64(40), 12
	if testing.Short() {
		seeds = 8
	}
	torn := 0
	for seed := range seeds {
		c := newCrashRun(t, seed)
		for c.lives = 0; c.lives < lives; c.lives++ {
			c.open(c.recover())
			c.live()
		}
		c.recover()
		torn += c.dropped
	}
	if torn == 0 {
		t.Fatal("no crash left a torn tail: the test does not test")
	}
}

// A journal is replayed, opened and used after a kill: what the kill left in the
// device's cache is built upon, so a later power cut must not take it away.
func TestWhatAKillLeftIsDurableOnceTheJournalServes(t *testing.T) {
	for seed := range uint64(20) {
		c := newCrashRun(t, seed)
		c.open(c.recover())
		for range 10 {
			c.append()
			c.rest(6)
		}
		c.w.Kill()
		c.d, c.killed = c.w.Driver(driverOptions), true
		res := c.recover()
		c.obs = &recorder{}
		o := c.opts
		o.Observer = c.obs
		j, err := Open(c.d, c.r, res, o)
		if err != nil {
			c.fatalf("open: %v", err)
		}
		kept := len(c.model)
		c.j = j
		c.w.Crash(sim.KeepNone)
		c.d, c.killed = c.w.Driver(driverOptions), false
		if c.recover(); len(c.model) != kept {
			c.fatalf("%d entries after the kill, %d after the power cut", kept, len(c.model))
		}
	}
}
