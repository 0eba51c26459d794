package broker

import (
	"errors"
	"fmt"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/broker/group"
	"github.com/mqd-broker/mqd/broker/groupfile"
	"github.com/mqd-broker/mqd/engine/aio"
)

// groupReadBytes is how much of the log is read at a time, so that a turn stays short.
const groupReadBytes = 64 << 10

// groupLoad reads the state of a coordinator: snapshots on a helper, then the log from
// its start.
type groupLoad struct {
	c     *coordinator
	job   groupfile.Job
	op    aio.JobOp
	fetch Fetch
	due   bool // the next piece of the log can be asked for
	buf   []byte
}

// begin begins.
func (l *groupLoad) begin() {
	c := l.c
	c.stage = coordinatorFiles
	o := &c.b.node.opts
	limits := o.Groups
	limits.Record = c.recordBytes()
	l.job = groupfile.Job{
		State: group.New(limits, groupTopics{c.b.node}), Dir: o.Dir, Node: c.b.node.id, Partition: c.number, LogStart: c.part.LogStart(),
	}
	l.op = aio.JobOp{Job: &l.job, Owner: l}
	c.b.drv.SubmitJob(&l.op)
}

// CompleteJob goes on with the log.
func (l *groupLoad) CompleteJob(op *aio.JobOp) {
	c := l.c
	for _, err := range l.job.Passed {
		c.b.node.opts.Events.GroupsDamaged(c.number, err)
	}
	switch {
	case errors.Is(op.Err, group.ErrDamaged), errors.Is(op.Err, group.ErrUnsupported), errors.Is(op.Err, groupfile.ErrForeign), errors.Is(op.Err, groupfile.ErrMissing):
		c.fail(op.Err)
		return
	case op.Err != nil:
		c.wait(op.Err)
		return
	}
	c.state = l.job.State
	c.snapshots.Of(c.state, len(l.job.Redo) > 0)
	l.job = groupfile.Job{}
	c.stage = coordinatorLog
	l.fetch = Fetch{
		Topic: GroupsTopic, Partition: int32(c.number), Offset: c.part.LogStart(),
		MaxBytes: groupReadBytes, MaxRecords: groupReadBytes, Owner: l,
	}
	l.due = true
}

// step asks for the next piece of the log, and reports whether it has.
func (l *groupLoad) step() bool {
	if !l.due {
		return false
	}
	l.due = false
	l.c.b.Fetch(&l.fetch)
	return true
}

// Fetched applies a piece of the log.
func (l *groupLoad) Fetched(r *Fetch) {
	c := l.c
	l.buf = l.buf[:0]
	for _, p := range r.Pieces() {
		l.buf = append(l.buf, p...)
	}
	code, message := r.Code, r.Message
	c.b.Release(r)
	switch {
	case code == Busy:
		l.due = true
		return
	case code == OffsetOutOfRange && r.Offset < c.part.LogStart():
		l.begin() // a trim that was under way is done; half of a log makes an older state of a newer one
		return
	}
	if code == Storage {
		c.wait(fmt.Errorf("the log of groups, partition %d: %s", c.number, message))
		return
	}
	if code != OK {
		c.fail(fmt.Errorf("the log of groups, partition %d, cannot be read at offset %d: %s %s", c.number, r.Offset, code, message))
		return
	}
	c.snapshots.Grew(len(l.buf))
	if err := l.apply(l.buf); err != nil {
		c.fail(fmt.Errorf("the log of groups, partition %d, behind offset %d: %w", c.number, r.Offset, err))
		return
	}
	r.Offset = r.Next
	if r.Offset < c.part.Durable() {
		l.due = true
		return
	}
	l.buf = nil
	c.serve()
}

// apply applies the records of whole batches.
func (l *groupLoad) apply(b []byte) error {
	for len(b) > 0 {
		first, rest, err := batch.Split(b)
		if err != nil {
			return err
		}
		h, err := batch.CheckStored(first)
		if err != nil {
			return err
		}
		if h.Attributes.Codec() != batch.CodecNone {
			return fmt.Errorf("the batch at offset %d is compressed", h.BaseOffset)
		}
		it := h.Records(first[batch.HeaderSize:])
		for it.Next() {
			if err := l.c.state.Load(it.Record().Value); err != nil {
				return fmt.Errorf("record at offset %d: %w", it.Record().Offset, err)
			}
		}
		if err := it.Err(); err != nil {
			return err
		}
		b = rest
	}
	return nil
}
