package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mqd-broker/mqd/bench/dialect"
	"github.com/mqd-broker/mqd/bench/drive"
)

// startDelay is the time between the last connection and the first message.
const startDelay = 20 * time.Millisecond

// newID tells the topics and messages of runs apart, also of those that other processes
// begin at the same moment.
func newID() uint32 { return rand.Uint32() }

// run is a measurement under way. Its fields do not change while workers measure,
// but for the atomic ones; a lane belongs to the worker of its connection.
type run struct {
	platform Platform
	target   Target
	load     Load
	id       uint32
	frame    int // bound of a frame, bytes
	topic    Topic
	open     bool
	lanes    []lane  // by connection and partition
	ends     []int64 // of partitions, when everything is over
	part     Part
	clocks   []int64 // by slice of the connections: what makes their times ours; nil for 0
	expected []int64 // by partition: messages, as others say who have produced them

	// Set before begin is closed.
	start, from, until int64 // of sending, of measuring, of both
	wall               int64 // Unix milliseconds at start

	ready     sync.WaitGroup // workers that connect
	begin     chan struct{}
	producing atomic.Int32 // workers that still produce
	failed    atomic.Bool
}

// Run makes one measurement against a target and reads everything back. An error
// means that it could not be made; a [Result] says whether what was measured is
// to be believed.
func Run(ctx context.Context, p Platform, target Target, load Load) (*Result, error) {
	r, err := newRun(p, target, load, whole())
	if err != nil {
		return nil, err
	}
	if target.Echo {
		r.topic = Topic{Shards: make([]uint16, r.load.Partitions), Count: 1}
	} else if err := r.createTopic(); err != nil {
		return nil, err
	}
	workers, err := r.measure(ctx)
	if !target.Echo {
		if derr := r.removeTopic(); err == nil {
			err = derr
		}
	}
	if err != nil {
		return nil, err
	}
	return r.result(workers), nil
}

// newRun makes a run without its topic.
func newRun(p Platform, target Target, load Load, part Part) (*run, error) {
	load = load.withDefaults()
	if err := load.validate(); err != nil {
		return nil, err
	}
	if target.Kafka != "" && (load.Partitions > 1 || load.Connections > 1) {
		return nil, fmt.Errorf("%w: %d partitions, %d connections: one of each by Kafka's protocol, whose fetches wait one behind the other",
			ErrConfig, load.Partitions, load.Connections)
	}
	r := &run{
		platform: p, target: target, load: load, id: newID(), part: part,
		frame: load.frameBytes(), open: load.Open(), begin: make(chan struct{}),
		lanes: make([]lane, load.Connections*load.Partitions),
	}
	if target.Kafka != "" {
		r.frame += dialect.Overhead
	}
	for i := range r.lanes {
		r.lanes[i].id = uint32(i)
		_, r.lanes[i].partition = r.lane(uint32(i))
	}
	return r, nil
}

func (r *run) createTopic() error {
	return administer(r.platform, r.target, func(lp *drive.Loop, l *drive.Link) error {
		var err error
		r.topic, err = createTopic(lp, l, fmt.Sprintf("mqd-bench-%08x", r.id), r.load.Partitions, r.load.Class)
		return err
	})
}

// removeTopic asks where the partitions have ended and deletes the topic, unless it
// is to be kept.
func (r *run) removeTopic() error {
	return administer(r.platform, r.target, func(lp *drive.Loop, l *drive.Link) error {
		r.ends = make([]int64, r.load.Partitions)
		for i := range r.ends {
			var err error
			if r.ends[i], err = endOf(lp, l, r.topic, i); err != nil {
				return err
			}
		}
		if r.load.Keep {
			return nil
		}
		return deleteTopic(lp, l, r.topic.Name)
	})
}

// measure runs the workers.
func (r *run) measure(ctx context.Context) ([]*worker, error) {
	s := r.launch(ctx)
	now := s.now()
	r.setTimes(now+int64(startDelay), now)
	close(r.begin)
	return s.workers, s.join(ctx)
}

