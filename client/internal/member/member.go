// Package member is a membership of a consumer group, as the client keeps it: it
// joins, says by heartbeat which list of partitions it works by, takes partitions up
// and gives them up, and commits how far the application has come. Reading is the
// work of its [Host].
package member

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mqd-broker/mqd/net/wire"
)

// maxWait is how long the broker holds a heartbeat that brings nothing new, at most.
const maxWait = 3 * time.Second

// Config says which membership it is.
type Config struct {
	// Join is what is asked for. Its Group, Mode and Session are set.
	Join wire.GroupJoinRequest
	// CommitEvery says after how much time offsets are committed without being told, 0 for
	// never. [Part.Handed] says after how many records.
	CommitEvery time.Duration
	// Pause is how long to wait before another attempt.
	Pause func(attempt int) time.Duration
}

func (c *Config) session() time.Duration { return time.Duration(c.Join.Session) * time.Millisecond }

// share is what each step of changing the list may take, so that three of them and a
// heartbeat fit into the session.
func (c *Config) share() time.Duration { return c.session() / 4 }

// Host reads partitions and has the connection to the broker. It calls Member from
// under its own locks; Member calls it without any.
type Host interface {
	// Call makes a request, again and again on new connections until ctx ends.
	Call(ctx context.Context, op wire.Op, build func(dst []byte, corr uint32) []byte) ([]byte, error)
	// Adopt begins to read partitions at [Part.Start].
	Adopt(ctx context.Context, parts []*Part) error
	// Revoke stops reading partitions. Their contexts have been cancelled.
	Revoke(parts []*Part)
	// Report tells the application of an error that passes.
	Report(err error)
	// Failed tells it of the end of the membership.
	Failed(err error)
}

// Refused is the broker's answer to a request of a member, or to one partition of it.
type Refused struct {
	Op      wire.Op
	Code    wire.Code
	Message string
	Part    *Part // nil for the whole request
}

// Error gives the code and what the broker said.
func (r *Refused) Error() string {
	if r.Message == "" || r.Message == r.Code.Help() {
		return fmt.Sprintf("%v: %v: %s", r.Op, r.Code, r.Code.Help())
	}
	return fmt.Sprintf("%v: %v: %s", r.Op, r.Code, r.Message)
}

// ErrGone: the partition, or the membership, is not the member's any more.
var ErrGone = errors.New("mqd: not the owner any more")

// Member is one membership after the other: one that the broker has ended is followed by
// a new one, unless another process has taken the instance over.
//
// Giving up a partition has an order that keeps its records to one reader. The
// partition's context ends and nothing more of it is handed out; what the application
// has at that moment it may finish and commit, for a part of the session; then what is
// finished is committed; and only then the heartbeat says so, which is what the next
// owner waits for. A member that has not reached the broker for a whole session must
// assume that others read its partitions, and stops all of them by itself.
type Member struct {
	cfg    Config
	host   Host
	ctx    context.Context // of the loops
	cancel context.CancelFunc
	loops  sync.WaitGroup
	closed chan struct{} // the membership has been left
	once   sync.Once

	committing chan struct{} // a token: commits follow each other
	nudge      chan struct{} // enough records for a commit

	mu         sync.Mutex
	id         wire.MemberID
	generation int32 // of the list that is worked by
	parts      map[wire.PartitionRef]*Part
	touched    []*Part       // have spans that were returned since the last Settle
	returned   chan struct{} // closed when a partition that is given up has nothing outstanding
	due        uint64        // how much of a commit has been finished since the last one
	pending    []*Part       // granted, and not adopted yet
	listed     bool          // works by a list of the membership that there is now
	taken      chan struct{} // closed when it does, with nothing pending
}

// Join makes the first membership and keeps it from then on.
func Join(ctx context.Context, cfg Config, host Host) (*Member, error) {
	m := &Member{
		cfg: cfg, host: host, parts: map[wire.PartitionRef]*Part{},
		committing: make(chan struct{}, 1), nudge: make(chan struct{}, 1), closed: make(chan struct{}),
		returned: make(chan struct{}), taken: make(chan struct{}),
	}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	sent := time.Now()
	a, err := m.join(ctx)
	if err != nil {
		m.cancel()
		return nil, err
	}
	m.loops.Go(func() { m.keep(sent, &a) })
	if cfg.CommitEvery > 0 {
		m.loops.Go(m.commitLoop)
	}
	return m, nil
}

