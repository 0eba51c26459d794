package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"strings"
	"time"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
	"github.com/mqd-broker/mqd/engine/shard"
	"github.com/mqd-broker/mqd/node"
	"github.com/mqd-broker/mqd/test/history"
)

// opKind is a kind of client operation.
type opKind uint8

const (
	opProduce opKind = iota
	opFetch
	opAdmin
)

const (
	dataDir = "/data"
	// leastOps is the number of client operations of a run, at least.
	leastOps = 2000
	// maxTurns bounds what is waited for, in turns of everything.
	maxTurns = 400_000
)

// actor is a client. It does something when it is its turn.
type actor interface{ act(now int64) }

// run is one run: a machine, the node on it, its clients, and what is known.
type run struct {
	seed  uint64
	rng   *rand.Rand
	w     *sim.World
	far   *sim.Driver // the clients' machine
	cfg   node.Config
	addr  string
	n     *node.Manual // nil while there is none
	dead  *node.Manual // the one that has ended by force
	first bool         // nothing has been started yet

	kafka     bool // there are Kafka clients too
	crews     []*kafkaGroup
	numbered  uint32                     // rounds of Kafka's groups
	assigned  map[uint32]map[string]bool // who took part in them
	committed int64                      // the newest commit of a Kafka client
	links     []*link
	actors    []actor
	reader    *link
	loading   bool          // clients do something
	wait      time.Duration // of clients in a turn
	decoder   batch.Decoder
	answer    []byte // the newest to the reader

	topics  []*topic
	commits map[committed]*history.Offsets
	scratch []*topic
	maybe   map[string]bool // names of topics that may exist or not
	named   int
	streams uint32
	senders uint32

	producers map[int64]bool // ids that the broker has given out

	ahead   int64 // by how much the calendar was ahead of the monotonic clock at a start, at most
	jumped  bool  // the calendar has
	largest int   // batch that was sent, bytes

	fault  fault
	broken bool // a fault has been at work in this life
	killed bool // the life has ended by the fuse

	// sparse lives are short, with small messages of one size and few in flight: rounds
	// of a block each, so that those of several lives fall on each other.
	sparse   bool
	rotten   bool // a byte was damaged
	unproven bool // in a round that no flush had covered
	told     bool // of damage
	alarm    string
	orderly  bool // the life before ended in order
	attempts int  // to start, in this life
	tails    int  // torn, that the newest start has found

	lives, starts, acked, faults int
	turns                        int
	ops                          map[opKind]int
	total                        int
	seen                         map[state]bool
	log                          []string
	history                      []string
}

// failed ends a run.
type failed struct{ text string }

func (r *run) failf(format string, args ...any) {
	panic(failed{fmt.Sprintf(format, args...)})
}

func (r *run) note(format string, args ...any) {
	r.history = append(r.history, fmt.Sprintf("%9.3f ms  ", float64(r.w.Now())/1e6)+fmt.Sprintf(format, args...))
}

func (r *run) cover(s state) { r.seen[s] = true }

func (r *run) op(k opKind) {
	r.ops[k]++
	r.total++
}

// sabotage changes the drivers of a node, to show that the checks notice.
type sabotage func(d aio.Driver) aio.Driver

