package powercut

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/test/history"
)

// load is the clients of a run.
type load struct {
	record
	client  *client.Client
	rng     *rand.Rand
	maxSize int // largest message in bytes
	stop    context.CancelFunc
	running sync.WaitGroup
}

// written is a topic that a load writes to.
type written struct {
	class      history.Class
	partitions int
	segment    string
	pause      time.Duration
	window     int
}

var mixed = []written{
	{history.Flushed, 4, "16KiB", 500 * time.Microsecond, 1},
	{history.Flushed, 3, "128KiB", 50 * time.Microsecond, 500},
	{history.Written, 3, "64KiB", 200 * time.Microsecond, 200},
	{history.Memory, 3, "64KiB", 200 * time.Microsecond, 200},
}

// startLoad begins to create topics and to write. Segments are small, so that they
// roll all the time.
func startLoad(addr string, rng *rand.Rand, maxSize int) (*load, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := client.Dial(ctx, []string{addr}, client.WithClientID("load"))
	if err != nil {
		return nil, err
	}
	l := &load{client: c, rng: rng, maxSize: maxSize}
	run, stop := context.WithCancel(context.Background())
	l.stop = stop
	for _, s := range mixed {
		configs := map[string]string{"segment.bytes": s.segment, "index.interval.bytes": "512"}
		index, tp, err := l.create(ctx, s.class, s.partitions, configs)
		if err == nil {
			err = l.startWriter(run, index, tp, s.pause, s.window)
		}
		if err != nil {
			return nil, errors.Join(err, l.end())
		}
	}
	creator := rand.New(rand.NewPCG(rng.Uint64(), 0))
	l.running.Go(func() { l.comeAndGo(run, creator) })
	return l, nil
}

// end ends the load. The broker is dead, or nothing matters any more.
func (l *load) end() error {
	l.stop()
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_ = l.client.Close(ended) // what becomes of the rest interests nobody
	l.running.Wait()
	if len(l.problems) > 0 {
		return fmt.Errorf("the load: %q", l.problems)
	}
	return nil
}

// create creates a topic.
func (l *load) create(ctx context.Context, class history.Class, partitions int, configs map[string]string) (int, *topic, error) {
	index, tp := l.newTopic(fmt.Sprintf("%v-%d", class, l.mark()), class, partitions, configs["cleanup.policy"] != "")
	_, err := l.client.Admin().CreateTopic(ctx, client.TopicSpec{
		Name: tp.name, Partitions: partitions, Class: classes[class], Configs: configs,
	})
	if err == nil {
		l.note(event{what: created, topic: index})
	}
	return index, tp, err
}

// comeAndGo creates topics, writes a little to each, and deletes every other one.
func (l *load) comeAndGo(ctx context.Context, rng *rand.Rand) {
	const pause = 40 * time.Millisecond
	for n := 0; ctx.Err() == nil; n++ {
		index, tp, err := l.create(ctx, history.Flushed, 2, map[string]string{"segment.bytes": "16KiB"})
		if err != nil {
			l.failed(ctx, err)
			return
		}
		if err := l.few(ctx, index, tp); err != nil {
			l.failed(ctx, err)
			return
		}
		if n%2 == 1 {
			l.note(event{what: deleting, topic: index})
			if err := l.client.Admin().DeleteTopic(ctx, tp.name); err != nil {
				l.failed(ctx, err)
				return
			}
			l.note(event{what: deleted, topic: index})
		}
		rest(ctx, upTo(rng, pause))
	}
}

// few writes some messages to a new topic.
func (l *load) few(ctx context.Context, index int, tp *topic) error {
	const messages, size = 10, 1000
	for partition := range tp.streams {
		p, err := l.client.Producer(tp.name, client.WithPartition(int32(partition)), client.WithMinClass(classes[tp.class]))
		if err != nil {
			return err
		}
		id := l.newProducer()
		for seq := range uint32(messages) {
			e := event{what: sent, topic: index, partition: int32(partition), m: history.Message{
				Stream: tp.streams[partition], Producer: id, Seq: seq,
			}}
			l.note(e)
			ticket, err := p.Append(ctx, client.Record{Value: history.Append(nil, e.m, size)})
			if err != nil {
				return err
			}
			at, err := ticket.Wait(ctx)
			if err != nil {
				return err
			}
			e.what, e.offset = acked, at.Offset
			l.note(e)
		}
		if err := p.Close(ctx); err != nil {
			return err
		}
	}
	return nil
}

// failed takes an error of the load: only the broker's death explains one.
func (l *load) failed(ctx context.Context, err error) {
	if ctx.Err() == nil && !explained(err) {
		l.problem("%v", err)
	}
}

// explained reports whether the death of the broker or of its disk explains an
// error.
func explained(err error) bool {
	var e *client.Error
	return errors.Is(err, client.ErrOutcomeUnknown) || errors.Is(err, client.ErrDisconnected) || errors.Is(err, client.ErrClosed) ||
		errors.As(err, &e) && e.Code.Retriable()
}

// inFlight is a message whose outcome is awaited.
type inFlight struct {
	ticket client.Ticket
	event  event
}

// startWriter begins to write to all partitions of a topic.
func (l *load) startWriter(ctx context.Context, index int, tp *topic, pause time.Duration, window int) error {
	chosen := int32(0)
	p, err := l.client.Producer(tp.name, client.WithMinClass(classes[tp.class]), client.WithBuffer(4<<20),
		client.WithPartitioner(func([]byte, int32) int32 { return chosen }))
	if err != nil {
		return err
	}
	id, rng := l.newProducer(), rand.New(rand.NewPCG(l.rng.Uint64(), 1))
	flying := make(chan inFlight, window-1)
	l.running.Go(func() {
		defer close(flying)
		next := make([]uint32, len(tp.streams))
		var value []byte
		for ctx.Err() == nil {
			chosen = int32(rng.IntN(len(tp.streams)))
			e := event{what: sent, topic: index, partition: chosen, m: history.Message{
				Stream: tp.streams[chosen], Producer: id, Seq: next[chosen],
			}}
			next[chosen]++
			value = history.Append(value[:0], e.m, l.size(rng))
			l.note(e)
			ticket, err := p.Append(ctx, client.Record{Key: tp.key(e.m), Value: value})
			if err != nil {
				l.failed(ctx, err)
				return
			}
			flying <- inFlight{ticket, e}
			rest(ctx, upTo(rng, 2*pause))
		}
	})
	l.running.Go(func() {
		for f := range flying {
			l.outcome(f)
		}
	})
	return nil
}

// outcome waits for what becomes of a message and tells it.
func (l *load) outcome(f inFlight) {
	at, err := f.ticket.Wait(context.Background())
	e := f.event
	switch {
	case err == nil:
		e.what, e.offset = acked, at.Offset
		if at.Partition != e.partition {
			l.problem("message %v for partition %d is in %d", e.m, e.partition, at.Partition)
		}
	case errors.Is(err, client.ErrOutcomeUnknown):
		e.what = unknown
	default:
		e.what = refused
		if !explained(err) {
			l.problem("message %v: %v", e.m, err)
		}
	}
	l.note(e)
}

// size draws the size of a message: mostly that of an alert.
func (l *load) size(rng *rand.Rand) int {
	const least, mean, most, largeEvery = 50, 180, 2000, 500
	if rng.IntN(largeEvery) == 0 {
		return most + rng.IntN(l.maxSize-most)
	}
	return min(least+int(rng.ExpFloat64()*(mean-least)), most)
}

func rest(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
