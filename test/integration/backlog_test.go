package integration

import (
	"context"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/test/rig"
)

// order checks that records of each partition come once and in the order of their numbers.
type order struct {
	name string
	next [4]uint64
	got  int
}

func (o *order) take(b *client.Batch) error {
	defer b.Release()
	for r := range b.Records() {
		if n := binary.BigEndian.Uint64(r.Value); n != o.next[b.Partition] {
			return fmt.Errorf("%s: number %d in partition %d, expected %d", o.name, n, b.Partition, o.next[b.Partition])
		}
		o.next[b.Partition]++
		o.got++
	}
	return nil
}

// numbered writes records whose values begin with their number in their partition.
type numbered struct {
	producers [4]*client.Producer
	written   [4]uint64
}

func openNumbered(t *testing.T, c *client.Client, topic string) *numbered {
	t.Helper()
	w := &numbered{}
	for i := range w.producers {
		var err error
		if w.producers[i], err = c.Producer(topic, client.WithPartition(int32(i))); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// write appends n records of 180 bytes, 64 to a partition at a time, and waits for all.
func (w *numbered) write(ctx context.Context, n int) error {
	value := make([]byte, 180)
	for i := range n {
		part := i / 64 % len(w.producers)
		binary.BigEndian.PutUint64(value, w.written[part])
		w.written[part]++
		if _, err := w.producers[part].Append(ctx, client.Record{Value: value}); err != nil {
			return err
		}
	}
	for _, p := range w.producers {
		if err := p.Flush(ctx); err != nil {
			return err
		}
	}
	return nil
}

// readAll reads n records at the end of the log.
func readAll(ctx context.Context, in *client.Consumer, n int) error {
	seen := &order{name: "the live consumer"}
	for seen.got < n {
		b, err := in.Poll(ctx)
		if err == nil {
			err = seen.take(b)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

const backlog, moreThanBacklog = 80_000, 20_000

// catchingUp is a consumer behind a backlog, beside a producer that may write one record
// for four that it reads.
type catchingUp struct {
	ctx     context.Context
	in      *client.Consumer
	seen    order
	asked   int
	allowed chan int // as many records may be written
}

// step reads an eighth of the backlog, and returns how many records are left, and how many
// may be when everything has been written that was allowed.
func (c *catchingUp) step() (lag, most int64, err error) {
	for end := min(c.seen.got+backlog/8, backlog+moreThanBacklog); c.seen.got < end; {
		b, err := c.in.Poll(c.ctx)
		if err != nil {
			return 0, 0, err
		}
		if err := c.seen.take(b); err != nil {
			return 0, 0, err
		}
		if n := min(c.seen.got/4, moreThanBacklog) - c.asked; n > 0 {
			c.asked += n
			c.allowed <- n
		}
	}
	lags, err := c.in.Lag(c.ctx)
	for _, l := range lags {
		lag += l.Records
	}
	return lag, int64(backlog + c.asked - c.seen.got), err
}

// A consumer is paused while producers go on, until its backlog is on the disk alone. When
// it goes on, with a producer that writes one record for four that it reads, its backlog
// falls from step to step to nothing, in few answers; and who reads at the end of the log
// gets everything all the while.
func TestABacklogFallsToTheEndWhileProducersGoOn(t *testing.T) {
	rig.NeedDriver(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	m := &mortal{t: t, dir: rig.DataDir(t)}
	m.start()
	open := func() (*client.Client, *client.Consumer) {
		c := m.client(ctx, 0)
		t.Cleanup(func() { _ = c.Close(context.WithoutCancel(ctx)) })
		in, err := c.Consumer(client.Topics("load"))
		if err != nil {
			t.Fatal(err)
		}
		return c, in
	}
	c := m.client(ctx, 0)
	defer func() { _ = c.Close(ctx) }()
	if _, err := c.Admin().CreateTopic(ctx, client.TopicSpec{Name: "load", Partitions: 4}); err != nil {
		t.Fatal(err)
	}
	w := openNumbered(t, c, "load")
	ended := make(chan error, 2)
	_, tail := open()
	go func() { ended <- readAll(ctx, tail, backlog+moreThanBacklog) }()
	slow, behind := open()
	behind.Pause()
	if err := w.write(ctx, backlog); err != nil {
		t.Fatal(err)
	}
	answers := slow.Stats().FetchAnswers
	up := &catchingUp{ctx: ctx, in: behind, seen: order{name: "the paused consumer"}, allowed: make(chan int, moreThanBacklog)}
	go func() {
		for n := range up.allowed {
			if err := w.write(ctx, n); err != nil {
				ended <- err
				return
			}
		}
		ended <- nil
	}()

	behind.Resume()
	last := int64(backlog)
	for up.seen.got < backlog+moreThanBacklog {
		lag, most, err := up.step()
		if err != nil {
			t.Fatal(err)
		}
		// At 500 records an answer it would be one for each 500. The first ones are small,
		// and so are those at the end of the log.
		n, read := slow.Stats().FetchAnswers-answers, up.seen.got
		if read >= backlog/2 && read < backlog && n > uint64(read)*3/4/500 {
			t.Fatalf("%d answers for %d records", n, read)
		}
		// The producer may be behind what it is allowed, but never ahead.
		if lag > most {
			t.Fatalf("%d records behind after %d, expected at most %d", lag, up.seen.got, most)
		}
		last = lag
	}
	close(up.allowed)
	for range 2 {
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
	if last != 0 {
		t.Fatalf("%d records behind in the end", last)
	}
}
