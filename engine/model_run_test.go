package engine

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
	"github.com/mqd-broker/mqd/engine/journal"
	"github.com/mqd-broker/mqd/engine/layout"
	"github.com/mqd-broker/mqd/engine/segment"
)

var (
	modelSeeds = flag.Int("engine.seeds", 10, "number of seeds of the model test")
	modelSeed  = flag.Uint64("engine.seed", 0, "the one seed that the model test runs; 0: engine.seeds of them, from 1 on")
)

// TestModel runs stores through random lives and holds them to what the protocol
// promises: nothing acknowledged is lost beyond its class, no offset has two
// contents, nothing is served above the durable offset, nothing is invented, and
// when all is quiet everything is home.
func TestModel(t *testing.T) {
	first, count := uint64(1), uint64(*modelSeeds)
	if *modelSeed != 0 {
		first, count = *modelSeed, 1
	}
	compacted := 0
	for seed := first; seed < first+count; seed++ {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			m := newModelRun(t, seed)
			m.run()
			compacted += m.compacted
		})
	}
	t.Logf("%d records gone by compaction", compacted)
}

// modelRun is one run of the model: a rig, and what is known of its partitions.
type modelRun struct {
	*rig
	rng     *rand.Rand
	seed    uint64
	serial  uint64
	live    []*modelTopic
	nextID  byte
	unacked int
	trims   int          // not answered
	reads   []*modelRead // under way or not released
	holds   []*sim.Hold
	mayFail bool
	history []string

	compacted int // records seen to be gone

	producers int64 // ids given to producers
}

func newModelRun(t *testing.T, seed uint64) *modelRun {
	m := &modelRun{rng: rand.New(rand.NewPCG(seed, 0x6d6f64656c)), seed: seed}
	pick := func(v ...int64) int64 { return v[m.rng.IntN(len(v))] }
	o := rigOptions{
		seed: seed, shards: int(pick(1, 1, 2, 3)), journal: pick(256<<10, 512<<10, 1<<20, 4<<20),
		chunks: pick(1<<20, 1<<20, 2<<20, 8<<20), segment: pick(16<<10, 16<<10, 40<<10, 256<<10),
		openFiles: int(pick(0, 0, 6)), keys: pick(0, 4<<10), keep: []int64{0, 1, 64 << 10}[seed%3],
	}
	o.maxBatch = int(min(pick(8<<10, 32<<10, 128<<10), o.journal/8))
	o.roundBytes = int(min(pick(0, 8<<10, 32<<10), o.journal/8))
	if m.rng.IntN(3) == 0 {
		o.method = journal.MethodWriteFlush
	}
	if m.rng.IntN(3) == 0 {
		o.dsync = sim.DSYNCFlushes
	}
	m.rig = newRig(t, o)
	return m
}

func (m *modelRun) note(format string, args ...any) {
	m.history = append(m.history, fmt.Sprintf(format, args...))
}

func (m *modelRun) failf(format string, args ...any) {
	m.t.Helper()
	from := max(0, len(m.history)-60)
	m.t.Logf("options %+v", m.opts)
	m.t.Logf("the last steps:\n%s", strings.Join(m.history[from:], "\n"))
	m.t.Logf("reports:\n%s", strings.Join(m.log, "\n"))
	m.t.Fatalf("seed %d: %s", m.seed, fmt.Sprintf(format, args...))
}

func (m *modelRun) run() {
	for range 1 + m.rng.IntN(3) {
		m.create()
	}
	for life := range 2 + m.rng.IntN(4) {
		m.note("life %d, %d shards", life, m.opts.shards)
		for range 50 + m.rng.IntN(250) {
			m.act()
		}
		m.end()
	}
	m.quiet()
	m.verify()
}

// create makes a topic of one to four partitions.
func (m *modelRun) create() {
	m.nextID++
	tp := &modelTopic{class: []Class{ClassMemory, ClassWritten, ClassFlushed, ClassFlushed}[m.rng.IntN(4)]}
	tp.id = m.topic(m.nextID, tp.class)
	tp.compaction = m.compaction()
	tp.keyed, tp.least = tp.compaction.On, tp.compaction
	m.rig.topics[tp.id].info.Config.Compaction = tp.compaction
	m.rig.topics[tp.id].info.Name = fmt.Sprintf("topic-%d", m.nextID%3) // names come back
	for n := range 1 + m.rng.IntN(4) {
		tp.parts = append(tp.parts, &modelPart{run: m, topic: tp, n: n, weak: tp.class != ClassFlushed, newest: map[int]modelPlace{}})
	}
	m.live = append(m.live, tp)
	m.open(tp)
	m.note("topic %x: %d partitions, class %v, compaction %+v", tp.id[0], len(tp.parts), tp.class, tp.compaction)
}