// keep is the life of the member: sent is when it joined, a what it got.
func (m *Member) keep(sent time.Time, a *wire.GroupAssignment) {
	for attempt := 0; m.ctx.Err() == nil; {
		if a != nil {
			m.apply(a)
			a = nil
		}
		m.adopt()
		at := time.Now()
		next, err := m.beat(sent.Add(m.cfg.session()))
		if err == nil {
			sent, attempt = at, 0
			a = &next
			continue
		}
		if m.ctx.Err() != nil {
			return
		}
		var r *Refused
		switch known := errors.As(err, &r); {
		case known && r.Code == wire.CodeFencedMember:
			m.abandon()
			m.host.Failed(err)
			return
		case known && r.Code == wire.CodeUnknownMember:
			m.abandon()
			if a = m.rejoin(); a == nil {
				return
			}
			sent = time.Now()
			continue
		case !time.Now().Before(sent.Add(m.cfg.session())):
			// Others may have the partitions by now.
			m.abandon()
			sent = time.Now()
		}
		if attempt == 0 {
			m.host.Report(err)
		}
		m.sleep(m.cfg.Pause(attempt))
		attempt++
	}
}

// rejoin makes a new membership after one that has ended; nil when that is over.
func (m *Member) rejoin() *wire.GroupAssignment {
	for attempt := 0; m.ctx.Err() == nil; attempt++ {
		a, err := m.join(m.ctx)
		if err == nil {
			return &a
		}
		var r *Refused
		if errors.As(err, &r) && !r.Code.Retriable() && r.Code != wire.CodeGroupLimit {
			m.host.Failed(err)
			return nil
		}
		if attempt == 0 && m.ctx.Err() == nil {
			m.host.Report(err)
		}
		m.sleep(m.cfg.Pause(attempt))
	}
	return nil
}

// join makes a membership.
func (m *Member) join(ctx context.Context) (wire.GroupAssignment, error) {
	a, err := m.assignment(ctx, wire.OpGroupJoin, func(dst []byte, corr uint32) []byte {
		return wire.AppendGroupJoinRequest(dst, corr, &m.cfg.Join)
	})
	if err == nil {
		m.mu.Lock()
		m.id, m.generation = a.Member, a.Generation
		m.mu.Unlock()
	}
	return a, err
}

// beat makes a heartbeat, up to the end of the session.
func (m *Member) beat(until time.Time) (wire.GroupAssignment, error) {
	ctx, cancel := context.WithDeadline(m.ctx, until)
	defer cancel()
	m.mu.Lock()
	r := wire.GroupHeartbeatRequest{Group: m.cfg.Join.Group, Member: m.id, Generation: m.generation}
	wait := min(maxWait, m.cfg.session()/4)
	if len(m.pending) > 0 {
		wait = min(wait, 100*time.Millisecond)
	}
	m.mu.Unlock()
	r.Wait = uint32(wait / time.Millisecond)
	return m.assignment(ctx, wire.OpGroupHeartbeat, func(dst []byte, corr uint32) []byte {
		return wire.AppendGroupHeartbeatRequest(dst, corr, r)
	})
}

// assignment makes a request that is answered with a list.
func (m *Member) assignment(ctx context.Context, op wire.Op, build func(dst []byte, corr uint32) []byte) (wire.GroupAssignment, error) {
	body, err := m.host.Call(ctx, op, build)
	if err != nil {
		return wire.GroupAssignment{}, err
	}
	a, err := wire.DecodeGroupAssignment(body)
	if err == nil && a.Code != wire.CodeNone {
		err = &Refused{Op: op, Code: a.Code, Message: a.Message}
	}
	return a, err
}

// apply goes over to another list.
func (m *Member) apply(a *wire.GroupAssignment) {
	since := make(map[wire.PartitionRef]int32, len(a.Grants))
	for _, g := range a.Grants {
		since[g.PartitionRef] = g.Since
	}
	m.mu.Lock()
	lost := m.take(func(p *Part) bool {
		s, ok := since[p.Ref]
		return !ok || s != p.since
	})
	m.mu.Unlock()
	m.giveUp(lost)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.generation, m.listed = a.Generation, true
	for _, g := range a.Grants {
		if m.parts[g.PartitionRef] == nil {
			p := newPart(m, g)
			m.parts[p.Ref] = p
			m.pending = append(m.pending, p)
		}
	}
	m.look()
}

// look tells who waits in TakenUp. The lock is held.
func (m *Member) look() {
	if m.listed && len(m.pending) == 0 {
		close(m.taken)
		m.taken = make(chan struct{})
	}
}

