package node

import (
	"context"
	"time"

	"github.com/mqd-broker/mqd/broker"
	"github.com/mqd-broker/mqd/broker/catalog"
	"github.com/mqd-broker/mqd/engine"
	"github.com/mqd-broker/mqd/engine/journal"
	"github.com/mqd-broker/mqd/engine/recovery"
	"github.com/mqd-broker/mqd/engine/scrub"
	"github.com/mqd-broker/mqd/engine/shard"
	"github.com/mqd-broker/mqd/engine/stage"
	"github.com/mqd-broker/mqd/net/conn"
	"github.com/mqd-broker/mqd/net/kafka"
	"github.com/mqd-broker/mqd/net/native"
)

// partitionsPerTurn is the number of partitions that a shard describes in one turn.
const partitionsPerTurn = 64

// Figures are what a node tells of itself at a moment.
//
// A shard's numbers belong to its loop. Whoever wants them posts a question; the loop
// answers it in its next turn by copying them, which takes no lock and is as much work
// whatever the node has to do. A shard that does not answer in time has only those
// figures that anybody may read.
type Figures struct {
	Address   string
	Directory string
	Driver    string
	Term      uint32
	Began     time.Time     // when it was started
	Took      time.Duration // until it served
	Recovery  recovery.Stats

	Connections     int
	HeldFetches     int // that wait for memory which unread answers keep
	Topics          int
	Partitions      int
	DeviceFailed    bool
	BallastMissing  bool
	MissingSegments int  // places where segments are missing, found so far
	Audited         bool // all have been looked at

	Shards []ShardFigures
}

// ShardFigures are those of a shard.
type ShardFigures struct {
	Shard int
	// LogErr is why the shard's log acknowledges nothing any more, nil while it does.
	LogErr error
	// Silent is how long ago its loop began its newest turn. It does so four times a
	// second without work.
	Silent time.Duration
	// Memory is what the shard has of its driver for I/O, in bytes.
	Memory int64

	// Anybody may read these at any time.
	Loop   *shard.Stats
	Conn   *conn.Counters
	Native *native.Counters
	Kafka  *kafka.Counters // nil: there is no listener
	Scrub  *scrub.Stats    // nil: there is no scrubber

	// Answered says that the loop has answered. What follows is zero without it.
	Answered     bool
	Store        engine.StoreStats
	Usage        engine.Usage
	Journal      journal.Stats
	JournalBytes int64 // size of the ring
	JournalUsed  int64 // of it, bytes that a start would have to read
	DiskFull     bool
	Broker       broker.Stats
	InFlight     int // produces and changes to topics that are not answered
	Requests     int // of the batch protocol that are not answered
	Outstanding  conn.Outstanding
	FreeBufs     int // receive buffers that are home
	RecvBufs     int
	Operations   int             // submitted to the driver and not completed
	Now          int64           // the loop's clock, for the times in Store
	Stages       *stage.Snapshot // nil: not answered
	Unsound      uint64          // batches without a time in the stage socket that should have one

	missing int
	audited bool
}

// question has a shard's loop fill in its figures.
type question struct {
	s    *member
	f    ShardFigures
	done chan struct{}
	// stages is memory for them, so that the loop makes none.
	stages *stage.Snapshot
}

// RunOn implements shard.Task.
func (q *question) RunOn(l *shard.Loop) {
	s, f := q.s, &q.f
	f.Answered = true
	f.Store, f.Usage = s.store.Stats(), s.store.Usage()
	f.Journal, f.JournalBytes, f.JournalUsed = s.journal.Stats(), s.journal.Capacity(), s.journal.Fill()
	f.DiskFull = s.store.DiskFull()
	f.Broker, f.InFlight, f.Requests = s.broker.Stats(), s.broker.InFlight(), s.native.InFlight()
	f.Outstanding = s.conns.Outstanding()
	f.FreeBufs, f.Operations = s.drv.FreeBufs(), s.drv.InFlight()
	f.Now = l.Now()
	f.Stages = q.stages
	s.times.Copy(f.Stages)
	f.Unsound = s.times.Unsound()
	if s.id == 0 {
		f.missing, f.audited = s.n.auditor.Losses(), s.n.auditor.Done()
	}
	close(q.done)
}

// Figures asks all shards at once and waits until they have answered, ctx ends, or the
// node has ended. It is for nodes that Start has started.
func (n *Node) Figures(ctx context.Context) *Figures {
	f := &Figures{
		Address: n.addr, Directory: n.cfg.Dir, Driver: n.driver, Term: n.rec.Term,
		Began: n.began, Took: n.took, Recovery: n.rec.Stats,
		Connections: n.census.Count(), HeldFetches: n.broker.Held(),
		DeviceFailed: n.device.Load(), BallastMissing: n.ballast.Missing(),
	}
	image := n.broker.Image()
	f.Topics, f.Partitions = len(image.Topics()), image.Partitions()
	memory := n.arenaBytes()
	logs := n.LogErrors()
	asked := make([]*question, len(n.shards))
	for i, s := range n.shards {
		known := ShardFigures{
			Shard: i, LogErr: logs[i], Memory: memory, RecvBufs: n.cfg.RecvBuffers,
			Loop: s.loop.Stats(), Conn: s.conns.Counters(), Native: s.native.Counters(), Kafka: s.kafkaCounters(), Scrub: n.ScrubStats(i),
		}
		f.Shards = append(f.Shards, known)
		asked[i] = &question{s: s, f: known, done: make(chan struct{}), stages: new(stage.Snapshot)}
		n.post(s, asked[i])
	}
	for i, q := range asked {
		if n.answered(ctx, q.done) {
			f.Shards[i] = q.f
		}
		f.Shards[i].Silent = q.s.silent()
	}
	f.MissingSegments, f.Audited = f.Shards[0].missing, f.Shards[0].audited
	return f
}

