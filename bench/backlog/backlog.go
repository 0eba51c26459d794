// Package backlog measures how fast a consumer that is far behind catches up: it writes a
// backlog, reads it back with one consumer of the Go client, and sends as many bytes over
// a bare TCP connection of the loopback interface right beside each reading.
//
// Every message carries its partition and its number there. What is lost, repeated or
// reordered is counted, and fails the run.
package backlog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/bench/machine"
	"github.com/mqd-broker/mqd/client"
)

// ErrWrong: messages did not come back as they had gone out.
var ErrWrong = errors.New("messages are wrong")

// Options say what is measured. Zero fields take the defaults.
type Options struct {
	// Addr is the broker, PID its process, 0 if it is not known.
	Addr string
	PID  int
	// Messages is the size of the backlog. Default 5,000,000.
	Messages int
	// Size of a message in bytes, 16 to 60,000. Default 180.
	Size int
	// Batch is the number of messages in a batch, 1 to 10,000. Default 64.
	Batch int
	// Partitions of the topic. Default 8.
	Partitions int
	// Class of the topic. Default flushed.
	Class client.Class
	// Rounds is how often it is read, each time beside the bare connection. Default 3.
	Rounds int
	// Consumer are options for the consumer, beyond its topic.
	Consumer []client.ConsumerOption
	// Progress, if set, gets a line now and then.
	Progress func(line string)
}

func (o Options) withDefaults() (Options, error) {
	for _, f := range []struct {
		name             string
		field            *int
		def, least, most int
	}{
		{"messages", &o.Messages, 5_000_000, 1, 1 << 40},
		{"size", &o.Size, 180, 16, 60_000},
		{"batch messages", &o.Batch, 64, 1, 10_000},
		{"partitions", &o.Partitions, 8, 1, 10_000},
		{"rounds", &o.Rounds, 3, 1, 1000},
	} {
		if *f.field == 0 {
			*f.field = f.def
		}
		if *f.field < f.least || *f.field > f.most {
			return o, fmt.Errorf("%s: %d, expected %d to %d", f.name, *f.field, f.least, f.most)
		}
	}
	if o.Class == 0 {
		o.Class = client.ClassFlushed
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	return o, nil
}

// Run measures.
func Run(ctx context.Context, o Options) (r *Result, err error) {
	if o, err = o.withDefaults(); err != nil {
		return nil, err
	}
	var batches atomic.Int64
	c, err := client.Dial(ctx, []string{o.Addr}, client.WithHooks(client.Hooks{
		OnSend: func(context.Context, client.SendInfo) { batches.Add(1) },
	}))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close(context.WithoutCancel(ctx))) }()
	topic := fmt.Sprintf("bench-backlog-%d", time.Now().UnixNano())
	if _, err := c.Admin().CreateTopic(ctx, client.TopicSpec{Name: topic, Partitions: o.Partitions, Class: o.Class}); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Admin().DeleteTopic(context.WithoutCancel(ctx), topic)) }()
	r = &Result{Messages: o.Messages, Size: o.Size, Partitions: o.Partitions, Class: o.Class.String()}
	begun := time.Now()
	if err := produce(ctx, c, topic, &o); err != nil {
		return nil, err
	}
	r.Produced = float64(o.Messages) / time.Since(begun).Seconds()
	r.Batch = float64(o.Messages) / float64(batches.Load())
	o.Progress(fmt.Sprintf("%d messages written, %.2f million/s, %.1f in a batch", o.Messages, r.Produced/1e6, r.Batch))
	for range o.Rounds {
		round, err := read(ctx, c, topic, &o)
		if err != nil {
			return nil, err
		}
		if round.Raw, err = loopback(ctx, round.Bytes); err != nil {
			return nil, err
		}
		r.Rounds = append(r.Rounds, round)
		o.Progress(round.String())
	}
	r.sum()
	return r, r.Err()
}

// produce writes the backlog, batches to each partition in turn.
func produce(ctx context.Context, c *client.Client, topic string, o *Options) error {
	value := make([]byte, o.Size)
	for i := range value {
		value[i] = byte(i*131 + i>>3)
	}
	producers := make([]*client.Producer, o.Partitions)
	for i := range producers {
		var err error
		producers[i], err = c.Producer(topic, client.WithPartition(int32(i)), client.WithBuffer(max(1<<20, 32<<20/o.Partitions)),
			client.WithBatchMessages(o.Batch), client.WithBatchBytes(1<<24), client.WithBatchMax(batch.HeaderSize+o.Batch*(o.Size+recordOverhead)))
		if err != nil {
			return err
		}
	}
	next := make([]uint64, o.Partitions)
	for n := 0; n < o.Messages; {
		part := n / o.Batch % o.Partitions
		for range min(o.Batch, o.Messages-n) {
			binary.BigEndian.PutUint32(value, uint32(part))
			binary.BigEndian.PutUint64(value[4:], next[part])
			next[part]++
			n++
			if _, err := producers[part].Append(ctx, client.Record{Value: value}); err != nil {
				return err
			}
		}
	}
	for _, p := range producers {
		if err := p.Close(ctx); err != nil {
			return err
		}
	}
	return nil
}

// recordOverhead is at least what a record has beside its value, in bytes.
const recordOverhead = batch.MinRecordSize + 4

// read reads the whole backlog with one consumer.
func read(ctx context.Context, c *client.Client, topic string, o *Options) (Round, error) {
	before, cpu := c.Stats(), o.cpu()
	begun := time.Now()
	co, err := c.Consumer(append([]client.ConsumerOption{client.Topics(topic)}, o.Consumer...)...)
	if err != nil {
		return Round{}, err
	}
	next := make([]uint64, o.Partitions)
	r := Round{}
	for got := 0; got < o.Messages; {
		b, err := co.Poll(ctx)
		if err != nil {
			return r, errors.Join(err, co.Close(ctx))
		}
		got += b.Len()
		for v := range b.Records() {
			if len(v.Value) != o.Size || int32(binary.BigEndian.Uint32(v.Value)) != b.Partition ||
				binary.BigEndian.Uint64(v.Value[4:]) != next[b.Partition] {
				r.Wrong++
			}
			next[b.Partition]++
		}
		b.Release()
	}
	r.Seconds = time.Since(begun).Seconds()
	after, used := c.Stats(), o.cpu()
	r.ClientCPU = (used[0] - cpu[0]).Seconds() / float64(o.Messages)
	r.BrokerCPU = (used[1] - cpu[1]).Seconds() / float64(o.Messages)
	r.Bytes = int64(after.FetchedBytes - before.FetchedBytes)
	r.Answers = int64(after.FetchAnswers - before.FetchAnswers)
	r.PerSecond = float64(o.Messages) / r.Seconds
	r.BytesPerSecond = float64(r.Bytes) / r.Seconds
	return r, co.Close(ctx)
}

// cpu is the CPU time used so far by this process and the broker's, 0 where the system
// does not tell.
func (o *Options) cpu() (used [2]time.Duration) {
	for i, pid := range []int{os.Getpid(), o.PID} {
		if d, err := machine.CPUTime("/", pid); err == nil && pid > 0 {
			used[i] = d
		}
	}
	return used
}
