package crash

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/net/wire"
	"github.com/mqd-broker/mqd/test/history"
)

// style is how a writer works.
type style struct {
	// window is how many messages it has on their way at most.
	window int
	// pause is what it waits after each message; 0 is as fast as it goes.
	pause time.Duration
	// largeEvery makes one message in so many a large one.
	largeEvery int
	options    []client.ProducerOption
}

// Every life reads everything. On a machine that writes faster than it reads a life
// would never end, and the next one would be longer: a topic to which mostBytes have been
// written gets a message each trickle from a writer, and no more.
const (
	mostBytes = 4 << 20
	trickle   = 5 * time.Millisecond
)

// writer sends messages to all partitions of a topic until it is told to stop,
// whatever happens to the broker, and tells the histories.
type writer struct {
	topic    *topic
	id       uint32
	style    style
	rng      *rand.Rand
	producer *client.Producer
	chosen   int32 // partition of the message that is appended next
	next     []uint32
	value    []byte
	cancel   context.CancelFunc
	done     chan struct{}

	mu      sync.Mutex // an append and its entry are one step for settle
	pending []sent
}

// sent is a message without an outcome.
type sent struct {
	ticket client.Ticket
	m      history.Message
	log    *log
}

// startWriter begins to write.
func (tp *topic) startWriter(c *client.Client, s style) {
	w := tp.w
	w.t.Helper()
	w.writers++
	wr := &writer{
		topic: tp, id: w.writers, style: s, rng: rand.New(rand.NewPCG(w.seed, uint64(w.writers))),
		next: make([]uint32, len(tp.logs)), done: make(chan struct{}),
	}
	options := append([]client.ProducerOption{
		client.WithPartitioner(func([]byte, int32) int32 { return wr.chosen }),
		client.WithMinClass(classes[tp.class]), client.WithBuffer(4 << 20),
	}, s.options...)
	var err error
	if wr.producer, err = c.Producer(tp.name, options...); err != nil {
		w.t.Fatalf("seed %d, life %d: %v", w.seed, w.life, err)
	}
	tp.writers = append(tp.writers, wr)
	ctx, cancel := context.WithCancel(context.Background())
	wr.cancel = cancel
	go wr.run(ctx)
}

// stop ends the writing; what was sent may still be on its way.
func (wr *writer) stop() {
	wr.cancel()
	<-wr.done
}

func (wr *writer) run(ctx context.Context) {
	defer close(wr.done)
	for ctx.Err() == nil {
		wr.collect()
		if wr.full() {
			wr.waitForOne(ctx)
			continue
		}
		if !wr.send(ctx) {
			return
		}
		switch {
		case wr.topic.sent.Load() > mostBytes:
			wr.rest(ctx, trickle)
		case wr.style.pause > 0:
			wr.rest(ctx, wr.style.pause)
		}
	}
}

func (wr *writer) rest(ctx context.Context, pause time.Duration) {
	t := time.NewTimer(time.Duration(wr.rng.Int64N(int64(2 * pause))))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

func (wr *writer) full() bool {
	wr.mu.Lock()
	defer wr.mu.Unlock()
	return len(wr.pending) >= wr.style.window
}

// waitForOne waits for the oldest message, or for a moment.
func (wr *writer) waitForOne(ctx context.Context) {
	const moment = 20 * time.Millisecond
	wr.mu.Lock()
	if len(wr.pending) == 0 {
		wr.mu.Unlock()
		return
	}
	oldest := wr.pending[0].ticket
	wr.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, moment)
	defer cancel()
	_, _ = oldest.Wait(ctx) // collect looks at what came of it
}