func (m *modelRun) open(tp *modelTopic) {
	for _, p := range tp.parts {
		p.part = m.part(tp.id, p.n)
	}
}

func (m *modelRun) anyPart() *modelPart {
	tp := m.live[m.rng.IntN(len(m.live))]
	return tp.parts[m.rng.IntN(len(tp.parts))]
}

// act does one random thing.
func (m *modelRun) act() {
	switch n := m.rng.IntN(100); {
	case n < 45:
		for range 1 + m.rng.IntN(6) {
			m.append(m.anyPart())
			if m.rng.IntN(3) == 0 {
				m.retry(m.anyPart())
			}
		}
	case n < 65:
		m.fetch(m.anyPart())
	case n < 72:
		m.releaseReads(m.rng.IntN(3))
	case n < 74:
		m.trim(m.anyPart())
	case n < 90:
		for range m.rng.IntN(40) {
			m.turn()
		}
	case n < 92:
		m.rig.run(time.Duration(m.rng.IntN(300)) * time.Millisecond)
	case n < 95:
		m.hold()
	case n < 97:
		m.configure()
	case n < 98:
		m.recreate()
	case n < 99:
		m.lookup(m.anyPart())
	default:
		m.quiet()
	}
	if m.rng.IntN(8) == 0 {
		m.hurry()
	}
	for _, tp := range m.live {
		for _, p := range tp.parts {
			p.watch()
		}
	}
}

// size draws the size of a batch: mostly small, sometimes as large as can be.
func (m *modelRun) size() (records, size int) {
	limit := m.opts.maxBatch - 200
	switch m.rng.IntN(20) {
	case 0:
		return 1, limit - m.rng.IntN(50)
	case 1, 2:
		records = 1 + m.rng.IntN(64)
		return records, limit / (records + 1) / 2
	case 3, 4:
		return 1, m.rng.IntN(min(20<<10, limit-8))
	}
	return 1 + m.rng.IntN(4), 8 + m.rng.IntN(400)
}

func (m *modelRun) batch(pr *modelProducer, records, size int) []byte {
	b := batch.NewBuilder(nil, m.opts.maxBatch)
	if pr != nil {
		b.SetProducer(pr.id, pr.epoch, pr.next)
	}
	for range records {
		v := make([]byte, max(8, size))
		m.serial++
		content(v, m.serial)
		rec := batch.Record{Value: v, Timestamp: int64(1000 + m.serial)}
		if b.Count() > 0 && !b.Fits(&rec) {
			break
		}
		if err := b.Append(&rec); err != nil {
			m.failf("build: %v", err)
		}
	}
	return b.Finish(batch.CodecNone)
}

// append appends a batch. Without trouble on the disk it must be accepted in the
// end.
func (m *modelRun) append(p *modelPart) {
	b := &modelBatch{m: p}
	a := &b.req
	a.Part, a.Owner = p.part, b
	pr := p.producer()
	records, size := m.size()
	if p.topic.keyed {
		a.Batch, b.records = m.keyed(pr, records, size)
	} else {
		a.Batch = m.batch(pr, records, size)
	}
	var err error
	if a.Header, err = batch.Check(a.Batch, m.opts.maxBatch); err != nil {
		m.failf("check: %v", err)
	}
	tries := 3
	if len(m.holds) == 0 {
		tries = 200_000
	}
	for range tries {
		b.class, b.bytes = p.part.Class(), nil
		m.unacked++
		// The batch may be acknowledged within the call.
		b.base = p.part.End()
		b.last = b.base + int64(a.Header.Count) - 1
		p.batches = append(p.batches, b)
		err = p.part.store.Append(a)
		if err == nil {
			b.bytes = append([]byte(nil), a.Batch...)
			b.at = m.w.Now()
			p.entered(b)
			if pr != nil {
				pr.appended(b)
			}
			m.note("append %s: %d to %d, %d bytes, class %v, lsn %d", p.name(), b.base, b.last, len(b.bytes), b.class, p.part.store.journal.FillingLSN())
			return
		}
		p.batches = p.batches[:len(p.batches)-1]
		m.unacked--
		if err != ErrBusy {
			m.failf("append: %v", err)
		}
		if len(m.holds) == 0 {
			m.releaseReads(len(m.reads))
		}
		m.turn()
	}
	if len(m.holds) == 0 {
		st := p.part.store
		m.failf("%s: no room for %d bytes: %+v, %+v", p.name(), len(a.Batch), st.Stats(), st.Usage())
	}
}

