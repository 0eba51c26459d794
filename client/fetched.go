package client

import (
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/client/internal/attempts"
	"github.com/mqd-broker/mqd/client/internal/link"
	"github.com/mqd-broker/mqd/client/internal/member"
	"github.com/mqd-broker/mqd/client/internal/unpack"
	"github.com/mqd-broker/mqd/net/wire"
)

// Batch is a run of records of one partition, in order of their offsets. Its
// memory is pooled: call Release when done. A batch that is not released is
// collected as garbage, which is merely slower.
type Batch struct {
	Topic     string
	Partition int32
	// First and Last are the offsets of the first and the last record.
	First, Last int64
	// HighWatermark is the end of what could be read when the batch was fetched.
	HighWatermark int64

	co   *Consumer
	part *member.Part // nil without a group
	span *member.Span
	run  unpack.Run
	buf  *link.Buffer // holds the batches

	stretch *attempts.Stretch
}

// Len is the number of records, with those that [WithFilter] hides.
func (b *Batch) Len() int { return b.run.N }

// Records iterates over the records, but for those that [WithFilter] hides. They are views
// into the batch's memory.
func (b *Batch) Records() iter.Seq[RecordView] {
	return func(yield func(RecordView) bool) { b.each(yield) }
}

// each walks the records.
func (b *Batch) each(yield func(RecordView) bool) {
	c, keep, prior := b.run.Batches(), b.co.cfg.filter, b.stretch.Prior()
	v := RecordView{Offset: b.First - 1, Attempt: 1}
	defer func() { b.stretch.Reach(v.Offset + 1) }() // also when the application panics
	stamp := int64(batch.NoTimestamp)                // of v.Time
	for it, ok := c.Next(); ok; it, ok = c.Next() {
		v.Epoch = c.Epoch
		for it.Next() {
			r := it.At()
			if r.Offset < b.run.From {
				continue
			}
			if r.Timestamp != stamp {
				stamp, v.Time = r.Timestamp, timeOf(r.Timestamp)
			}
			v.Offset, v.Key, v.Value, v.headers = r.Offset, r.Key, r.Value, r.HeaderList()
			if len(prior) > 0 {
				v.Attempt, prior = attempts.Of(prior, r.Offset)
			}
			if keep != nil && !keep(v) {
				continue
			}
			if !yield(v) {
				return
			}
		}
	}
}

// timeOf is the time of a record with this timestamp.
func timeOf(stamp int64) time.Time {
	if stamp == batch.NoTimestamp {
		return time.Time{}
	}
	return time.UnixMilli(stamp)
}

// Position is the place of one of the batch's records, to go back to with [Consumer.Seek] or
// to keep with what was made of it.
func (b *Batch) Position(v RecordView) Position {
	return Position{Topic: b.Topic, Partition: b.Partition, Offset: v.Offset, Epoch: v.Epoch}
}

// Next is the place behind the batch, where [FromPositions] goes on after it. A program that
// keeps it in the same transaction as what it has made of the records needs no commits.
func (b *Batch) Next() Position {
	return Position{Topic: b.Topic, Partition: b.Partition, Offset: b.Last + 1, Epoch: b.run.LastEpoch}
}

// Release gives the batch's memory back. Its records are gone then. A second
// call does nothing. To a consumer of a group it says that the application is done
// with the records, see [WithAutoCommit].
func (b *Batch) Release() {
	if b.span != nil {
		b.span.Return()
	}
	if b.buf != nil {
		b.buf.Release()
	}
	b.buf = nil
	b.run.Free()
}

// open turns the first answer of the feed, or a part of it, into a Batch. Both
// results are nil if it had nothing for a reader. The consumer's lock is held,
// and given up while the records are checked.
func (f *feed) open() (*Batch, error) {
	co, a := f.co, f.answers[0]
	b := &Batch{Topic: f.name, Partition: f.partition, HighWatermark: a.durable, buf: a.buf, co: co, part: f.part}
	b.run.From = f.position
	f.opening = true
	co.mu.Unlock()

	rest, err := b.run.Take(a.rest, co.cfg.decode)
	b.First, b.Last = b.run.First, b.run.Last

	co.mu.Lock()
	f.opening = false
	if len(f.answers) == 0 || f.answers[0] != a {
		// A seek came between, and left this answer to us.
		a.buf.Release()
		b.buf = nil
		b.Release()
		f.list()
		return nil, nil
	}
	if b.Len() > 0 && f.diverged(b) {
		b.buf = nil
		b.Release()
		return nil, nil
	}
	a.rest = rest
	a.buf.Retain()
	if b.Len() > 0 {
		b.stretch = f.tries.Stretch(b.First, f.committed())
		f.position = b.Last + 1
		if f.part != nil {
			b.span = f.part.Handed(f.position, b.run.LastEpoch, b.Len(), co.pull.Commit(&f.pull, co.cfg.group.records))
		}
	}
	kick := f.after(a, b, err)
	if b.Len() > 0 {
		co.c.counters.fetchedRecords.Add(uint64(b.Len()))
		err = nil // comes back with the next batch, as its first
	} else {
		b.Release()
		b = nil
	}
	if kick != nil {
		co.mu.Unlock()
		kick.Kick()
		co.mu.Lock()
	}
	return b, f.damaged(err)
}

// diverged reports that the first batch behind a position is of an earlier epoch than the
// position, and stops the partition then. The consumer's lock is held.
func (f *feed) diverged(b *Batch) bool {
	wanted := f.wanted
	f.wanted = 0
	if b.run.FirstEpoch >= wanted {
		return false
	}
	f.drop()
	f.offset = f.position
	f.stop(feedError(f, wire.CodeNone, fmt.Errorf("%w: offset %d has epoch %d, expected %d or later", ErrDiverged, b.First, b.run.FirstEpoch, wanted)))
	return true
}

// after moves the feed on when b was taken from answer a.
func (f *feed) after(a *answer, b *Batch, err error) *link.Link {
	if err != nil && b.Len() == 0 {
		// Fetch the same again, later: the bytes may have changed on the way.
		f.drop()
		f.offset = f.position
		f.stopped = false // what stopped it lies behind, and does so again
		f.retry()
		return nil
	}
	if co := f.co; len(a.rest) == 0 {
		f.position = max(f.position, a.next)
		a.buf.Release()
		co.pull.Taken(&f.pull, a.size)
		f.answers = append(f.answers[:0], f.answers[1:]...)
		for _, err := range a.then {
			co.report(err)
		}
	}
	f.passed() // answers without records may have come meanwhile
	f.list()
	return f.fetchMore()
}

// damaged is the error of a batch that does not check.
func (f *feed) damaged(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, batch.ErrCorrupt) {
		err = fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	e := feedError(f, wire.CodeNone, err)
	e.Retriable = true
	return e
}