// simulate makes a run of a seed, in a world made of mem. The error tells what was
// violated.
func simulate(seed uint64, mem *sim.Memory, harm sabotage, options ...func(*sim.Options)) (r *run, err error) {
	r = &run{
		seed: seed, rng: rand.New(rand.NewPCG(seed, 0x6d7164)), first: true, wait: clientWait, maybe: map[string]bool{}, producers: map[int64]bool{},
		ops: map[opKind]int{}, seen: map[state]bool{}, commits: map[committed]*history.Offsets{},
	}
	defer func() {
		switch p := recover().(type) {
		case nil:
		case failed:
			err = errors.New(p.text)
		default:
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	o := sim.Options{Seed: seed, Memory: mem, SocketBuffer: []int{8 << 10, 64 << 10, 256 << 10}[r.rng.IntN(3)]}
	if r.rng.IntN(4) == 0 {
		o.DSYNC = sim.DSYNCFlushes
	}
	for _, f := range options {
		f(&o)
	}
	r.w = sim.New(o)
	r.far = r.w.ClientDriver(aio.Options{Entries: 128, ArenaBytes: 2 << 20, RecvBuffers: 64, RecvBufferBytes: 8 << 10, Files: 1})
	r.cfg = node.Config{
		Dir: dataDir, Listen: "127.0.0.1:7878", Version: "sim", IdleTimeout: time.Minute,
		Idle: shard.IdleBlock, Log: slog.New((*recorder)(r)), RecvBuffers: 16, IndexBytes: 256 << 10,
		RecoveryBytes: []int64{0, 1, 64 << 10}[seed%3], GroupPartitions: 2, GroupLogBytes: 64 << 10,
		RetentionPause: retentionPause, CompactionPause: compactionPause,
	}
	r.resize()
	r.reader = r.newLink(nil)
	for range 1 + r.rng.IntN(3) {
		r.actors = append(r.actors, r.newProducer())
	}
	for range seed % 3 {
		r.actors = append(r.actors, r.newRetrier())
	}
	r.actors = append(r.actors, r.newConsumer(0), r.newConsumer(1), r.newAdmin())
	if seed%2 == 1 {
		r.actors = append(r.actors, r.newCommitter())
	}
	r.addKafka()
	platform := &platform{r: r, harm: harm}
	lives, rots := 3+r.rng.IntN(3), r.rng.IntN(3) == 0 || *rotten
	for life := 1; life <= lives && !r.rotten; life++ {
		r.live(platform, life == lives, rots && life == lives-1, leastOps*life/(lives-1))
		for n := r.rng.IntN(6); seed%4 == 0 && n > 0 && !r.rotten && life < lives; n-- {
			r.sparse = true
			r.live(platform, false, false, r.total+r.rng.IntN(40))
			r.sparse = false
		}
		if life == lives-1 && !r.rotten && r.total < leastOps {
			life-- // a fault has ended it early
		}
	}
	if r.total < leastOps {
		r.failf("%d operations in a run, expected at least %d", r.total, leastOps)
	}
	r.w.End()
	return r, nil
}

// resize draws the sizes of the next life.
func (r *run) resize() {
	pick := func(v ...int64) int64 { return v[r.rng.IntN(len(v))] }
	shards := int(pick(1, 1, 2, 3))
	if !r.first && shards > r.cfg.Shards {
		r.cover(sawMoreShards)
	} else if !r.first && shards < r.cfg.Shards {
		r.cover(sawFewerShards)
	}
	r.cfg.Shards = shards
	if r.cfg.ScrubRate = 0; r.seed%3 == 0 {
		r.cfg.ScrubRate, r.cfg.ScrubInterval = pick(1<<20, 64<<20), 20*time.Millisecond
	}
	r.cfg.MaxMessageBytes = int(pick(16<<10, 32<<10, 32<<10, 128<<10))
	// A batch may be an eighth of a journal.
	r.cfg.JournalBytes = max(8*int64(r.cfg.MaxMessageBytes), pick(node.MinJournalBytes, 512<<10, 1<<20))
	r.cfg.CompactionKeys = pick(4<<10, 64<<10)
	r.cfg.CacheBytes = int64(shards) * pick(1<<20+2*int64(r.cfg.MaxMessageBytes), 3<<20)
}

// platform puts shards on the simulated machine.
type platform struct {
	r    *run
	harm sabotage
}

func (p *platform) NewDriver(_ int, o aio.Options) (aio.Driver, error) {
	o.Entries = 256
	o.RecvBufferBytes = 16 << 10
	var d aio.Driver = p.r.w.Driver(o)
	if p.harm != nil {
		d = p.harm(d)
	}
	return d, nil
}

func (p *platform) Thread(int) shard.Thread { return nil }
func (p *platform) Locked() bool            { return false }
func (p *platform) Pin(int) error           { return nil }

// recorder keeps what the node logs.
type recorder run

func (l *recorder) Enabled(context.Context, slog.Level) bool { return true }
func (l *recorder) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *recorder) WithGroup(string) slog.Handler            { return l }

func (l *recorder) Handle(_ context.Context, rec slog.Record) error {
	r := (*run)(l)
	var b strings.Builder
	b.WriteString(rec.Message)
	rec.Attrs(func(a slog.Attr) bool {
		fmt.Fprintf(&b, " %s=%v", a.Key, a.Value)
		return true
	})
	r.log = append(r.log, b.String())
	// What a scrubber calls damaged although nothing has been damaged.
	if strings.Contains(rec.Message, scrubAlarm) && !r.broken && !r.rotten {
		r.alarm = b.String()
	}
	r.note("log: %s", b.String())
	return nil
}

// turn gives everybody a turn: the shards in some order, then the clients.
func (r *run) turn() {
	r.clients()
	if r.n != nil {
		first := r.rng.IntN(r.cfg.Shards)
		for i := range r.cfg.Shards {
			if err := r.n.Step((first + i) % r.cfg.Shards); err != nil {
				r.ended(err)
				break
			}
		}
	}
	if r.alarm != "" {
		r.failf("a false alarm: %s", r.alarm)
	}
	r.fault.tend(r)
	if r.turns++; !r.rotten && r.turns%16 == 0 {
		r.check()
	}
}

// clients gives the clients a turn.
func (r *run) clients() {
	if _, err := r.far.Poll(r.wait); err != nil {
		r.failf("clients: %v", err)
	}
	now := r.w.Now()
	r.reader.keep(now)
	r.reader.tidy()
	for _, a := range r.actors {
		a.act(now)
	}
	if r.loading && r.rng.IntN(4000) == 0 {
		r.cover(sawBrokenLink)
		r.links[r.rng.IntN(len(r.links))].drop()
	}
}

// clientWait is how long clients wait when nothing comes.
const clientWait = 500 * time.Microsecond

// ended notes that a shard cannot go on.
func (r *run) ended(err error) {
	if !r.w.Blown() {
		r.failf("a shard ended: %v", err)
	}
	r.killed, r.dead, r.n = true, r.n, nil
}

// until turns until done holds or the life ends, which it reports.
func (r *run) until(what string, done func() bool) bool {
	for n := 0; !done(); n++ {
		if r.n == nil {
			return false
		}
		if n > maxTurns {
			r.failf("never: %s", what)
		}
		r.turn()
	}
	return true
}

// live is one life of the node: the last one, in which everything is read, or one under
// load up to a number of operations, with damage at its end or not.
func (r *run) live(p *platform, last, rots bool, ops int) {
	r.lives++
	r.start(p)
	if last {
		r.expire()
	}
	r.readAll(last)
	r.check()
	if r.n != nil && !last {
		r.loading = true
		if !r.sparse {
			r.fault.draw(r)
		}
		half := (r.total + ops) / 2
		r.until("operations", func() bool { return r.total >= half || r.fault.fatal(r) })
		if r.n != nil {
			r.doze()
		}
		r.until("operations", func() bool { return r.total >= ops || r.fault.fatal(r) })
	}
	if r.n != nil && rots && r.total >= ops {
		r.rot(p)
	} else {
		r.finish(last)
	}
	r.endKafkaLife()
	r.first = false
}

// ends notes how a life ended in all histories.
func (r *run) eachPart(f func(p *history.Partition)) {
	for _, tp := range r.topics {
		for _, p := range tp.parts {
			f(p.p)
		}
	}
}