// result is what the workers of a run in this process alone have found.
func (r *run) result(workers []*worker) *Result {
	return assemble(r.load, r.ends, []*Found{r.collect(workers)})
}

// fail ends the run early.
func (r *run) fail() { r.failed.Store(true) }

// finished says that a worker produces no more.
func (r *run) finished() {
	if r.producing.Add(-1) == 0 && r.load.Produced != nil {
		r.load.Produced()
	}
}

// allProduced reports whether no worker produces any more: then lanes are still.
func (r *run) allProduced() bool { return r.producing.Load() == 0 }

func (r *run) cpu(worker int) int {
	if worker < len(r.load.CPUs) {
		return r.load.CPUs[worker]
	}
	return NoCPU
}

// lane takes the id of a lane apart.
func (r *run) lane(id uint32) (conn int, partition int32) {
	return int(id) / r.load.Partitions, int32(int(id) % r.load.Partitions)
}

// threads is the number of workers of this process.
func (r *run) threads() int {
	most := max(len(r.part.Produce.pick(r.load.Connections)), len(r.part.Consume.pick(r.load.Partitions)))
	if r.part.Produce.Of > 0 {
		most = len(r.part.Produce.pick(r.load.Connections))
	}
	return max(1, min(r.load.Threads, most))
}

// drains is the number of workers, behind the others, that read what others read too, and
// pause.
func (r *run) drains() int {
	if r.load.Pause == 0 || r.part.Consume.Of == 0 {
		return 0
	}
	return 1
}

// connsOf are the connections of a worker.
func (r *run) connsOf(worker int) []int {
	if worker >= r.threads() {
		return nil
	}
	return every(r.threads(), worker, r.part.Produce.pick(r.load.Connections))
}

// partsOf are the partitions that a worker reads.
func (r *run) partsOf(worker int) []int {
	all := r.part.Consume.pick(r.load.Partitions)
	if worker >= r.threads() {
		return all
	}
	return every(r.threads(), worker, all)
}

// every is each of-th element, from number first on.
func every(of, first int, all []int) []int {
	var some []int
	for i := first; i < len(all); i += of {
		some = append(some, all[i])
	}
	return some
}

// talk is what the run's connections speak in place of the native protocol, nil for that.
func (r *run) talk() dialect.Dialect {
	if r.target.Kafka == "" {
		return nil
	}
	return dialect.Kafka{Topic: r.topic.Name}
}

// readBuf is the size of a reader's send buffer: a fetch for each partition.
func (r *run) readBuf() int {
	return max(adminBuf, r.load.Partitions*fetchSize)
}

// wantedShard is the shard that connection n asks for. With as many connections
// as shards, each shard has some.
func (r *run) wantedShard(n int) int32 {
	if r.load.Spread == One {
		return int32(r.topic.Shards[0])
	}
	return int32(n % int(max(1, r.topic.Count)))
}

// lanesOf are the lanes of connection n: those of the partitions that its shard
// owns, if every shard has a connection and no key decides, else all.
func (r *run) lanesOf(n int) []*lane {
	all := r.lanes[n*r.load.Partitions : (n+1)*r.load.Partitions]
	if r.load.Spread == One {
		return []*lane{&all[0]}
	}
	var own, every []*lane
	for i := range all {
		every = append(every, &all[i])
		if int32(r.topic.Shards[i]) == r.wantedShard(n) {
			own = append(own, &all[i])
		}
	}
	if r.load.Connections < int(r.topic.Count) || len(own) == 0 || r.load.Spread == ByKey {
		return every
	}
	return own
}

// ackedOf counts the acknowledged messages of a partition, when all producers
// have ended.
func (r *run) ackedOf(partition int32) int64 {
	if r.expected != nil {
		return r.expected[partition]
	}
	n := int64(0)
	for i := int(partition); i < len(r.lanes); i += r.load.Partitions {
		n += r.lanes[i].Acked
	}
	return n
}