func (m *modelRun) fetch(p *modelPart) {
	f := &modelRead{m: p, issued: m.w.Now()}
	f.Part, f.Owner = p.part, f
	end := p.part.End()
	switch m.rng.IntN(4) {
	case 0:
		f.Offset = max(0, end-int64(m.rng.IntN(10)))
	case 1:
		f.Offset = p.part.LogStart()
	default:
		f.Offset = m.rng.Int64N(end + 1) // may be below the log start
	}
	f.MaxBytes = []int{1, 500, 4096, 64 << 10, 1 << 20}[m.rng.IntN(5)]
	if m.rng.IntN(3) == 0 {
		f.MaxRecords = 1 + m.rng.IntN(20)
	}
	if m.rng.IntN(2) == 0 {
		f.MinBytes = m.rng.IntN(2000)
		f.Until = m.w.Now() + int64(m.rng.IntN(200))*int64(time.Millisecond)
	}
	m.note("fetch %s at %d, %d bytes", p.name(), f.Offset, f.MaxBytes)
	m.reads = append(m.reads, f)
	p.part.store.Read(&f.Read)
	if f.Until == 0 && m.rng.IntN(2) == 0 && len(m.holds) == 0 {
		// Buffers of fetches that nobody releases may be all there are.
		m.until("fetch", func() bool { m.releaseReads(len(m.reads)); return f.done })
	}
}

// releaseReads gives back the memory of up to n fetches that are done.
func (m *modelRun) releaseReads(n int) {
	for i := 0; i < len(m.reads) && n > 0; {
		f := m.reads[i]
		if !f.done && (m.rng.IntN(4) != 0 || !f.Part.store.CancelRead(&f.Read)) {
			i++
			continue
		}
		if f.done {
			f.release()
		}
		m.reads = append(m.reads[:i], m.reads[i+1:]...)
		n--
	}
}

// hold makes a part of the disk stand still, or lets one go on.
func (m *modelRun) hold() {
	if len(m.holds) > 0 && m.rng.IntN(2) == 0 {
		h := m.holds[len(m.holds)-1]
		if m.rng.IntN(2) == 0 {
			m.note("release one")
			h.ReleaseOne()
			return
		}
		m.note("release a hold")
		m.holds = m.holds[:len(m.holds)-1]
		h.Release()
		return
	}
	if len(m.holds) == 2 {
		return
	}
	f := []sim.Filter{
		{Ops: sim.Writes, Path: "*.log"}, {Ops: sim.Flushes, Path: "*.log"}, {Ops: sim.Writes | sim.Flushes, Path: "*.log"},
		{Ops: sim.Writes, Path: "journal-*"}, {Ops: sim.Flushes, Path: "journal-*"},
		{Path: "checkpoint-*"}, {Path: "*.index"}, {Ops: sim.Opens, Path: "*.log"}, {Ops: sim.Reads, Path: "*.log"},
		{Ops: sim.DirSyncs}, {Ops: sim.Truncates}, {Ops: sim.Allocates}, {Ops: sim.Removes}, {Ops: sim.Renames},
	}[m.rng.IntN(14)]
	m.note("hold %+v", f)
	m.holds = append(m.holds, m.w.Hold(f))
}

func (m *modelRun) releaseHolds() {
	for _, h := range m.holds {
		h.Release()
	}
	m.holds = nil
}

// modelChange waits for a change of class.
type modelChange struct {
	p     *modelPart
	left  *int
	class Class
}

// Configured notes what the barrier promises.
func (c *modelChange) Configured(_ *Partition, err error) {
	r := c.p.run
	if err != nil && !c.p.topic.gone {
		r.failf("%s: change to class %v: %v", c.p.name(), c.class, err)
	}
	r.note("%s has class %v", c.p.name(), c.class)
	c.p.changing = false
	*c.left--
	if err == nil {
		for _, b := range c.p.batches {
			if b.acked && !b.dead {
				b.kill = b.kill || c.class >= ClassWritten
				b.cut = b.cut || c.class == ClassFlushed
			}
		}
	}
}

