package native

import (
	"cmp"
	"slices"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/broker"
	"github.com/mqd-broker/mqd/broker/group"
	"github.com/mqd-broker/mqd/net/wire"
)

const (
	// lagLookups is how many partitions of a group are looked at at a time.
	lagLookups = 8
	// lagTurn is how many are looked at before the loop goes on with something else.
	lagTurn = 64

	// By so many bytes are parts of an answer estimated, names apart.
	memberEstimate = 96
	rowEstimate    = 32
	partitionRow   = 128
	listedEstimate = 32
	grantEstimate  = 24
)

// describing is a request to describe a group whose state is known, and whose
// partitions are looked at by the shards that own them: a fetch of the first unread
// batch tells the place of the log and how old that batch is.
type describing struct {
	peer     *peer
	h        wire.Header
	a        wire.GroupDescribeResponse
	size     int // reserved for the answer
	next     int // partition to look at
	open     int // lookups under way
	busy     bool
	lookups  [lagLookups]lagLookup
	starting int       // lookups since the last turn
	failed   wire.Code // of a lookup that may succeed another time
}

// lagLookup looks at one partition.
type lagLookup struct {
	f     broker.Fetch
	of    *describing
	row   int
	inUse bool
	again bool // the log's start is looked at, what was committed lies below it
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
	for i := range d.lookups {
		l := &d.lookups[i]
		l.of, l.f.Owner = d, l
	}
	d.step()
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

// step begins as many lookups as it may, and answers when all are done.
func (d *describing) step() {
	if d.busy {
		return // a lookup has ended inside the call that began it
	}
	d.busy = true
	for d.open < lagLookups && d.starting < lagTurn && !d.over() {
		l := d.idle()
		l.inUse, l.again, l.row = true, false, d.next
		d.next++
		d.open++
		l.look(d.a.Partitions[l.row].Next)
	}
	d.busy = false
	switch {
	case d.open > 0:
	case !d.over():
		d.starting = 0
		d.peer.srv.conns.Offload(d)
	default:
		if d.failed != wire.CodeNone {
			d.a = wire.GroupDescribeResponse{Code: d.failed, Message: d.failed.Help()}
		}
		d.peer.answer(d.size, func() []byte { return wire.AppendGroupDescribeResponse(nil, d.h.Correlation, &d.a) })
	}
}

// over reports whether no more partitions are looked at.
func (d *describing) over() bool { return d.next >= len(d.a.Partitions) || d.peer.c.Over() }

// Run gives the loop time for something else.
func (d *describing) Run() {}

// Finished goes on.
func (d *describing) Finished() { d.step() }

func (d *describing) idle() *lagLookup {
	for i := range d.lookups {
		if l := &d.lookups[i]; !l.inUse {
			return l
		}
	}
	return nil
}

// look asks for the first batch from an offset on.
func (l *lagLookup) look(offset int64) {
	d := l.of
	d.starting++
	r := &d.a.Partitions[l.row]
	l.f.Topic, l.f.Partition, l.f.Offset = broker.TopicID(r.Topic), r.Partition, offset
	l.f.MaxBytes, l.f.MaxRecords = 1, 1
	d.peer.srv.b.Fetch(&l.f)
}

// Fetched notes what the log says.
func (l *lagLookup) Fetched(f *broker.Fetch) {
	d := l.of
	r := &d.a.Partitions[l.row]
	again := !l.again && f.Code == broker.OffsetOutOfRange && r.Next >= 0 && r.Next < f.LogStart && f.LogStart < f.Durable
	start := f.LogStart
	if code := codeOf(f.Code); code.Retriable() {
		d.failed = code
	}
	l.note(r, f)
	d.peer.srv.b.Release(f)
	if again && !d.peer.c.Over() {
		l.again = true
		l.look(start)
		return
	}
	l.inUse = false
	d.open--
	d.step()
}

// note fills in a partition.
func (l *lagLookup) note(r *wire.GroupPartition, f *broker.Fetch) {
	r.Start, r.End = f.LogStart, f.Durable
	if r.Next < 0 || f.LogStart < 0 {
		return
	}
	r.Lag = max(0, f.Durable-max(r.Next, f.LogStart))
	if r.LagTime = -1; r.Lag == 0 {
		r.LagTime = 0
		return
	}
	if at, ok := timeOf(f.Pieces()); ok && f.NewestAppend >= 0 {
		r.LagTime = max(0, f.NewestAppend-at)
	}
}

// timeOf is the time of the first of some batches in Unix nanoseconds, if it has one.
func timeOf(pieces [][]byte) (ns int64, ok bool) {
	var head [batch.HeaderSize]byte
	n := 0
	for _, b := range pieces {
		n += copy(head[n:], b)
	}
	h, err := batch.ParseHeader(head[:])
	if n < len(head) || err != nil {
		return 0, false
	}
	ms := h.BaseTimestamp
	if h.Attributes.TimestampType() == batch.LogAppendTime {
		ms = h.MaxTimestamp
	}
	return ms * 1e6, ms >= 0
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
