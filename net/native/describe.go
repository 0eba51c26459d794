package native

import (
	"cmp"
	"slices"

	"github.com/mqd-broker/mqd/broker"
	"github.com/mqd-broker/mqd/broker/group"
	"github.com/mqd-broker/mqd/broker/lag"
	"github.com/mqd-broker/mqd/net/wire"
)

const (
	// By so many bytes are parts of an answer estimated, names apart.
	memberEstimate = 96
	rowEstimate    = 32
	partitionRow   = 128
	listedEstimate = 32
	grantEstimate  = 24
)

// describing is a request to describe a group whose state is known, and whose
// partitions are looked at by the shards that own them.
type describing struct {
	peer *peer
	h    wire.Header
	a    wire.GroupDescribeResponse
	size int // reserved for the answer
	rows []lag.Row
	look lag.Look
}

// describe goes on with a request to describe a group when its state is known.
func (q *groupRequest) describe() {
	p, n := q.peer, len(q.mem)
	d := &describing{peer: p, h: q.h}
	d.a.Code, d.a.Message = q.outcome()
	if d.a.Code == wire.CodeNone {
		d.fill(&q.b.Description)
	}
	q.free()
	d.size = d.estimate()
	if !p.reserve(d.h, d.size) {
		p.done(n)
		return
	}
	p.inFlightBytes -= n
	d.rows = make([]lag.Row, len(d.a.Partitions))
	for i := range d.rows {
		g := &d.a.Partitions[i]
		d.rows[i] = lag.Row{Topic: broker.TopicID(g.Topic), Partition: g.Partition, Next: g.Next}
	}
	d.look.Begin(p.srv.b, d.rows, d)
}

// fill takes over what the group itself knows.
func (d *describing) fill(g *group.Description) {
	a := &d.a
	a.Mode, a.Generation, a.Idle = wire.GroupMode(g.Mode), g.Generation, g.Idle
	rows := map[group.Partition]*wire.GroupPartition{}
	row := func(p group.Partition) *wire.GroupPartition {
		r := rows[p]
		if r == nil {
			r = &wire.GroupPartition{Start: -1, End: -1, Lag: -1, LagTime: -1}
			r.PartitionRef, r.Next, r.Epoch, r.Time = refOf(p), -1, -1, -1
			rows[p] = r
		}
		return r
	}
	for i := range g.Members {
		m := &g.Members[i]
		a.Members = append(a.Members, wire.GroupMember{
			ID: wire.MemberID(m.ID), Instance: m.Instance, Client: m.Client,
			Session: uint32(m.Session / 1e6), Remaining: uint32(max(m.Silent, 0) / 1e6), Generation: m.Generation,
			Topics: m.Topics, Grants: grantsOf(m.List), Leaving: grantsOf(m.Leaving),
		})
		for _, list := range [...][]group.Grant{m.List, m.Leaving} {
			for _, grant := range list {
				row(grant.Partition).Owner = wire.MemberID(m.ID)
			}
		}
	}
	for _, c := range g.Table {
		a.Table = append(a.Table, wire.GroupTableRow{PartitionRef: refOf(c.Partition), Instance: c.Instance, Away: c.Away})
		row(c.Partition)
	}
	for i := range g.Offsets {
		o := &g.Offsets[i]
		r := row(o.Partition)
		r.Next, r.Epoch, r.Metadata, r.Time = o.Next, o.Epoch, o.Metadata, o.Time
	}
	for _, r := range rows {
		a.Partitions = append(a.Partitions, *r)
	}
	slices.SortFunc(a.Partitions, func(x, y wire.GroupPartition) int {
		return cmp.Or(slices.Compare(x.Topic[:], y.Topic[:]), cmp.Compare(x.Partition, y.Partition))
	})
}

func grantsOf(list []group.Grant) []wire.GroupGrant {
	out := make([]wire.GroupGrant, len(list))
	for i, g := range list {
		out[i] = wire.GroupGrant{PartitionRef: refOf(g.Partition), Since: g.Since}
	}
	return out
}

// estimate is the size of the answer in bytes.
func (d *describing) estimate() int {
	n := 0
	for i := range d.a.Members {
		m := &d.a.Members[i]
		n += memberEstimate + len(m.Instance) + len(m.Client) + (len(m.Grants)+len(m.Leaving))*grantEstimate
		for _, t := range m.Topics {
			n += 2 + len(t)
		}
	}
	for i := range d.a.Table {
		n += rowEstimate + len(d.a.Table[i].Instance)
	}
	for i := range d.a.Partitions {
		n += partitionRow + len(d.a.Partitions[i].Metadata)
	}
	return n
}

// Pause gives the loop time for something else.
func (d *describing) Pause(*lag.Look) { d.peer.srv.conns.Offload(d) }

// Run has nothing to do on a helper.
func (d *describing) Run() {}

// Finished goes on.
func (d *describing) Finished() { d.look.Go() }

// Over implements lag.Host.
func (d *describing) Over() bool { return d.peer.c.Over() }

// Looked answers.
func (d *describing) Looked(code broker.Code) {
	if code != broker.OK {
		c := codeOf(code)
		d.a = wire.GroupDescribeResponse{Code: c, Message: c.Help()}
	}
	for i := range d.a.Partitions {
		p, r := &d.a.Partitions[i], &d.rows[i]
		p.Start, p.End, p.Lag, p.LagTime = r.Start, r.End, r.Records, int64(r.Behind)
	}
	d.peer.answer(d.size, func() []byte { return wire.AppendGroupDescribeResponse(nil, d.h.Correlation, &d.a) })
}

// list answers a request for all groups.
func (q *groupRequest) list() {
	p, h, listed := q.peer, q.h, q.b.Listed
	a := wire.GroupListResponse{}
	a.Code, a.Message = q.outcome()
	n := len(q.mem)
	q.b.Listed = nil
	q.free()
	size := 0
	for i := range listed {
		size += listedEstimate + len(listed[i].Name)
	}
	if !p.reserve(h, size) {
		p.done(n)
		return
	}
	p.inFlightBytes -= n
	p.answer(size, func() []byte {
		slices.SortFunc(listed, func(x, y group.Summary) int { return cmp.Compare(x.Name, y.Name) })
		if a.Code == wire.CodeNone {
			for _, l := range listed {
				a.Groups = append(a.Groups, wire.ListedGroup{Group: l.Name, Mode: wire.GroupMode(l.Mode), Members: uint32(l.Members), Offsets: uint32(l.Offsets)})
			}
		}
		return wire.AppendGroupListResponse(nil, h.Correlation, &a)
	})
}
