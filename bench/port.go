package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/mqd-broker/mqd/bench/draw"
	"github.com/mqd-broker/mqd/bench/ledger"
	"github.com/mqd-broker/mqd/net/wire"
)

// Port carries messages to another broker and back, by a client of that broker's. What
// [Run] does with this project's own driver, [RunPort] does with a port: the figures of
// a port are those of broker and client together.
type Port interface {
	// Open makes the topic of a run.
	Open(ctx context.Context, topic string, partitions int) error
	// Send hands a message over and does not wait for room. done is called once, on
	// any goroutine, also within Send; until then key and value belong to the port.
	Send(partition int32, key, value []byte, done func(offset int64, err error))
	// Read calls each, on one goroutine, for the messages of all partitions from their
	// start, until the context ends; that is no error.
	Read(ctx context.Context, each func(partition int32, offset int64, value []byte)) error
	// Close deletes the topic.
	Close(ctx context.Context) error
}

// nap is how long before a message is due the generator stops to sleep and begins to
// yield: timers come late.
const nap = 200 * time.Microsecond

// roomWait is how long a closed loop that has everything in flight sleeps when no answer
// comes, before it looks at the time.
const roomWait = 10 * time.Millisecond

// portMessage is a message in flight.
type portMessage struct {
	lane                  int32
	seq                   uint64
	intended, ready, sent int64
	held, busy            bool
	key, value            []byte
}

// portRun is a measurement through a port. Answers and messages come on the port's
// goroutines: what they touch is behind the mutex.
type portRun struct {
	turns
	port        Port
	load        Load
	yield       func() // lets others run
	id          uint32
	began       time.Time
	from, until int64
	sizes       *draw.Sizes
	keys        *draw.Keys
	noise       *noise
	nextTo      int32
	room        chan struct{} // has a token when an answer has come

	mu       sync.Mutex
	slots    []portMessage
	free     []int
	lanes    []ledger.Lane
	trackers []ledger.Tracker
	wrong    int64
	lastSeen int64
	over     bool
}

// RunPort makes one measurement through a port, with one connection's generator and one
// reader. A load's frames are groups of messages that are handed over at once: how they
// travel is the port's affair. Durability must say what an acknowledgement means.
func RunPort(ctx context.Context, port Port, load Load) (*Result, error) {
	if load.Connections > 1 || load.Threads > 1 || load.Durability == "" {
		return nil, fmt.Errorf("%w: %d connections, %d threads, durability %q: a port has one generator, and says what it guarantees",
			ErrConfig, load.Connections, load.Threads, load.Durability)
	}
	load = load.withDefaults()
	if err := load.validate(); err != nil {
		return nil, err
	}
	p, err := newPortRun(port, load)
	if err != nil {
		return nil, err
	}
	if err := p.run(ctx); err != nil {
		return nil, err
	}
	return p.result(), nil
}

// run makes the measurement, on a topic of its own.
func (p *portRun) run(ctx context.Context) error {
	if err := p.port.Open(ctx, fmt.Sprintf("mqd-bench-%08x", p.id), p.load.Partitions); err != nil {
		return fmt.Errorf("open: %w", err)
	}
	err := p.measure(ctx)
	if cerr := p.port.Close(context.WithoutCancel(ctx)); err == nil && cerr != nil {
		err = fmt.Errorf("close: %w", cerr)
	}
	return err
}

// inFlight is how many messages may wait for their answers: the frames of a closed loop, and
// as many messages as an open one may have frames, which is a limit that is not kept up.
func (c Load) inFlight() int {
	if c.Open() {
		return max(c.Depth, c.BatchMessages)
	}
	return c.Depth * c.BatchMessages
}

func newPortRun(port Port, load Load) (*portRun, error) {
	sizes, err := load.sizes(0)
	if err != nil {
		return nil, err
	}
	p := &portRun{
		port: port, load: load, yield: runtime.Gosched, id: newID(), room: make(chan struct{}, 1), sizes: sizes, keys: draw.NewKeys(load.Keys, load.KeySkew, load.Seed), noise: newNoise(load.Seed, load.Plain),
		slots: make([]portMessage, load.inFlight()), lanes: make([]ledger.Lane, load.Partitions), trackers: make([]ledger.Tracker, load.Partitions),
	}
	for i := range p.slots {
		p.slots[i].key, p.slots[i].value = make([]byte, draw.KeySize), make([]byte, sizes.Max())
		p.free = append(p.free, i)
	}
	p.w = newWorker(&run{load: load, open: load.Open()}, 0)
	p.until = int64(load.Warmup + load.Duration)
	p.from, p.w.run.from, p.w.run.until = int64(load.Warmup), int64(load.Warmup), p.until
	p.turns = newTurns(p.w, 0)
	return p, nil
}

func (p *portRun) now() int64 { return int64(time.Since(p.began)) }

// measure produces and reads everything back.
func (p *portRun) measure(ctx context.Context) error {
	reading, stop := context.WithCancel(ctx)
	defer stop()
	read := make(chan error, 1)
	start := func() { go func() { read <- p.port.Read(reading, p.received) }() }
	p.began = time.Now()
	if p.load.Reading == Live {
		start()
	}
	if err := p.produce(ctx); err != nil {
		return err
	}
	if p.load.Reading == After {
		start()
	}
	for ctx.Err() == nil && !p.readAll() {
		select {
		case err := <-read:
			return fmt.Errorf("%w: reading ended: %w", ErrBroker, errors.Join(err, ctx.Err()))
		case <-time.After(time.Millisecond):
		}
	}
	stop()
	return errors.Join(ctx.Err(), <-read)
}

