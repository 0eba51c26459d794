package images

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"strings"

	"github.com/mqd-broker/mqd/broker"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
	"github.com/mqd-broker/mqd/engine/layout"
	"github.com/mqd-broker/mqd/engine/recovery"
	"github.com/mqd-broker/mqd/net/wire"
	"github.com/mqd-broker/mqd/node"
	"github.com/mqd-broker/mqd/test/history"
)

const (
	// maxDepth is how often a recovery of a recovery is crashed.
	maxDepth = 2
	// remembered is the number of images whose recovery is remembered.
	remembered = 4096
)

// bounds say how much is examined.
type bounds struct {
	// subsets is the number of images made at a moment. Where there are no more choices
	// than that, all are made.
	subsets int
	// nested is the number of images that are made at each step of a recovery.
	nested int
	// whole is how many images there are to one that is started as a whole node, read
	// by a client, and crashed at each step of its start. deep is the same for images
	// of crashed starts.
	whole, deep int
}

// figures count what was done.
type figures struct {
	moments int // at which something could be lost or not
	choices int // things that could be lost, at all moments
	images  int // judged, no two of them alike in content and in what was known
	starts  int // recoveries of images unlike those before
	wholes  int // whole nodes started on an image and read
	crashed int // moments in starts of images, at each of which they were crashed
	nested  int // images of crashed starts, among images
	depth2  int // among them those of a start on such an image
	same    int // images that came out like one that had been judged

	// Recoveries that dropped a torn tail of a journal, brought batches to segments, or
	// recorded a gap.
	torn, replayed, gaps int
}

func (f *figures) add(o figures) {
	f.moments += o.moments
	f.choices += o.choices
	f.images += o.images
	f.starts += o.starts
	f.wholes += o.wholes
	f.crashed += o.crashed
	f.nested += o.nested
	f.depth2 += o.depth2
	f.same += o.same
	f.torn += o.torn
	f.replayed += o.replayed
	f.gaps += o.gaps
}

func (f figures) String() string {
	return fmt.Sprintf("%d moments with %d choices, %d images (%d more were like one of them), %d recoveries (%d with a torn tail, %d with something "+
		"to replay, %d with a gap to record), %d nodes started and read, crashed at %d moments of their starts; of those starts %d images, "+
		"%d of them of a second crashed start",
		f.moments, f.choices, f.images, f.same, f.starts, f.torn, f.replayed, f.gaps, f.wholes, f.crashed, f.nested, f.depth2)
}

// end is what happens to a machine at a moment.
type end uint8

const (
	endCut      end = iota // the power fails
	endKill                // the process dies
	endCutStart            // the power fails before the node has come up
	endTorn                // the start finds a torn tail
)

func (e end) apply(p *history.Partition) {
	switch e {
	case endCut:
		p.PowerCut()
	case endKill:
		p.Crashed()
	case endCutStart:
		p.CutBeforeStart()
	case endTorn:
		p.TornTail()
	}
}

func apply(ends []end) []func(*history.Partition) {
	list := make([]func(*history.Partition), len(ends))
	for i, e := range ends {
		list[i] = e.apply
	}
	return list
}

// content names an image by what a start makes of it.
type content struct {
	sum    uint64
	shards int
}

// question names an image and what was known when it came to be.
type question struct {
	content
	events int
	ends   string
}

// examiner makes the images of moments and judges them.
type examiner struct {
	bounds
	rng    *rand.Rand
	l      *ledger
	cfg    node.Config
	memory *sim.Memory
	starts map[content]*found
	asked  map[question]bool
	reader diskReader
	fig    figures
	err    error // the first objection
}

func newExaminer(l *ledger, cfg node.Config, seed uint64, b bounds) *examiner {
	return &examiner{
		bounds: b, rng: rand.New(rand.NewPCG(seed, 0x696d67)), l: l, cfg: cfg, memory: sim.NewMemory(),
		starts: map[content]*found{}, asked: map[question]bool{},
		reader: diskReader{values: map[string][]byte{}},
	}
}

// moment judges what may be left at a moment with n events known. before are ends that
// have come before; starting says that the node is on its way up.
func (x *examiner) moment(m *sim.Moment, n, most, depth int, before []end, starting bool) {
	cut, kill := endCut, []end{endKill}
	if starting {
		cut, kill = endCutStart, nil
	}
	cuts := m.PowerCuts()
	if k := cuts.Choices(); k > 0 && depth == 0 {
		x.fig.moments++
		x.fig.choices += k
	}
	x.images(m, cuts, most, n, depth, append(before[:len(before):len(before)], cut))
	x.images(m, m.Kills(), max(1, most/4), n, depth, append(before[:len(before):len(before)], kill...))
}

// images judges the images of a moment, at most so many.
func (x *examiner) images(m *sim.Moment, o *sim.Images, most, n, depth int, ends []end) {
	for keep := range subsets(x.rng, o.Choices(), most) {
		if x.err != nil {
			return
		}
		image := o.Image(func(i int) bool { return keep[i] })
		if err := x.examine(image, n, depth, ends); err != nil && x.err == nil {
			op, path := m.Step()
			x.err = fmt.Errorf("%w\n  before step %v of %s, %d events known, ends %v, depth %d, of %d choices these were lost:%s",
				err, op, path, n, ends, depth, o.Choices(), lost(o, keep))
		}
	}
}

func lost(o *sim.Images, keep []bool) string {
	var b strings.Builder
	for i, kept := range keep {
		if !kept && b.Len() < 2000 {
			b.WriteString("\n    " + o.Choice(i))
		}
	}
	return b.String()
}

