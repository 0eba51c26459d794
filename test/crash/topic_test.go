package crash

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/test/history"
)

// topic is a topic with its history, its writers and its consumer.
type topic struct {
	w       *world
	name    string
	id      client.TopicID
	class   history.Class
	busy    bool // deleted at the end of its era
	logs    []*log
	writers []*writer
	tail    *tail
	epochs  []uint32
	sent    atomic.Int64 // bytes of messages given to clients
}

// log is a partition's history, shared by writers, consumer and verification.
type log struct {
	topic     *topic
	partition int32
	stream    uint32

	mu    sync.Mutex
	p     *history.Partition
	shown int // violations that are problems already
}

func (l *log) locked(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
}

func (l *log) String() string { return fmt.Sprintf("%s/%d", l.topic.name, l.partition) }

var classes = map[history.Class]client.Class{
	history.Memory: client.ClassMemory, history.Written: client.ClassWritten, history.Flushed: client.ClassFlushed,
}

// newTopic creates a topic.
func (w *world) newTopic(c *client.Client, name string, class history.Class, partitions int, configs map[string]string) *topic {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	id, err := c.Admin().CreateTopic(ctx, client.TopicSpec{Name: name, Partitions: partitions, Class: classes[class], Configs: configs})
	if err != nil {
		w.t.Fatalf("seed %d, life %d: %v", w.seed, w.life, err)
	}
	tp := &topic{w: w, name: name, id: id, class: class, epochs: make([]uint32, partitions)}
	for i := range partitions {
		w.report.streams++
		tp.logs = append(tp.logs, &log{
			topic: tp, partition: int32(i), stream: w.report.streams, p: history.New(w.report.streams, class),
		})
	}
	w.topics = append(w.topics, tp)
	return tp
}

// stop ends the topic's writers and its consumer. It may be called again.
func (tp *topic) stop() {
	for _, wr := range tp.writers {
		wr.stop()
	}
	if tp.tail != nil {
		tp.tail.stop()
	}
}

// check makes problems of what the histories show.
func (tp *topic) check() {
	for _, l := range tp.logs {
		l.locked(func() {
			for _, v := range l.p.Violations()[l.shown:] {
				tp.w.problem("%v (%v): %v", l, tp.class, v)
				l.shown++
			}
		})
	}
}

// counts sums the histories up.
func (tp *topic) counts() (sum history.Counts) {
	for _, l := range tp.logs {
		l.locked(func() { sum.Add(l.p.Counts()) })
	}
	return sum
}