// send sends one message. It goes on trying while the client has no room; false
// means that the writer has to stop.
func (wr *writer) send(ctx context.Context) bool {
	i := wr.rng.IntN(len(wr.topic.logs))
	l := wr.topic.logs[i]
	m := history.Message{Stream: l.stream, Producer: wr.id, Seq: wr.next[i]}
	wr.next[i]++
	wr.value = history.Append(wr.value[:0], m, wr.size())
	wr.topic.sent.Add(int64(len(wr.value)))
	l.locked(func() { l.p.Sent(m) })
	key, headers := attachments(m, wr.value)
	r := client.Record{Key: key, Value: wr.value, Headers: headers}
	for {
		err := wr.append(l, m, r)
		if err == nil {
			return true
		}
		if !errors.Is(err, client.ErrBufferFull) || ctx.Err() != nil {
			if ctx.Err() == nil {
				wr.topic.w.problem("%v: append: %v", l, err)
			}
			l.locked(func() { l.p.Refused(m) })
			return false
		}
		wr.waitForOne(ctx)
		wr.collect()
	}
}

func (wr *writer) append(l *log, m history.Message, r client.Record) error {
	wr.mu.Lock()
	defer wr.mu.Unlock()
	wr.chosen = l.partition
	t, err := wr.producer.TryAppend(r)
	if err == nil {
		wr.pending = append(wr.pending, sent{t, m, l})
	}
	return err
}

// size draws the size of a message: that of an alert, or now and then a large one.
func (wr *writer) size() int {
	const least, mean, most = 50, 180, 512
	if wr.style.largeEvery > 0 && wr.rng.IntN(wr.style.largeEvery) == 0 {
		return most + wr.rng.IntN(wr.topic.w.maxSize-most)
	}
	return min(least+int(wr.rng.ExpFloat64()*(mean-least)), most)
}

// collect takes the outcomes of the oldest messages.
func (wr *writer) collect() {
	wr.mu.Lock()
	defer wr.mu.Unlock()
	n := 0
	for n < len(wr.pending) && wr.pending[n].ticket.Done() {
		wr.outcome(wr.pending[n])
		n++
	}
	wr.pending = append(wr.pending[:0], wr.pending[n:]...)
}

// settle takes the outcomes of all messages that have one.
func (wr *writer) settle() {
	wr.mu.Lock()
	defer wr.mu.Unlock()
	left := wr.pending[:0]
	for _, s := range wr.pending {
		if s.ticket.Done() {
			wr.outcome(s)
		} else {
			left = append(left, s)
		}
	}
	wr.pending = left
}

// outcome tells the history what came of a message.
func (wr *writer) outcome(s sent) {
	p, err := s.ticket.Wait(context.Background())
	w := wr.topic.w
	if err == nil {
		if class := s.ticket.Class(); class != classes[wr.topic.class] || p.Partition != s.log.partition {
			w.problem("%v: message %v was acknowledged as class %v in partition %d", s.log, s.m, class, p.Partition)
		}
		s.log.locked(func() { s.log.p.Acked(s.m, p.Offset) })
		return
	}
	var e *client.Error
	if !errors.As(err, &e) {
		w.problem("%v: message %v: %v", s.log, s.m, err)
	} else if !expected(e) {
		w.problem("%v: message %v: %v", s.log, s.m, e)
	}
	if errors.Is(err, client.ErrOutcomeUnknown) {
		s.log.locked(func() { s.log.p.Unknown(s.m) })
	} else {
		s.log.locked(func() { s.log.p.Refused(s.m) })
	}
}

// expected reports whether a run like this explains an error of the client.
func expected(e *client.Error) bool {
	switch e.Code {
	case wire.CodeNone: // the broker said nothing
		return errors.Is(e, client.ErrOutcomeUnknown) || errors.Is(e, client.ErrDisconnected) || errors.Is(e, client.ErrClosed)
	case wire.CodeBackpressure, wire.CodeShuttingDown, wire.CodeNotReady:
		return true
	}
	return false
}

// attachments are the key and the headers of a message, which follow from its
// contents.
func attachments(m history.Message, value []byte) (key []byte, headers []client.Header) {
	if m.Seq%4 == 0 {
		key = value[4:20]
	}
	if m.Seq%5 == 0 {
		headers = []client.Header{{Key: "sequence", Value: value[12:16]}}
	}
	return key, headers
}