// subsets yields the subsets of k things, or so many of them: none, all, one missing,
// one alone, and others by chance.
func subsets(rng *rand.Rand, k, most int) func(yield func(keep []bool) bool) {
	return func(yield func(keep []bool) bool) {
		keep := make([]bool, k)
		if k < 30 && 1<<k <= most {
			for mask := range 1 << k {
				for i := range keep {
					keep[i] = mask>>i&1 == 1
				}
				if !yield(keep) {
					return
				}
			}
			return
		}
		for n := range most {
			density := rng.IntN(101)
			for i := range keep {
				keep[i] = n == 1 || n%4 == 2 || n > 1 && n%2 == 1 && rng.IntN(100) < density
			}
			if n > 1 && n%4 == 2 || n > 1 && n%4 == 0 {
				keep[rng.IntN(k)] = n%4 == 0
			}
			if !yield(keep) {
				return
			}
		}
	}
}

// examine starts from an image and judges what is found.
func (x *examiner) examine(image *sim.Image, n, depth int, ends []end) error {
	cfg := x.cfg
	if x.rng.IntN(6) == 0 {
		cfg.Shards = 1 + x.rng.IntN(3)
	}
	c := content{image.Sum(), cfg.Shards}
	q := question{c, n, fmt.Sprint(ends)}
	if x.asked[q] {
		x.fig.same++
		return nil
	}
	got := x.starts[c]
	if got == nil {
		if len(x.starts) == remembered {
			clear(x.starts)
			clear(x.asked)
		}
		got = x.recover(image, cfg.Shards)
		x.starts[c] = got
	}
	x.asked[q] = true
	x.fig.images++
	if depth > 0 {
		x.fig.nested++
	}
	if depth > 1 {
		x.fig.depth2++
	}
	if got.stats.TornTails > 0 {
		ends = append(ends[:len(ends):len(ends)], endTorn)
	}
	if err := judge(x.l.at(n), got, apply(ends)...); err != nil {
		return err
	}
	if one := []int{x.whole, x.deep}[min(depth, 1)]; depth < maxDepth && one > 0 && x.rng.IntN(one) == 0 {
		return x.node(image, cfg, got, n, depth, ends)
	}
	return nil
}

func newFound() *found {
	return &found{topics: map[wire.TopicID]*topicFound{}, parts: map[layout.Key]*reading{}}
}

func classOf(c wire.Class) history.Class { return history.Class(c) }

// recover is what a recovery makes of an image; nothing is served behind it.
func (x *examiner) recover(image *sim.Image, shards int) (got *found) {
	x.fig.starts++
	got = newFound()
	w := image.World(sim.Options{Seed: x.rng.Uint64(), Memory: x.memory})
	defer w.Kill()
	defer func() {
		if p := recover(); p != nil {
			got.err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	d := w.Driver(aio.Options{ArenaBytes: 32 << 20, RecvBuffers: 2, RecvBufferBytes: 4096, Entries: 32})
	report := func(format string, args ...any) {
		if line := fmt.Sprintf(format, args...); tellsOfDamage(line) {
			got.notes = append(got.notes, line)
		}
	}
	topics := broker.NewTopics(broker.Options{Dir: dataDir, MaxBatch: x.cfg.MaxMessageBytes}, d.FS(), report)
	rec, err := recovery.Recover(d, recovery.Options{
		Dir: dataDir, Shards: shards, Catalog: broker.CatalogConfig(), Topics: topics, Report: report,
	})
	if err != nil {
		got.err = err
		return got
	}
	got.stats = rec.Stats
	for _, c := range []struct {
		n   int
		fig *int
	}{{rec.Stats.TornTails, &x.fig.torn}, {rec.Stats.Replayed, &x.fig.replayed}, {rec.Stats.Gaps, &x.fig.gaps}} {
		if c.n > 0 {
			*c.fig++
		}
	}
	x.reader.fs = w.FS()
	got.err = x.reader.read(rec, topics, got)
	return got
}

// node starts a whole node on an image, crashes the start at each of its steps, reads
// what the node serves, and sees that this survives a power cut.
func (x *examiner) node(image *sim.Image, cfg node.Config, want *found, n, depth int, ends []end) error {
	x.fig.wholes++
	w := image.World(sim.Options{Seed: x.rng.Uint64(), Memory: x.memory})
	defer w.Kill()
	m, err := newMachine(w, cfg, x.rng, nil)
	if err != nil {
		return err
	}
	w.Watch(func(at *sim.Moment) {
		if x.err == nil {
			x.fig.crashed++
			x.moment(at, n, x.nested, depth+1, ends, true)
		}
	})
	err = m.start()
	w.Watch(nil)
	if x.err != nil || err != nil {
		return errors.Join(err, x.err)
	}
	got, err := m.readAll()
	if err != nil {
		return fmt.Errorf("reading: %w", err)
	}
	f := x.l.at(n)
	if err := judge(f, got, apply(ends)...); err != nil {
		return fmt.Errorf("what was served: %w", err)
	}
	for _, k := range want.keys() {
		if got.parts[k] == nil {
			return fmt.Errorf("partition %v was found by a recovery and not by a node", k)
		}
		if text := got.parts[k].differs(want.parts[k]); text != "" {
			return fmt.Errorf("partition %v: served and found on the disk differ: %s", k, text)
		}
	}
	var after *found
	w.Stand(func(at *sim.Moment) {
		after = x.recover(at.PowerCuts().Image(func(int) bool { return false }), cfg.Shards)
	})
	if err := judge(f, after, endCut.apply); err != nil {
		return fmt.Errorf("what was served did not survive a power cut: %w", err)
	}
	return nil
}
