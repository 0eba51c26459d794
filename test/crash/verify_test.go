package crash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/net/wire"
	"github.com/mqd-broker/mqd/test/history"
	"github.com/mqd-broker/mqd/test/rig"
)

// verifiers is the number of connections that read at the same time.
const verifiers = 2

// verification reads every partition from its start to what is its end now.
type verification struct {
	w    *world
	stop context.CancelFunc
	done chan struct{}
	mu   sync.Mutex
	errs []error
}

// verify begins to read everything from the broker at addr, over connections of
// its own. It goes on while everything else does.
func (w *world) verify(addr string) *verification {
	ctx, cancel := context.WithCancel(context.Background())
	v := &verification{w: w, stop: cancel, done: make(chan struct{})}
	var logs []*log
	for _, tp := range w.topics {
		logs = append(logs, tp.logs...)
	}
	todo := make(chan *log, len(logs))
	for _, l := range logs {
		todo <- l
	}
	close(todo)
	topics := append([]*topic(nil), w.topics...)
	go func() {
		defer close(v.done)
		var all sync.WaitGroup
		all.Go(func() { v.failed(v.describe(ctx, addr, topics)) })
		for range verifiers {
			all.Go(func() { v.failed(v.readAll(ctx, addr, todo)) })
		}
		all.Wait()
	}()
	return v
}

// wait waits until everything is read. What went wrong is a problem of the run.
func (v *verification) wait() {
	v.w.t.Helper()
	<-v.done
	v.stop()
	for _, err := range v.errs {
		v.w.problem("reading everything: %v", err)
	}
	v.w.check()
	v.w.report.verified++
}

// abandon ends the reading, whose broker is dead.
func (v *verification) abandon() {
	v.stop()
	<-v.done
}

func (v *verification) failed(err error) {
	if err != nil {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.errs = append(v.errs, err)
	}
}

func (v *verification) readAll(ctx context.Context, addr string, todo chan *log) (err error) {
	c, err := rig.Open(ctx, addr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	for l := range todo {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := l.read(c); err != nil {
			return fmt.Errorf("%v (%v): %w", l, l.topic.class, err)
		}
	}
	return nil
}

// describe looks at what the broker says about topics.
func (v *verification) describe(ctx context.Context, addr string, topics []*topic) (err error) {
	c, err := rig.Open(ctx, addr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	for _, tp := range topics {
		d, err := c.Describe(tp.name)
		if err != nil {
			return err
		}
		if d.ID != tp.id || d.Class != wire.Class(classes[tp.class]) || len(d.Partitions) != len(tp.logs) {
			return fmt.Errorf("topic %s is %v with class %v and %d partitions, expected %v, %v and %d",
				tp.name, d.ID, d.Class, len(d.Partitions), tp.id, tp.class, len(tp.logs))
		}
		for i, p := range d.Partitions {
			if p.Epoch < tp.epochs[i] {
				return fmt.Errorf("topic %s partition %d: epoch %d, was %d", tp.name, i, p.Epoch, tp.epochs[i])
			}
			if p.Durable == p.End { // else the newest may be of a batch that is not there yet
				tp.epochs[i] = p.Epoch
			}
			if p.LogStart > p.Durable || p.Durable > p.End {
				return fmt.Errorf("topic %s partition %d: start %d, durable %d, end %d", tp.name, i, p.LogStart, p.Durable, p.End)
			}
			if tp.class == history.Flushed && p.ExposedBytes != 0 {
				return fmt.Errorf("topic %s partition %d: %d bytes exposed in class flushed", tp.name, i, p.ExposedBytes)
			}
		}
	}
	return nil
}

// read reads a partition from start to end and has its history judged.
func (l *log) read(c *rig.Conn) error {
	var least int64
	l.locked(func() { least = l.p.End() })
	start, end, err := c.Bounds(l.topic.id, l.partition)
	if err != nil {
		return err
	}
	s := &scan{l: l}
	l.locked(func() { s.Scan = l.p.Scan(least, start, end) })
	if err := c.ReadAll(l.topic.id, l.partition, start, end, s); err != nil {
		return err
	}
	l.locked(s.Done)
	return nil
}

// scan passes what a reading finds on to the history.
type scan struct {
	*history.Scan
	l *log
}

func (s *scan) Record(offset int64, r *batch.RecordView) {
	s.l.locked(func() { s.Scan.Record(offset, r.Value) })
	m, err := history.Identify(r.Value)
	if err != nil {
		return // the history tells
	}
	key, headers := attachments(m, r.Value)
	same := bytes.Equal(r.Key, key) && (r.Key == nil) == (key == nil) && r.HeaderCount() == len(headers)
	for it := r.Headers(); same && it.Next(); {
		same = string(it.Key()) == headers[0].Key && bytes.Equal(it.Value(), headers[0].Value)
	}
	if !same {
		s.l.topic.w.problem("%v: offset %d has another key or other headers", s.l, offset)
	}
}

func (s *scan) Skip(from, to int64) { s.l.locked(func() { s.Scan.Skip(from, to) }) }
