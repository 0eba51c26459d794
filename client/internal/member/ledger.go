package member

import (
	"context"

	"github.com/mqd-broker/mqd/net/wire"
)

// Part is a partition from the grant to the revocation. What the application has of it
// is a list of spans in order of their offsets: a span is finished when it has been
// returned and the application has asked for more since, and the partition is finished
// up to the first span that is not.
type Part struct {
	Ref wire.PartitionRef
	// Topic is the topic's name; the host sets it when it adopts the partition.
	Topic string
	// Start is the offset that was committed before, -1 for none.
	Start int64
	// Context ends when the partition is revoked.
	Context context.Context

	m         *Member
	since     int32
	end       context.CancelFunc
	revoked   bool // nothing more is finished by being returned
	gone      bool // nothing can be committed
	finished  int64
	epoch     int32 // of the last record before finished, 0 if it is not known
	committed int64
	spans     []*Span
	out       int   // spans that were not returned
	passed    int64 // where reading is, when there are no spans
	touched   bool  // in the member's list
}

// Span is a run of records that the application has.
type Span struct {
	p        *Part
	next     int64  // behind its last record
	epoch    int32  // of its last record, 0 if it is not known
	share    uint64 // of a commit, in parts of one
	returned bool
	void     bool // returned too late, or by nobody: not finished by it
}

func newPart(m *Member, g wire.GroupGrant) *Part {
	p := &Part{Ref: g.PartitionRef, since: g.Since, m: m, Start: -1, finished: -1, committed: -1, passed: -1}
	p.Context, p.end = context.WithCancel(context.Background())
	return p
}

// one is a commit that is due, as the sum of its shares.
const one = 1 << 32

// Handed begins a span of records that the application gets, up to next, the last of which
// is of this epoch. due says after how many such records a commit is due, 0 if never.
func (p *Part) Handed(next int64, epoch int32, records, due int) *Span {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	s := &Span{p: p, next: next, epoch: epoch}
	if n := uint64(due); n > 0 {
		s.share = (min(uint64(records), n)*one + n - 1) / n
	}
	p.spans = append(p.spans, s)
	p.out++
	return s
}

// Passed says that there is nothing to read before an offset that has not been handed
// out.
func (p *Part) Passed(to int64) {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	p.passed = to
	p.touch()
}

// Seek forgets what is outstanding: it says nothing about the place that comes next.
func (p *Part) Seek() {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	for _, s := range p.spans {
		s.void = true
	}
	p.spans, p.out, p.passed = nil, 0, -1
	p.wake()
}

// Return ends a span, once.
func (s *Span) Return() {
	p := s.p
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	if s.returned || s.void {
		return
	}
	if p.revoked {
		s.void = true // perhaps dropped half way, because the context has ended
	}
	s.returned = true
	p.out--
	p.touch()
	p.wake()
}

// wake tells whoever waits for a partition that is given up. The lock is held.
func (p *Part) wake() {
	if p.revoked {
		close(p.m.returned)
		p.m.returned = make(chan struct{})
	}
}

// touch has the next Settle look at the partition. The lock is held.
func (p *Part) touch() {
	if !p.touched {
		p.touched = true
		p.m.touched = append(p.m.touched, p)
	}
}

// Settle counts what was returned as finished. It is called when the application asks
// for more.
func (m *Member) Settle() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.settle()
	if m.due >= one {
		select {
		case m.nudge <- struct{}{}:
		default:
		}
	}
}

// settle is Settle under the lock.
func (m *Member) settle() {
	for _, p := range m.touched {
		p.touched = false
		n := 0
		for n < len(p.spans) && p.spans[n].returned && !p.spans[n].void {
			p.finish(p.spans[n].next, p.spans[n].epoch)
			m.due = min(m.due+p.spans[n].share, one)
			n++
		}
		p.spans = append(p.spans[:0], p.spans[n:]...)
		if len(p.spans) == 0 && !p.revoked {
			p.finish(p.passed, p.epoch)
		}
	}
	clear(m.touched)
	m.touched = m.touched[:0]
}

// finish moves the end of what is finished on, the last record before which is of this
// epoch. The lock is held.
func (p *Part) finish(next int64, epoch int32) {
	if next > p.finished {
		p.finished, p.epoch = next, epoch
	}
}

// done takes an offset that is committed. The lock is held.
func (p *Part) done(next int64, epoch int32) {
	p.committed = max(p.committed, next)
	p.finish(next, epoch)
}

// Committed is the offset up to which the partition is committed, as far as the member
// knows; -1 for none.
func (p *Part) Committed() int64 {
	p.m.mu.Lock()
	defer p.m.mu.Unlock()
	return p.committed
}
