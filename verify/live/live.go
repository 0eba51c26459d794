// Package live verifies what a running broker serves: it reads every partition from its
// log start to its durable end through the batch protocol, and checks every batch and the
// chain of their offsets as package verify does in files.
//
// What the broker keeps besides, checkpoints and what of the journals is in segments
// already, shows only in its directory. A broker that meets damage answers with where the
// log goes on; that range is told, and the reading goes on behind it.
package live

import (
	"context"
	"fmt"
	"time"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/net/wire"
	"github.com/mqd-broker/mqd/verify"
)

const (
	// fetchBytes is how much is asked for at a time.
	fetchBytes = 1 << 20
	// attempts bounds how often an answer that may pass is asked for again.
	attempts = 5
	// pause stands between them.
	pause = 200 * time.Millisecond
)

// Options says what to verify.
type Options struct {
	// Server is host:port of the broker.
	Server string
	// Timeout bounds the wait for one answer.
	Timeout time.Duration
	// ClientID names us in the broker's log.
	ClientID string
	// Topic is the only topic to read, "" for all.
	Topic string
	// Report is called for every finding, Progress, if set, after every answer with the
	// offsets read so far and those that there are.
	Report   func(f *verify.Finding)
	Progress func(done, total int64)
}

// partition is one that is to be read.
type partition struct {
	topic  string
	id     wire.TopicID
	number int32
	start  int64
	end    int64 // the durable end when the verification began
}

// run is the state of a verification.
type run struct {
	o     Options
	conn  *conn
	sum   verify.Summary
	done  int64 // offsets
	total int64
}

// Run verifies what the broker serves. The error says why it could not be done:
// verify.ErrUnknownTopic, one of the network, or of a broker that breaks the protocol.
func Run(ctx context.Context, o Options) (verify.Summary, error) {
	r := &run{o: o}
	var err error
	if r.conn, err = dial(ctx, &o); err != nil {
		return r.sum, err
	}
	defer r.conn.close()
	list, err := r.partitions()
	if err != nil {
		return r.sum, err
	}
	for i := range list {
		if err := r.read(ctx, &list[i]); err != nil {
			return r.sum, fmt.Errorf("topic %s partition %d: %w", list[i].topic, list[i].number, err)
		}
	}
	return r.sum, nil
}

// partitions looks up what there is to read.
func (r *run) partitions() ([]partition, error) {
	m, err := r.conn.metadata(r.o.Topic)
	if err != nil {
		return nil, err
	}
	var list []partition
	for _, t := range m.Topics {
		if t.Code == wire.CodeUnknownTopic {
			return nil, fmt.Errorf("%w: %q", verify.ErrUnknownTopic, t.Name)
		}
		if t.Code != wire.CodeNone {
			return nil, fmt.Errorf("topic %s: %v", t.Name, t.Code)
		}
		for n := range t.PartitionShards {
			p := partition{topic: t.Name, id: t.ID, number: int32(n)}
			code, err := r.bounds(&p)
			switch {
			case err != nil:
				return nil, fmt.Errorf("topic %s partition %d: %w", t.Name, n, err)
			case code == wire.CodeUnknownTopic || code == wire.CodeUnknownPartition:
				continue // deleted since
			case code != wire.CodeNone:
				r.tell(verify.Unchecked, &p, 0, 0, fmt.Sprintf("the broker does not tell where it begins and ends: %v", code))
				continue
			}
			r.total += p.end - p.start
			list = append(list, p)
		}
	}
	return list, nil
}

// bounds looks up where a partition begins and ends.
func (r *run) bounds(p *partition) (code wire.Code, err error) {
	if p.start, code, err = r.conn.offset(p, wire.TimeStart); err != nil || code != wire.CodeNone {
		return code, err
	}
	p.end, code, err = r.conn.offset(p, wire.TimeEnd)
	return code, err
}

// read reads a partition to its end.
func (r *run) read(ctx context.Context, p *partition) error {
	r.sum.Partitions++
	before := r.done
	for at, failures := p.start, 0; at < p.end; {
		a, err := r.conn.fetch(p, at)
		if err != nil {
			return err
		}
		next := at
		switch {
		case a.Code == wire.CodeNone:
			next = r.batches(p, at, &a)
		case a.Code == wire.CodeCorrupt && a.NextOffset > at:
			next = a.NextOffset
			r.tell(verify.Damage, p, at, next, "the broker finds it damaged")
		case a.Code == wire.CodeOffsetOutOfRange && a.LogStart > at:
			next = a.LogStart
			r.tell(verify.Note, p, at, next, "removed while it was being read")
		case a.Code == wire.CodeUnknownTopic || a.Code == wire.CodeUnknownPartition:
			r.tell(verify.Note, p, at, p.end, "the topic was deleted while it was being read")
			return nil
		}
		if next > at {
			failures = 0
			at = next
			r.moved(before, at-p.start)
			continue
		}
		if failures++; failures == attempts || !(a.Code.Retriable() || a.Code == wire.CodeNone) {
			r.tell(verify.Unchecked, p, at, p.end, fmt.Sprintf("the broker answers %v and does not get on", a.Code))
			return nil
		}
		if err := wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// moved tells how far the reading is.
func (r *run) moved(before, read int64) {
	r.done = before + read
	if r.o.Progress != nil {
		r.o.Progress(r.done, max(r.total, r.done))
	}
}

func wait(ctx context.Context) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// batches checks the batches of an answer and returns where to go on.
func (r *run) batches(p *partition, at int64, a *wire.FetchResponse) int64 {
	r.sum.Bytes += int64(len(a.Batches))
	next, first := at, true
	for rest := a.Batches; len(rest) > 0; first = false {
		var b []byte
		var err error
		if b, rest, err = batch.Split(rest); err != nil {
			// Nobody knows where the next one begins.
			r.tell(verify.Damage, p, next, max(a.NextOffset, next+1), err.Error())
			return max(a.NextOffset, next)
		}
		h, err := batch.CheckStored(b)
		if err != nil {
			to := claimed(b, next, a.NextOffset)
			r.tell(verify.Damage, p, next, to, err.Error())
			next = to
			continue
		}
		switch {
		case h.BaseOffset > next:
			r.tell(verify.Note, p, next, h.BaseOffset, "there is nothing at these offsets")
		case h.NextOffset() <= next, h.BaseOffset < next && !first:
			r.tell(verify.Damage, p, h.BaseOffset, h.NextOffset(), fmt.Sprintf("expected offset %d", next))
		}
		r.sum.Batches++
		r.sum.Records += uint64(h.Count)
		next = max(next, h.NextOffset())
	}
	if a.NextOffset > next {
		r.tell(verify.Note, p, next, a.NextOffset, "there is nothing at these offsets")
	}
	return max(next, a.NextOffset)
}

// claimed is where a damaged batch at an offset says that it ends, if that can be in an
// answer that goes up to end.
func claimed(b []byte, offset, end int64) int64 {
	h, err := batch.ParseHeader(b)
	if err == nil && h.BaseOffset <= offset && h.NextOffset() > offset && h.NextOffset() <= end {
		return h.NextOffset()
	}
	return offset + 1
}

// tell hands out a finding about offsets up to a next one.
func (r *run) tell(kind verify.Kind, p *partition, from, to int64, reason string) {
	f := &verify.Finding{Kind: kind, Topic: p.topic, Partition: int64(p.number), Position: -1, EndPosition: -1, Offset: from, EndOffset: to, Reason: reason}
	r.sum.Count(f)
	if r.o.Report != nil {
		r.o.Report(f)
	}
}
