package crash

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/test/history"
)

// shardCounts is how many shards the lives have, one after the other.
var shardCounts = []int{3, 1, 2}

// ending is how a life ends.
type ending uint8

const (
	// loaded: up to two seconds after the broker was ready, and not before
	// everything was read.
	loaded ending = iota
	// early: in the first moments, while clients come back.
	early
	// recovering: before the broker is ready.
	recovering
	// orderly: with SIGTERM. It does not count as a cycle.
	orderly
)

// firstEndings have every kind once, for a short run.
var firstEndings = []ending{loaded, early, recovering, recovering, orderly, loaded, recovering}

// nextEnding chooses how the life of a cycle ends. A recovery that was killed is
// often followed by another one: each finds what the last has left.
func (w *world) nextEnding(cycle int, last ending) ending {
	if cycle < len(firstEndings) {
		return firstEndings[cycle]
	}
	if last == recovering && w.rng.IntN(2) == 0 {
		return recovering
	}
	switch n := w.rng.IntN(100); {
	case n < 45:
		return loaded
	case n < 70:
		return early
	case n < 90:
		return recovering
	}
	return orderly
}

// upTo is a random time below d.
func (w *world) upTo(d time.Duration) time.Duration { return time.Duration(w.rng.Int64N(int64(d))) }

// eraKills is how many kills a set of busy topics lives through before it is
// deleted and another one created: what is read after every restart has a bound.
const eraKills = 10

// progressKills is how often a long run says how far it is.
const progressKills = 25

func TestCrashesTakeNothingThatWasPromised(t *testing.T) {
	w := newWorld(t)
	w.start(shardCounts[0])
	w.ready()
	w.populate()
	era, eraEnd := 1, min(eraKills, max(2, *cyclesFlag/2))
	w.newEra(era)
	last := orderly
	for cycle := 0; w.report.kills < *cyclesFlag; cycle++ {
		last = w.nextEnding(cycle, last)
		w.endLife(last)
		if last != orderly && w.report.kills%progressKills == 0 {
			t.Logf("%d of %d kills", w.report.kills, *cyclesFlag)
		}
		w.start(shardCounts[w.life%len(shardCounts)])
		if w.report.kills >= eraEnd && w.report.kills < *cyclesFlag {
			eraEnd += eraKills
			era++
			w.endEra(w.ready())
			w.newEra(era)
		}
	}
	w.finish()
	if w.report.lines < len(w.report.starts) {
		t.Errorf("%d of %d starts were logged", w.report.lines, len(w.report.starts))
	}
	t.Logf("%s", w.report.summary(w))
}

// endLife ends the broker's life in one of the ways. The broker has been started
// and may not be ready yet.
func (w *world) endLife(e ending) {
	w.t.Helper()
	if e == recovering {
		w.sleep(w.upTo(w.report.typicalStart()))
		w.kill()
		w.report.unready++
		w.check()
		return
	}
	addr := w.ready()
	ready := time.Now()
	v := w.verify(addr)
	switch e {
	case early:
		w.sleep(w.upTo(300 * time.Millisecond))
		w.kill()
		v.abandon()
	case loaded:
		moment := ready.Add(w.upTo(2 * time.Second))
		v.wait()
		w.sleep(time.Until(moment))
		w.kill()
	case orderly:
		v.wait()
		w.sleep(w.upTo(500 * time.Millisecond))
		w.stop()
	}
	w.check()
}

// sleep lets the load go on until the moment of a crash.
func (w *world) sleep(d time.Duration) {
	w.t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-w.broker.Done():
		w.t.Fatalf("seed %d, life %d: the broker ended by itself: %s", w.seed, w.life, w.broker.LogTail())
	}
}

// populate creates the topics that live as long as the run: little traffic, small
// segments.
func (w *world) populate() {
	w.t.Helper()
	producers, consumers := w.dial("steady producers"), w.dial("steady consumers")
	configs := map[string]string{"segment.bytes": "64KiB", "index.interval.bytes": "512"}
	for _, c := range []history.Class{history.Flushed, history.Written, history.Memory} {
		tp := w.newTopic(producers, "steady-"+c.String(), c, 4, configs)
		tp.startTail(consumers)
		// One message at a time, each with a batch and a round of its own.
		tp.startWriter(producers, style{window: 1, pause: time.Millisecond})
		tp.startWriter(producers, style{window: 64, pause: 500 * time.Microsecond, options: []client.ProducerOption{
			client.WithBatchMessages(16),
		}})
	}
}

// newEra creates busy topics: producers that go as fast as they can.
func (w *world) newEra(n int) {
	w.t.Helper()
	producers, consumers := w.dial("busy producers"), w.dial("busy consumers")
	for i, c := range []history.Class{history.Flushed, history.Written, history.Memory} {
		tp := w.newTopic(producers, fmt.Sprintf("busy-%s-%d", c, n), c, 3, map[string]string{"segment.bytes": []string{"1MiB", "4MiB", "256KiB"}[(n+i)%3]})
		tp.busy = true
		tp.startTail(consumers)
		codec := []client.Codec{client.CompressLZ4, client.CompressZstd, client.CompressSnappy}[(n+i)%3]
		tp.startWriter(producers, style{window: 2000, pause: 20 * time.Microsecond, largeEvery: 5000})
		tp.startWriter(producers, style{window: 500, pause: 100 * time.Microsecond, largeEvery: 2000, options: []client.ProducerOption{
			client.WithCompression(codec), client.WithBatchMessages(200), client.WithBatchBytes(32 << 10),
		}})
	}
}

// endEra reads what the busy topics have once more, and deletes them while the
// steady ones go on.
func (w *world) endEra(addr string) {
	w.t.Helper()
	var busy, steady []*topic
	for _, tp := range w.topics {
		if tp.busy {
			busy = append(busy, tp)
		} else {
			steady = append(steady, tp)
		}
	}
	w.quiesce(busy)
	w.verify(addr).wait()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, tp := range busy {
		tp.stop()
		if err := w.clients[0].Admin().DeleteTopic(ctx, tp.name); err != nil {
			w.t.Fatalf("seed %d, life %d: %v", w.seed, w.life, err)
		}
		w.report.counts.Add(tp.counts())
		w.report.deleted++
	}
	w.topics = steady
	for _, c := range w.clients[2:] {
		_ = c.Close(ctx) // failures are outcomes of messages
	}
	w.clients = w.clients[:2]
	w.check()
}

// quiesce has topics come to rest: nothing is on its way, consumers have
// everything. The broker must be ready.
func (w *world) quiesce(topics []*topic) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, tp := range topics {
		for _, wr := range tp.writers {
			wr.stop()
			_ = wr.producer.Flush(ctx) // failures are outcomes of messages
			wr.settle()
		}
	}
	for _, tp := range topics {
		for _, l := range tp.logs {
			l.locked(func() {
				if n := l.p.Pending(); n != 0 {
					w.problem("%v: %d messages have no outcome although everything was flushed", l, n)
				}
			})
		}
		w.wait("the consumer of "+tp.name+" has everything", tp.tail.caughtUp)
	}
	w.check()
}

// finish lets everything come to rest, and reads it once more before and after an
// orderly restart.
func (w *world) finish() {
	w.t.Helper()
	addr := w.ready()
	w.quiesce(w.topics)
	w.verify(addr).wait()
	w.stop()
	w.start(2)
	w.verify(w.ready()).wait()
	w.stop()
	w.check()
}
