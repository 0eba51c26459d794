package member

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mqd-broker/mqd/net/wire"
)

// maxEntries is the largest number of partitions of one commit request, well inside a
// frame.
const maxEntries = 10_000

// commitLoop commits what is finished, from time to time.
func (m *Member) commitLoop() {
	tick := time.NewTicker(m.cfg.CommitEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-m.nudge:
		case <-m.ctx.Done():
			return
		}
		ctx, cancel := context.WithTimeout(m.ctx, m.cfg.session())
		if err := m.commitAll(ctx); err != nil && m.ctx.Err() == nil {
			m.background(err)
		}
		cancel()
	}
}

// background reports the error of a commit that nobody waits for. That a partition is
// somebody else's the heartbeat will tell.
func (m *Member) background(err error) {
	var r *Refused
	if errors.As(err, &r) && (r.Code == wire.CodeFencedMember || r.Code == wire.CodeUnknownMember) {
		return
	}
	m.host.Report(err)
}

// commitAll commits what is finished of all partitions.
func (m *Member) commitAll(ctx context.Context) error {
	m.mu.Lock()
	parts := make([]*Part, 0, len(m.parts))
	for _, p := range m.parts {
		parts = append(parts, p)
	}
	m.due = 0
	m.mu.Unlock()
	return m.commitParts(ctx, parts)
}

// commitParts commits what is finished of some partitions.
func (m *Member) commitParts(ctx context.Context, parts []*Part) error {
	if err := m.begin(ctx); err != nil {
		return err
	}
	defer m.finish()
	m.mu.Lock()
	var due []*Part
	var to []place
	for _, p := range parts {
		if !p.gone && p.finished > p.committed {
			due, to = append(due, p), append(to, place{p.finished, p.epoch})
		}
	}
	m.mu.Unlock()
	var errs []error
	for len(due) > 0 {
		n := min(len(due), maxEntries)
		errs = append(errs, m.send(ctx, due[:n], to[:n]))
		due, to = due[n:], to[n:]
	}
	return errors.Join(errs...)
}

// Commit commits an offset of a partition: all before it is done with. One up to what
// is committed already is not sent. epoch is that of the last record before it, 0 if it is
// not known. The error is [ErrGone] when the partition was given up, a [Refused], or the
// host's.
func (p *Part) Commit(ctx context.Context, next int64, epoch int32) error {
	m := p.m
	if err := m.begin(ctx); err != nil {
		return err
	}
	defer m.finish()
	m.mu.Lock()
	gone, done := p.gone, next <= p.committed
	m.mu.Unlock()
	switch {
	case done:
		return nil
	case gone:
		return ErrGone
	}
	return m.send(ctx, []*Part{p}, []place{{next, epoch}})
}

// place is where a commit goes: an offset, and the epoch of the last record before it, 0 if
// it is not known.
type place struct {
	next  int64
	epoch int32
}

// onWire is the epoch as a commit has it.
func (p place) onWire() int32 {
	if p.epoch == 0 {
		return -1
	}
	return p.epoch
}

// begin waits for the commit before to end.
func (m *Member) begin(ctx context.Context) error {
	select {
	case m.committing <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (m *Member) finish() { <-m.committing }

// send commits. What a lost connection leaves open is sent again, which is the same
// commit.
func (m *Member) send(ctx context.Context, parts []*Part, to []place) error {
	r := wire.GroupCommitRequest{Group: m.cfg.Join.Group}
	for i, p := range parts {
		r.Entries = append(r.Entries, wire.CommitEntry{PartitionRef: p.Ref, Next: to[i].next, Epoch: to[i].onWire()})
	}
	m.mu.Lock()
	r.Member, r.Generation = m.id, m.generation
	m.mu.Unlock()
	body, err := m.host.Call(ctx, wire.OpGroupCommit, func(dst []byte, corr uint32) []byte {
		return wire.AppendGroupCommitRequest(dst, corr, &r)
	})
	if err != nil {
		return err
	}
	a, err := wire.DecodeGroupCommitResponse(body)
	switch {
	case err != nil:
		return err
	case a.Code != wire.CodeNone:
		return &Refused{Op: wire.OpGroupCommit, Code: a.Code, Message: a.Message}
	case len(a.Entries) != len(parts):
		return fmt.Errorf("%w: outcome of %d partitions, expected %d", wire.ErrMalformed, len(a.Entries), len(parts))
	}
	var errs []error
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, e := range a.Entries {
		switch e.Code {
		case wire.CodeNone:
			parts[i].done(to[i].next, to[i].epoch)
		case wire.CodeOffsetRaised, wire.CodeOffsetBackwards:
			// Further than wanted: nothing is lost by that.
			parts[i].done(max(to[i].next, e.Committed), 0)
		default:
			errs = append(errs, &Refused{Op: wire.OpGroupCommit, Code: e.Code, Part: parts[i]})
		}
	}
	return errors.Join(errs...)
}