// LongTurns counts the turns of all loops that were longer than Config.LongTurn, and
// tells the longest of the newest ones of each shard.
func (n *Node) LongTurns() (count uint64, shard int, took time.Duration) {
	for i, s := range n.shards {
		stats := s.loop.Stats()
		count += stats.LongTurns.Load()
		if t := time.Duration(stats.LongTurn.Load()); t > took {
			shard, took = i, t
		}
	}
	return count, shard, took
}

// SlowStages counts the batches and fetches of all shards that were in a stage for longer than
// Config.Slow says, and tells the longest of the newest ones of each shard.
func (n *Node) SlowStages() (count uint64, shard int, at stage.Stage, took time.Duration) {
	for i, s := range n.shards {
		c, which, nanos := s.times.Slow().Newest()
		count += c
		if t := time.Duration(nanos); t > took {
			shard, at, took = i, which, t
		}
	}
	return count, shard, at, took
}

// Silence is how long ago each shard's loop began its newest turn. Loops without work do
// so four times a second.
func (n *Node) Silence() []time.Duration {
	all := make([]time.Duration, len(n.shards))
	for i, s := range n.shards {
		all[i] = s.silent()
	}
	return all
}

func (s *member) silent() time.Duration {
	return time.Duration(max(0, s.clock.Now()-s.loop.Stats().Heartbeat.Load()))
}

// LogErrors says for each shard why its log acknowledges nothing any more, nil while it
// does. A flush that has failed is the failure of all.
func (n *Node) LogErrors() []error {
	errs := make([]error, len(n.shards))
	for i, s := range n.shards {
		if f := s.failure.Load(); f != nil {
			errs[i] = f.err
		} else if n.device.Load() {
			errs[i] = errDevice
		}
	}
	return errs
}

// ReleaseBallast has the node give its ballast up, as a disk without room has it do; it
// makes another one when there is room. It is for tests of what a full disk does.
func (n *Node) ReleaseBallast() {
	n.asking.RLock()
	defer n.asking.RUnlock()
	if !n.deaf {
		n.ballast.Release()
	}
}

// logFailure is why a log has failed.
type logFailure struct{ err error }

// post gives a question to a shard, unless drivers are being closed. It reports whether
// the shard has it.
func (n *Node) post(s *member, t shard.Task) bool {
	n.asking.RLock()
	defer n.asking.RUnlock()
	return !n.deaf && s.loop.Post(t) == nil
}

// answered waits for an answer.
func (n *Node) answered(ctx context.Context, done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
	}
	select {
	case <-done:
		return true
	case <-ctx.Done():
	case <-n.done:
	}
	return false
}

// TopicFigures are those of a topic.
type TopicFigures struct {
	Topic *catalog.Topic
	// Partitions are the partitions by number, without the last ones if nobody has
	// told of them.
	Partitions []broker.PartitionInfo
}

// tour has a shard describe some of its partitions.
type tour struct {
	s      *member
	wanted []place
	infos  []broker.PartitionInfo
	done   chan struct{}
}

// place is a partition in a list of topics.
type place struct {
	at     int // in the list
	topic  *catalog.Topic
	number uint32
}

// RunOn implements shard.Task.
func (t *tour) RunOn(*shard.Loop) {
	for i, w := range t.wanted {
		t.infos[i] = t.s.broker.Info(w.topic, w.number)
	}
	close(t.done)
}

// TopicFigures describes the topics in the order of their names, with up to limit
// partitions of all together. Shards tell of a few partitions a turn. Partitions of which
// they have not told when ctx or the node ends are left out.
func (n *Node) TopicFigures(ctx context.Context, limit int) []TopicFigures {
	topics := n.broker.Image().Topics()
	all := make([]TopicFigures, len(topics))
	var wanted []place
	told := true
	for i, t := range topics {
		all[i].Topic = t
		for number := uint32(0); number < t.Partitions && limit > 0 && told; number++ {
			wanted = append(wanted, place{i, t, number})
			limit--
			if len(wanted) == partitionsPerTurn {
				told = n.describe(ctx, wanted, all)
				wanted = wanted[:0]
			}
		}
	}
	if told {
		n.describe(ctx, wanted, all)
	}
	return all
}

// describe adds what the shards tell of partitions, if all have answered.
func (n *Node) describe(ctx context.Context, wanted []place, all []TopicFigures) bool {
	tours := make([]tour, len(n.shards))
	for _, w := range wanted {
		t := &tours[n.broker.ShardOf(w.topic.ID, int32(w.number))]
		t.wanted = append(t.wanted, w)
	}
	for i := range tours {
		t := &tours[i]
		t.s, t.infos, t.done = n.shards[i], make([]broker.PartitionInfo, len(t.wanted)), make(chan struct{})
		if len(t.wanted) > 0 && !n.post(t.s, t) {
			return false
		}
	}
	for i := range tours {
		if t := &tours[i]; len(t.wanted) > 0 && !n.answered(ctx, t.done) {
			return false
		}
	}
	next := make([]int, len(tours)) // what each shard has told is in the order of wanted
	for _, w := range wanted {
		i := n.broker.ShardOf(w.topic.ID, int32(w.number))
		all[w.at].Partitions = append(all[w.at].Partitions, tours[i].infos[next[i]])
		next[i]++
	}
	return true
}
