package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/net/wire"
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
	topic    topic
	open     bool
	lanes    []lane  // by connection and partition
	ends     []int64 // of partitions, when everything is over

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
	load = load.withDefaults()
	if err := load.validate(); err != nil {
		return nil, err
	}
	r := &run{
		platform: p, target: target, load: load, id: newID(),
		frame: load.frameBytes(), open: load.Open(), begin: make(chan struct{}),
	}
	if err := r.prepare(); err != nil {
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

// prepare makes the topic and the lanes.
func (r *run) prepare() error {
	if r.target.Echo {
		r.topic = topic{shards: make([]uint16, r.load.Partitions), count: 1}
	} else if err := r.createTopic(); err != nil {
		return err
	}
	r.lanes = make([]lane, r.load.Connections*r.load.Partitions)
	for i := range r.lanes {
		r.lanes[i].id = uint32(i)
		_, r.lanes[i].partition = r.lane(uint32(i))
	}
	return nil
}

func (r *run) createTopic() error {
	return administer(r.platform, r.target, func(lp *loop, l *link) error {
		var err error
		r.topic, err = createTopic(lp, l, fmt.Sprintf("mqd-bench-%08x", r.id), r.load.Partitions, r.load.Class)
		return err
	})
}

// removeTopic asks where the partitions have ended and deletes the topic, unless it
// is to be kept.
func (r *run) removeTopic() error {
	return administer(r.platform, r.target, func(lp *loop, l *link) error {
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
		return deleteTopic(lp, l, r.topic.name)
	})
}

// measure runs the workers.
func (r *run) measure(ctx context.Context) ([]*worker, error) {
	defer withoutGC()()
	stop := context.AfterFunc(ctx, r.fail)
	defer stop()
	workers := make([]*worker, r.load.Threads)
	results := make(chan error, len(workers))
	r.ready.Add(len(workers))
	r.producing.Store(int32(len(workers)))
	for i := range workers {
		w := newWorker(r, i)
		workers[i] = w
		go func() {
			var up bool
			err := onThread(r.platform, r.cpu(i), w.driverOptions(), func(drv aio.Driver) error {
				up = true
				return w.main(drv)
			})
			if !up {
				r.fail()
				r.ready.Done()
			}
			results <- err
		}()
	}
	r.ready.Wait()
	// All drivers of a process have one clock.
	r.setTimes(workers)
	close(r.begin)
	var first error
	for range workers {
		if err := <-results; err != nil && (first == nil || errors.Is(first, errStopped)) {
			first = err
		}
	}
	if ctx.Err() != nil {
		first = ctx.Err()
	}
	return workers, first
}

func (r *run) setTimes(workers []*worker) {
	for _, w := range workers {
		if w.loop != nil {
			r.start = w.loop.clock.Now() + int64(startDelay)
			break
		}
	}
	r.wall = time.Now().Add(startDelay).UnixMilli()
	r.from = r.start + int64(r.load.Warmup)
	r.until = r.from + int64(r.load.Duration)
	if r.failed.Load() {
		r.until = r.start
	}
}

// fail ends the run early.
func (r *run) fail() { r.failed.Store(true) }

// finished says that a worker produces no more.
func (r *run) finished() { r.producing.Add(-1) }

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

// connsOf are the connections of a worker.
func (r *run) connsOf(worker int) []int {
	var conns []int
	for n := worker; n < r.load.Connections; n += r.load.Threads {
		conns = append(conns, n)
	}
	return conns
}

// partsOf are the partitions that a worker reads.
func (r *run) partsOf(worker int) []int32 {
	var parts []int32
	for n := worker; n < r.load.Partitions; n += r.load.Threads {
		parts = append(parts, int32(n))
	}
	return parts
}

// readBuf is the size of a reader's send buffer: a fetch for each partition.
func (r *run) readBuf() int {
	return max(adminBuf, r.load.Partitions*(wire.HeaderSize+wire.FetchRequestSize))
}

// wantedShard is the shard that connection n asks for. With as many connections
// as shards, each shard has some.
func (r *run) wantedShard(n int) int32 {
	if r.load.Spread == One {
		return int32(r.topic.shards[0])
	}
	return int32(n % int(max(1, r.topic.count)))
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
		if int32(r.topic.shards[i]) == r.wantedShard(n) {
			own = append(own, &all[i])
		}
	}
	if r.load.Connections < int(r.topic.count) || len(own) == 0 || r.load.Spread == ByKey {
		return every
	}
	return own
}

// ackedOf counts the acknowledged messages of a partition, when all producers
// have ended.
func (r *run) ackedOf(partition int32) int64 {
	n := int64(0)
	for i := int(partition); i < len(r.lanes); i += r.load.Partitions {
		n += r.lanes[i].Acked
	}
	return n
}