// readAll reports whether everything acknowledged is seen, or nothing more comes.
func (p *portRun) readAll() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	missing := int64(0)
	for i := range p.lanes {
		missing += p.lanes[i].Acked - p.trackers[i].Seen
	}
	return missing <= 0 || p.now()-p.lastSeen > int64(readWait)
}

// produce sends until the time is over and waits for the answers.
func (p *portRun) produce(ctx context.Context) error {
	for p.group < p.groups && ctx.Err() == nil {
		now := p.now()
		intended := now
		if p.due != nil {
			intended = p.dueAt()
		}
		switch {
		case intended >= p.until:
			p.groups = p.group
		case intended > now:
			if wait := time.Duration(intended-now) - nap; wait > 0 {
				time.Sleep(wait)
			} else {
				p.yield()
			}
		case p.send(intended, now):
		case p.due != nil:
			p.yield() // to note in time what becomes due
		default:
			p.await(ctx)
		}
	}
	for end := time.Now().Add(answerWait); ctx.Err() == nil && time.Now().Before(end); time.Sleep(nap) {
		p.mu.Lock()
		idle := len(p.free) == len(p.slots)
		p.mu.Unlock()
		if idle {
			break
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over, p.lastSeen = true, p.now()
	for i := range p.slots {
		if m := &p.slots[i]; m.busy {
			p.lanes[m.lane].Refuse(ledger.Span{First: m.seq, End: m.seq + 1})
			p.w.refused(1, wire.CodeInternal, "no answer")
		}
	}
	return ctx.Err()
}

// await sleeps until an answer has come: the CPU is the client's and the broker's.
func (p *portRun) await(ctx context.Context) {
	late := time.NewTimer(roomWait)
	defer late.Stop()
	select {
	case <-p.room:
	case <-ctx.Done():
	case <-late.C:
	}
}

// send hands a group over, and reports whether there was room for it.
func (p *portRun) send(intended, now int64) bool {
	p.mu.Lock()
	if len(p.free) < p.load.BatchMessages {
		p.hold(now)
		p.mu.Unlock()
		return false
	}
	held := p.passed()
	late := uint32(0)
	if p.due != nil && !held {
		late = lateness(p.now() - intended)
	}
	lane, key := p.choose()
	group := make([]int, p.load.BatchMessages)
	for i := range group {
		n := p.free[len(p.free)-1]
		p.free, group[i] = p.free[:len(p.free)-1], n
		m := &p.slots[n]
		m.lane, m.seq, m.intended, m.held, m.busy = lane, p.lanes[lane].Sent, intended, held, true
		p.lanes[lane].Sent++
		m.value = m.value[:p.sizes.Next()]
		p.noise.write(m.value, stamp{run: p.id, lane: uint32(lane), seq: m.seq, time: intended, late: late})
		if m.key = m.key[:0]; p.keys != nil {
			if key == noKey || i > 0 && p.load.Spread != ByKey {
				key = int64(p.keys.Next())
			}
			m.key = append(m.key, p.keys.Text(uint32(key))...)
		}
		m.ready = p.now()
		m.sent = m.ready
	}
	p.mu.Unlock()
	for _, n := range group {
		m := &p.slots[n]
		k := m.key
		if len(k) == 0 {
			k = nil
		}
		p.port.Send(m.lane, k, m.value, func(offset int64, err error) { p.answered(n, offset, err) })
	}
	return true
}

// choose is choose of a producer, for lanes that are partitions.
func (p *portRun) choose() (lane int32, key int64) {
	switch p.load.Spread {
	case ByKey:
		n := p.keys.Next()
		return int32(uint64(n*0x9e3779b1) * uint64(p.load.Partitions) >> 32), int64(n)
	case One:
		return 0, noKey
	}
	lane = p.nextTo
	p.nextTo = (p.nextTo + 1) % int32(p.load.Partitions)
	return lane, noKey
}

// answered takes the answer to a message.
func (p *portRun) answered(n int, offset int64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := &p.slots[n]
	if p.over || !m.busy {
		return
	}
	m.busy = false
	p.free = append(p.free, n)
	select {
	case p.room <- struct{}{}:
	default:
	}
	ln := &p.lanes[m.lane]
	if err != nil {
		ln.Refuse(ledger.Span{First: m.seq, End: m.seq + 1})
		p.w.refused(1, wire.CodeInternal, err.Error())
		return
	}
	ln.Acked++
	ln.Offsets += ledger.Fold(m.seq, offset)
	p.w.acked(&request{count: 1, intended: m.intended, ready: m.ready, sent: m.sent, held: m.held}, p.now())
}

// received checks a message that was read.
func (p *portRun) received(partition int32, offset int64, value []byte) {
	now := p.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lastSeen = now
	s, ok := readStamp(value)
	if !ok || s.run != p.id || int(partition) >= len(p.trackers) || s.lane != uint32(partition) {
		p.wrong++
		return
	}
	if p.trackers[partition].Take(s.seq, offset) {
		p.w.received(s, now)
	}
}

func (p *portRun) result() *Result {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.w.run
	r.target.Echo = true // the reader of the own driver has nothing to say
	res := r.result([]*worker{p.w})
	res.Class = p.load.Durability
	res.Faults.Corrupted += p.wrong
	for i := range p.lanes {
		res.Sent += int64(p.lanes[i].Sent)
		res.Acked += p.lanes[i].Acked
		res.Read += p.trackers[i].Seen
		res.Faults.Add(p.trackers[i].Compare(&p.lanes[i]))
	}
	res.summarize()
	return res
}