// configure changes a topic's class.
func (m *modelRun) configure() {
	tp := m.live[m.rng.IntN(len(m.live))]
	for _, p := range tp.parts {
		if p.changing && m.rng.IntN(3) != 0 {
			return // one at a time, mostly
		}
	}
	tp.class = []Class{ClassMemory, ClassWritten, ClassFlushed}[m.rng.IntN(3)]
	cfg := m.config(tp.class)
	if tp.keyed {
		tp.compaction.On = m.rng.IntN(4) != 0
		cfg.Compaction = tp.compaction
	}
	m.rig.topics[tp.id].info.Config = cfg
	m.note("topic %x: change to class %v", tp.id[0], tp.class)
	left := len(tp.parts)
	for _, p := range tp.parts {
		p.changing = true
		p.weak = p.weak || tp.class != ClassFlushed
		p.part.store.Configure(p.part, cfg, &modelChange{p: p, left: &left, class: tp.class})
	}
	if len(m.holds) == 0 && m.rng.IntN(2) == 0 {
		m.until("change of class", func() bool { return left <= 0 })
	}
}

// modelTrim waits for a trim.
type modelTrim struct {
	p      *modelPart
	offset int64
}

// Trimmed notes that a log start is in force.
func (c *modelTrim) Trimmed(logStart int64, err error) {
	r := c.p.run
	r.trims--
	r.note("%s trimmed to %d, asked for %d: %v", c.p.name(), logStart, c.offset, err)
	if err != nil && !c.p.topic.gone || err == nil && (logStart < c.offset || logStart != c.p.part.LogStart()) {
		r.failf("%s: trim to %d: log start %d, %v", c.p.name(), c.offset, logStart, err)
	}
}

// trim moves a log start, mostly not far, or begins a new segment.
func (m *modelRun) trim(p *modelPart) {
	durable := p.part.Durable()
	offset := m.rng.Int64N(durable + 1)
	switch m.rng.IntN(8) {
	case 0:
		offset = durable
	case 1, 2:
		p.part.store.Roll(p.part)
		return
	default:
		offset = min(offset, p.part.LogStart()+m.rng.Int64N(100))
	}
	m.note("trim %s to %d", p.name(), offset)
	p.trim = max(p.trim, offset)
	m.trims++
	p.part.store.Trim(p.part, offset, &modelTrim{p, offset})
}

type modelDrop struct{ left int }

func (d *modelDrop) Dropped(Key) { d.left-- }

// recreate deletes a topic and makes another one.
func (m *modelRun) recreate() {
	if len(m.live) < 2 {
		m.create()
		return
	}
	i := m.rng.IntN(len(m.live))
	tp := m.live[i]
	tp.gone = true
	m.rig.topics[tp.id].deleted = true
	m.live = append(m.live[:i], m.live[i+1:]...)
	m.note("topic %x: dropped", tp.id[0])
	d := &modelDrop{left: len(tp.parts)}
	for _, p := range tp.parts {
		p.part.store.Drop(p.part, d)
	}
	if m.rng.IntN(2) == 0 {
		m.releaseHolds()
		m.releaseReads(len(m.reads))
		m.until("drop", func() bool { m.releaseReads(len(m.reads)); return d.left == 0 })
		dir := layout.TopicDir(rigDir, m.rig.topics[tp.id].info.Name, tp.id)
		if err := m.w.FS().RemoveAll(dir); err != nil {
			m.failf("remove %s: %v", dir, err)
		}
	}
	if m.rng.IntN(2) == 0 {
		m.create()
	}
}

// lookup looks a time up.
func (m *modelRun) lookup(p *modelPart) {
	if len(m.holds) > 0 {
		return
	}
	var f found
	l := &TimeLookup{Part: p.part, Time: 1000 + m.rng.Int64N(int64(m.serial)+2), Owner: &f}
	p.part.store.LookUpTime(l)
	m.until("lookup", func() bool { m.releaseReads(len(m.reads)); return f.done })
	if l.Err != nil || l.Offset < p.part.LogStart() || l.Offset > p.part.Durable() || l.Timestamp >= 0 && l.Timestamp < l.Time {
		m.failf("%s: time %d: offset %d, timestamp %d, error %v", p.name(), l.Time, l.Offset, l.Timestamp, l.Err)
	}
}

