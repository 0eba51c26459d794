package crash

import (
	"bytes"
	"context"
	"errors"

	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/test/history"
)

// tail is a consumer that follows a topic from its first message, across the
// broker's lives.
type tail struct {
	topic    *topic
	consumer *client.Consumer
	tails    []*history.Tail
	cancel   context.CancelFunc
	done     chan struct{}
}

// startTail begins to read.
func (tp *topic) startTail(c *client.Client) {
	w := tp.w
	w.t.Helper()
	consumer, err := c.Consumer(client.Topics(tp.name), client.WithPrefetch(4<<20))
	if err != nil {
		w.t.Fatalf("seed %d, life %d: %v", w.seed, w.life, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	t := &tail{topic: tp, consumer: consumer, cancel: cancel, done: make(chan struct{})}
	for _, l := range tp.logs {
		t.tails = append(t.tails, l.p.Tail(0))
	}
	tp.tail = t
	go t.run(ctx)
}

func (t *tail) stop() {
	t.cancel()
	<-t.done
	_ = t.consumer.Close(context.Background())
}

func (t *tail) run(ctx context.Context) {
	defer close(t.done)
	w := t.topic.w
	for {
		b, err := t.consumer.Poll(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			var e *client.Error
			if !errors.As(err, &e) || !expected(e) {
				w.problem("consumer of %s: %v", t.topic.name, err)
				return
			}
			continue
		}
		t.take(b)
		b.Release()
	}
}

func (t *tail) take(b *client.Batch) {
	l := t.topic.logs[b.Partition]
	for v := range b.Records() {
		l.locked(func() { t.tails[b.Partition].Record(v.Offset, v.Value) })
		if !attached(v) {
			t.topic.w.problem("%v: a consumer got offset %d with another key or other headers", l, v.Offset)
		}
	}
}

// attached reports whether a record has the key and the headers that its message
// was sent with.
func attached(v client.RecordView) bool {
	m, err := history.Identify(v.Value)
	if err != nil {
		return true // the history tells
	}
	key, headers := attachments(m, v.Value)
	if !bytes.Equal(v.Key, key) || (v.Key == nil) != (key == nil) || v.HeaderCount() != len(headers) {
		return false
	}
	for _, h := range headers {
		if got, ok := v.Header(h.Key); !ok || !bytes.Equal(got, h.Value) {
			return false
		}
	}
	return true
}

// caughtUp reports whether the consumer has everything of every partition.
func (t *tail) caughtUp() bool {
	for i, l := range t.topic.logs {
		// Of class memory the newest offsets may be empty for ever.
		missing := false
		l.locked(func() { missing = t.topic.class != history.Memory && t.tails[i].Next() < l.p.End() })
		if missing {
			return false
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	lags, err := t.consumer.Lag(ctx)
	if err != nil {
		return false
	}
	for _, l := range lags {
		if l.Position < l.End {
			return false
		}
	}
	return true
}