// TakenUp waits until the member has begun with all partitions that its group has given to
// it, as far as it knows. The error is that of ctx.
func (m *Member) TakenUp(ctx context.Context) error {
	for {
		m.mu.Lock()
		done, taken := m.listed && len(m.pending) == 0, m.taken
		m.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-taken:
		case <-m.ctx.Done():
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// take removes the partitions that are lost and ends their contexts. The lock is held.
func (m *Member) take(lost func(*Part) bool) []*Part {
	var gone []*Part
	for ref, p := range m.parts {
		if lost(p) {
			delete(m.parts, ref)
			p.revoked = true
			gone = append(gone, p)
		}
	}
	kept := m.pending[:0]
	for _, p := range m.pending {
		if !p.revoked {
			kept = append(kept, p)
		}
	}
	m.pending = kept
	for _, p := range gone {
		p.end()
	}
	return gone
}

// giveUp stops partitions, lets the application finish what it has of them, and
// commits.
func (m *Member) giveUp(lost []*Part) {
	if len(lost) == 0 {
		return
	}
	m.host.Revoke(lost)
	ctx, cancel := context.WithTimeout(m.ctx, m.cfg.share())
	m.await(ctx, lost)
	cancel()
	if m.cfg.CommitEvery > 0 {
		ctx, cancel = context.WithTimeout(m.ctx, m.cfg.share())
		defer cancel()
		if err := m.commitParts(ctx, lost); err != nil && m.ctx.Err() == nil {
			m.background(err)
		}
	}
	m.retire(lost)
}

// await waits until nothing of partitions is with the application.
func (m *Member) await(ctx context.Context, parts []*Part) {
	for {
		m.mu.Lock()
		out := 0
		for _, p := range parts {
			out += p.out
		}
		returned := m.returned
		m.mu.Unlock()
		if out == 0 {
			return
		}
		select {
		case <-returned:
		case <-ctx.Done():
			return
		}
	}
}

// retire ends commits of partitions.
func (m *Member) retire(parts []*Part) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range parts {
		p.gone = true
	}
}

// abandon stops all partitions at once: they are, or may be, somebody else's. What the
// member works by is no list then.
func (m *Member) abandon() {
	m.mu.Lock()
	lost := m.take(func(*Part) bool { return true })
	m.generation, m.listed = 0, false
	for _, p := range lost {
		p.gone = true
	}
	m.mu.Unlock()
	if len(lost) > 0 {
		m.host.Revoke(lost)
	}
}

// adopt begins with the partitions that were granted, where they were left.
func (m *Member) adopt() {
	m.mu.Lock()
	parts := append([]*Part(nil), m.pending...)
	m.mu.Unlock()
	if len(parts) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(m.ctx, m.cfg.share())
	defer cancel()
	err := m.locate(ctx, parts)
	if err == nil {
		err = m.host.Adopt(ctx, parts)
	}
	if err != nil {
		if m.ctx.Err() == nil {
			m.host.Report(err)
		}
		return // with the next heartbeat
	}
	m.mu.Lock()
	m.pending = nil
	m.look()
	m.mu.Unlock()
}

// locate asks where partitions were left.
func (m *Member) locate(ctx context.Context, parts []*Part) error {
	r := wire.GroupOffsetsRequest{Group: m.cfg.Join.Group}
	for _, p := range parts {
		r.Partitions = append(r.Partitions, p.Ref)
	}
	body, err := m.host.Call(ctx, wire.OpGroupOffsets, func(dst []byte, corr uint32) []byte {
		return wire.AppendGroupOffsetsRequest(dst, corr, r)
	})
	if err != nil {
		return err
	}
	a, err := wire.DecodeGroupOffsetsResponse(body)
	switch {
	case err != nil:
		return err
	case a.Code != wire.CodeNone:
		return &Refused{Op: wire.OpGroupOffsets, Code: a.Code, Message: a.Message}
	case len(a.Offsets) != len(parts):
		return fmt.Errorf("%w: offsets of %d partitions, expected %d", wire.ErrMalformed, len(a.Offsets), len(parts))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, p := range parts {
		p.Start = a.Offsets[i].Next
		p.committed, p.finished = p.Start, p.Start
	}
	return nil
}

// Close commits what the application has finished, leaves the group and ends. ctx bounds
// it. Whatever comes of that, the membership is over: at the latest by the end of its
// session.
func (m *Member) Close(ctx context.Context) (err error) {
	m.once.Do(func() {
		m.cancel()
		m.loops.Wait()
		m.mu.Lock()
		m.settle()
		id := m.id
		m.mu.Unlock()
		if m.cfg.CommitEvery > 0 {
			err = m.commitAll(ctx)
		}
		m.abandon()
		err = errors.Join(err, m.leave(ctx, id))
		close(m.closed)
	})
	<-m.closed
	return err
}

// leave ends a membership.
func (m *Member) leave(ctx context.Context, id wire.MemberID) error {
	body, err := m.host.Call(ctx, wire.OpGroupLeave, func(dst []byte, corr uint32) []byte {
		return wire.AppendGroupLeaveRequest(dst, corr, wire.GroupLeaveRequest{Group: m.cfg.Join.Group, Member: id})
	})
	if err != nil {
		return err
	}
	a, err := wire.DecodeGroupResult(body)
	switch {
	case err != nil:
		return err
	case a.Code == wire.CodeNone || a.Code == wire.CodeUnknownMember || a.Code == wire.CodeFencedMember:
		return nil
	}
	return &Refused{Op: wire.OpGroupLeave, Code: a.Code, Message: a.Message}
}

// sleep waits, unless the member ends.
func (m *Member) sleep(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-m.ctx.Done():
	}
}