// end ends a life and begins the next one.
func (m *modelRun) end() {
	cut := true
	switch m.rng.IntN(8) {
	case 0, 1:
		m.note("kill")
		cut = false
		m.w.Kill()
	case 2, 3:
		m.note("close")
		cut = false
		m.settle()
		m.rig.close()
		for _, tp := range m.live {
			for _, p := range tp.parts {
				for _, b := range p.batches {
					if b.acked && !b.dead {
						b.kill, b.cut = true, true
					}
				}
			}
		}
		m.w.Kill()
		if m.rng.IntN(2) == 0 {
			m.w.Crash(sim.KeepNone)
		}
	default:
		keep := []sim.Keep{sim.KeepNone, sim.KeepAll, sim.KeepRandom, sim.KeepPrefix}[m.rng.IntN(4)]
		m.note("power cut, keep %d", keep)
		m.w.Crash(keep)
	}
	m.releaseHolds()
	m.reads, m.unacked, m.trims = nil, 0, 0
	m.damage()
	m.restart(&cut)
	for _, tp := range m.live {
		m.open(tp)
		for _, p := range tp.parts {
			p.changing = false
			p.survivors(cut)
			for _, pr := range p.producers {
				if pr != nil {
					pr.restarted()
				}
			}
		}
	}
}

// damage damages the newest checkpoint of some shards, or takes it away: the older one does.
func (m *modelRun) damage() {
	if m.rng.IntN(3) != 0 {
		return
	}
	for shard := range m.shards {
		if m.rng.IntN(3) != 0 {
			m.note("the newest checkpoint of shard %d is lost", shard)
			m.damageNewest(shard, m.rng.IntN(4) == 0)
		}
	}
}

// restart starts again, sometimes with a crash on the way, and another number of
// shards or size of the journals.
func (m *modelRun) restart(cut *bool) {
	if m.rng.IntN(2) == 0 {
		m.opts.shards = 1 + m.rng.IntN(3)
	}
	if m.rng.IntN(4) == 0 {
		m.opts.journal = []int64{256 << 10, 512 << 10, 1 << 20}[m.rng.IntN(3)]
		m.opts.roundBytes = int(min(int64(m.opts.roundBytes), m.opts.journal/8))
		m.opts.journal = max(m.opts.journal, 8*int64(m.opts.maxBatch))
	}
	m.fuse = nil
	for range m.rng.IntN(3) {
		m.fuse = &fuse{left: m.rng.IntN(1 << m.rng.IntN(10))}
		err := m.tryStart()
		if err == nil {
			break
		}
		m.note("the start ended at its fuse: %v", err)
		if m.rng.IntN(3) == 0 {
			m.w.Kill()
			continue
		}
		*cut = true
		m.w.Crash([]sim.Keep{sim.KeepNone, sim.KeepAll, sim.KeepRandom, sim.KeepPrefix}[m.rng.IntN(4)])
		if m.rng.IntN(2) == 0 {
			m.opts.shards = 1 + m.rng.IntN(3)
		}
	}
	if m.fuse == nil || m.fuse.blown() {
		m.fuse = nil
		m.start()
	} else {
		m.fuse.safe = true
	}
	for _, line := range m.log {
		if strings.Contains(line, "LOSS") || strings.Contains(line, "DAMAGED") || strings.Contains(line, "failed") || strings.Contains(line, "not compacted") {
			m.failf("reported: %s", line)
		}
	}
}

// until is that of the rig, with the history of what went before.
func (m *modelRun) until(what string, done func() bool) {
	m.t.Helper()
	deadline := m.w.Now() + int64(60*time.Second)
	for n := 0; !done(); n++ {
		if m.w.Now() > deadline || n > 1_000_000 {
			for i, s := range m.shards {
				m.t.Logf("shard %d: %+v, %+v", i, s.store.Stats(), s.store.Usage())
			}
			m.failf("%s: not after %v and %d turns", what, time.Duration(m.w.Now()), n)
		}
		m.turn()
	}
}

// settle lets everything come to an end.
func (m *modelRun) settle() {
	m.releaseHolds()
	for _, tp := range m.live {
		for _, p := range tp.parts {
			m.until("change of class", func() bool { return !p.changing })
		}
	}
	m.until("acks", func() bool { return m.unacked == 0 })
	m.until("trims", func() bool { m.releaseReads(len(m.reads)); return m.trims == 0 })
	m.until("reads", func() bool { m.releaseReads(len(m.reads)); return len(m.reads) == 0 })
}

