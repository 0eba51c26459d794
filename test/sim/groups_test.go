package sim

import (
	"fmt"

	"github.com/mqd-broker/mqd/net/wire"
	"github.com/mqd-broker/mqd/test/history"
)

// groups is how many consumer groups commit.
const groups = 5

// committed is what a group has committed for a partition.
type committed struct {
	group int
	part  *part
}

// committer commits offsets for groups without members, and reads them.
type committer struct {
	r    *run
	link *link
	next int64
	req  wire.GroupCommitRequest
}

func (r *run) newCommitter() *committer {
	c := &committer{r: r}
	c.link = r.newLink(nil)
	return c
}

func groupName(n int) []byte { return fmt.Appendf(nil, "group-%d", n) }

func (c *committer) act(now int64) {
	c.link.keep(now)
	c.link.tidy()
	r := c.r
	if c.link.stage != ready || !r.loading || now < c.next {
		return
	}
	c.next = now + int64(r.rng.IntN(400_000))
	var parts []*part
	for range 1 + r.rng.IntN(4) {
		if p := r.anyPart(); p != nil {
			parts = append(parts, p)
		}
	}
	if len(parts) == 0 {
		return
	}
	if r.rng.IntN(4) == 0 {
		c.ask(r.rng.IntN(groups), parts)
	} else {
		c.commit(r.rng.IntN(groups), parts)
	}
}

// commit commits where the consumers have come to, or any place before.
func (c *committer) commit(group int, parts []*part) {
	r := c.r
	c.req = wire.GroupCommitRequest{Group: groupName(group), Entries: c.req.Entries[:0]}
	for _, p := range parts {
		next := int64(r.rng.Uint64N(uint64(p.durable) + 1))
		if r.rng.IntN(2) == 0 {
			next = p.durable
		}
		r.offsets(group, p).Asked(next)
		c.req.Entries = append(c.req.Entries, wire.CommitEntry{PartitionRef: p.ref(), Next: next, Epoch: -1, Metadata: make([]byte, r.rng.IntN(200))})
	}
	r.op(opAdmin)
	c.link.do(func(dst []byte, corr uint32) []byte { return wire.AppendGroupCommitRequest(dst, corr, &c.req) },
		func(h wire.Header, body []byte, lost bool) {
			if lost {
				return
			}
			if h.IsError() {
				r.refusal(h, body)
				return
			}
			a, err := wire.DecodeGroupCommitResponse(body)
			if err != nil {
				r.failf("group commit: %v", err)
			}
			if a.Code != wire.CodeNone {
				r.refusedGroup(a.Code, a.Message)
				return
			}
			if len(a.Entries) != len(parts) {
				r.failf("group commit: %d answers for %d entries", len(a.Entries), len(parts))
			}
			for i, e := range a.Entries {
				r.outcomeOf(group, parts[i], e)
			}
		})
}

func (r *run) outcomeOf(group int, p *part, e wire.CommittedEntry) {
	o := r.offsets(group, p)
	switch e.Code {
	case wire.CodeNone:
		o.Acked(e.Committed)
		r.cover(sawCommit)
	case wire.CodeOffsetRaised:
		r.raised(p, o, e.Committed)
		o.Acked(e.Committed)
		r.cover(sawRaised)
	case wire.CodeOffsetBackwards:
		r.raised(p, o, e.Committed)
		o.Read(o.Mark(), e.Committed)
		r.cover(sawBackwards)
	case wire.CodeInvalidGroup:
		if !p.topic.going {
			r.failf("%v: commit of group %d: %v", p, group, e.Code)
		}
	default:
		r.failf("%v: commit of group %d: %v", p, group, e.Code)
	}
	r.judgeGroup(group, p)
}

// ask reads what is committed.
func (c *committer) ask(group int, parts []*part) {
	r := c.r
	req := wire.GroupOffsetsRequest{Group: groupName(group)}
	marks := make([]int64, len(parts))
	for i, p := range parts {
		req.Partitions = append(req.Partitions, p.ref())
		marks[i] = r.offsets(group, p).Mark()
	}
	r.op(opAdmin)
	c.link.do(func(dst []byte, corr uint32) []byte { return wire.AppendGroupOffsetsRequest(dst, corr, req) },
		func(h wire.Header, body []byte, lost bool) {
			switch {
			case lost:
			case h.IsError():
				r.refusal(h, body)
			default:
				r.toldOffsets(group, parts, marks, body)
			}
		})
}

// toldOffsets judges the answer to a request for offsets that was sent at marks.
func (r *run) toldOffsets(group int, parts []*part, marks []int64, body []byte) {
	a, err := wire.DecodeGroupOffsetsResponse(body)
	if err != nil {
		r.failf("group offsets: %v", err)
	}
	switch {
	case a.Code == wire.CodeUnknownGroup:
		a.Offsets = make([]wire.GroupOffset, len(parts))
		for i := range a.Offsets {
			a.Offsets[i].Next = -1
		}
	case a.Code != wire.CodeNone:
		r.refusedGroup(a.Code, a.Message)
		return
	case len(a.Offsets) != len(parts):
		r.failf("group offsets: %d answers for %d partitions", len(a.Offsets), len(parts))
	}
	for i, p := range parts {
		if !p.topic.going {
			r.raised(p, r.offsets(group, p), a.Offsets[i].Next)
			r.offsets(group, p).Read(marks[i], a.Offsets[i].Next)
			r.judgeGroup(group, p)
		}
	}
}

// raised notes a committed offset that nobody has asked for: it can only be the start of the
// log, to which a commit below it is raised.
func (r *run) raised(p *part, o *history.Offsets, committed int64) {
	if committed <= o.Most() {
		return
	}
	if !p.topic.going {
		r.startsAt(p, 0, committed)
	}
	o.Asked(committed)
}

// refusedGroup is refused, for what only groups answer.
func (r *run) refusedGroup(code wire.Code, message string) {
	if code == wire.CodeNotReady && r.broken {
		return // the log of groups could not be read, and will be tried again
	}
	r.refused(code, message)
}

func (p *part) ref() wire.PartitionRef { return wire.PartitionRef{Topic: p.topic.id, Partition: p.n} }

// offsets is the history of a group in a partition.
func (r *run) offsets(group int, p *part) *history.Offsets {
	k := committed{group, p}
	o := r.commits[k]
	if o == nil {
		o = history.NewOffsets()
		r.commits[k] = o
	}
	return o
}

func (r *run) judgeGroup(group int, p *part) {
	for _, v := range r.offsets(group, p).Violations() {
		r.failf("%v: group %d: %v: %s", p, group, v.Kind, v.Text)
	}
}

// readGroups asks for everything that groups have committed.
func (r *run) readGroups() {
	if r.rotten || r.n == nil || len(r.commits) == 0 {
		return
	}
	for group := range groups {
		var parts []*part
		var marks []int64
		req := wire.GroupOffsetsRequest{Group: groupName(group)}
		for _, tp := range r.alive() {
			for _, p := range tp.parts {
				parts = append(parts, p)
				marks = append(marks, r.offsets(group, p).Mark())
				req.Partitions = append(req.Partitions, p.ref())
			}
		}
		if len(parts) == 0 {
			return
		}
		body, err := r.call(func(dst []byte, corr uint32) []byte { return wire.AppendGroupOffsetsRequest(dst, corr, req) })
		if err != nil {
			return // the life has ended
		}
		r.toldOffsets(group, parts, marks, body)
	}
}