// quiet lets everything come to an end, makes a checkpoint of every shard, and
// checks that everything is home.
func (m *modelRun) quiet() {
	m.note("quiet")
	m.settle()
	m.rig.run(300 * time.Millisecond) // memory and written reach the disk
	m.checkpointAll()
	for i, s := range m.shards {
		u := s.store.Usage()
		if u.PinnedPieces != 0 || u.WaitingReads != 0 || u.PendingAppends != 0 || u.MemoryBytes != 0 || u.DirtyPartitions != 0 {
			m.failf("shard %d: not home: %+v", i, u)
		}
		var bytes int64
		for _, p := range s.store.list {
			for c := p.mem.Oldest(); c != nil; c = c.Next() {
				bytes += int64(len(c.Mem))
				if !c.Clean() || c.Pins != 0 || c.From == c.To {
					m.failf("shard %d: a chunk of %v at %d is neither clean nor free: clean %v, pins %d, %d to %d",
						i, p.key, c.Pos, c.Clean(), c.Pins, c.From, c.To)
				}
			}
		}
		if bytes != u.ChunkBytes {
			m.failf("shard %d: partitions hold %d bytes of chunks, %d are out", i, bytes, u.ChunkBytes)
		}
	}
}

// checkpointAll makes a checkpoint of every shard and waits for it.
func (r *rig) checkpointAll() {
	r.t.Helper()
	for i, s := range r.shards {
		c := &s.store.checkpoint
		r.until("end of a checkpoint", func() bool { return c.stage == checkpointIdle })
		before := s.store.Stats().Checkpoints
		c.begin()
		r.until(fmt.Sprintf("checkpoint of shard %d", i), func() bool { return s.store.Stats().Checkpoints > before })
	}
	r.until("indexes", func() bool {
		for _, s := range r.shards {
			if s.store.indexes.Sealing() > 0 {
				return false
			}
		}
		return true
	})
}

// verify has every segment verified as the verb does.
func (m *modelRun) verify() {
	for _, tp := range m.live {
		for _, p := range tp.parts {
			if tp.keyed {
				m.compactedHome(p.part)
			}
			m.verifyPart(p.part)
			m.mustHoldOnly(p.part)
		}
	}
}

func (r *rig) verifyPart(p *Partition) {
	r.t.Helper()
	for seg := p.first; seg != nil; seg = seg.next {
		if seg.Size == 0 {
			continue
		}
		j := &segment.VerifyJob{Log: seg.Log()}
		if !seg.sealed {
			j.LogBytes = seg.flushed
		}
		if err := j.Run(r.w.FS()); err != nil {
			r.t.Fatalf("verify %s: %v", seg.Path(), err)
		}
		if len(j.Damage) > 0 || j.IndexFault != nil && seg.sealed {
			r.t.Fatalf("verify %s (%d bytes, sealed %v): index %v, damage %+v", seg.Path(), seg.Size, seg.sealed, j.IndexFault, j.Damage)
		}
	}
}

// mustHoldOnly checks that the directory of a partition has the files of its segments and no
// others.
func (r *rig) mustHoldOnly(p *Partition) {
	r.t.Helper()
	r.until("removal", func() bool {
		return p.store.trimming.Len() == 0 && p.store.remover.Idle() && p.store.indexes.Sealing() == 0
	})
	names := r.names(p.dir)
	for _, seg := range p.bases {
		names = slices.DeleteFunc(names, func(n string) bool {
			return n == segment.LogName(seg.base) || n == segment.IndexName(seg.base)
		})
	}
	if len(names) > 0 {
		r.t.Fatalf("%s has %v; the log begins at %d, its segments at %d", p.dir, names, p.LogStart(), basesOf(p))
	}
}

func basesOf(p *Partition) []int64 {
	var bases []int64
	for _, seg := range p.bases {
		bases = append(bases, seg.base)
	}
	return bases
}

// names are the names in a directory, which need not be there.
func (r *rig) names(dir string) []string {
	r.t.Helper()
	entries, err := r.w.FS().ReadDir(dir)
	if err != nil && !aio.IsNotExist(err) {
		r.t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name)
	}
	return names
}
