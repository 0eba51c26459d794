package admin

import (
	"context"
	"time"

	"github.com/mqd-broker/mqd/net/wire"
)

// GroupTarget says where the offsets of a group are to go.
type GroupTarget struct {
	kind   targetKind
	offset int64
	at     time.Time
}

type targetKind uint8

const (
	toStart targetKind = iota
	toEnd
	toOffset
	toTime
	toMove
)

// ToStart is the first record stored.
func ToStart() GroupTarget { return GroupTarget{} }

// ToEnd is behind everything that can be read now.
func ToEnd() GroupTarget { return GroupTarget{kind: toEnd} }

// ToOffset is a certain offset, 0 or greater.
func ToOffset(n int64) GroupTarget { return GroupTarget{kind: toOffset, offset: n} }

// ToTime is the first record at or after t, or the end if there is none.
func ToTime(t time.Time) GroupTarget { return GroupTarget{kind: toTime, at: t} }

// ToMove is n records on from what is committed, or back for a negative n, but within
// the log. Where nothing is committed it is counted from the start of the log.
func ToMove(n int64) GroupTarget { return GroupTarget{kind: toMove, offset: n} }

// GroupMove is the change of what a group has committed for a partition.
type GroupMove struct {
	Topic     string
	Partition int32
	// From is what is committed, -1 for nothing, To what is to be.
	From, To int64
	// Start and End are the first offset of the log and the end of what can be read.
	Start, End int64
}

// PlanReset tells where the offsets of a group would go, of partitions of a topic or of
// all if there are none, and changes nothing. Targets below the start of the log become
// the start; an offset behind its end is an error, by [ToMove] it becomes the end.
func (g Admin) PlanReset(ctx context.Context, name, topic string, to GroupTarget, partitions ...int32) ([]GroupMove, error) {
	const op = wire.OpGroupOffsets
	if err := g.checkName(name); err != nil {
		return nil, err
	}
	t, err := g.topic(ctx, topic)
	if err != nil {
		return nil, err
	}
	if len(partitions) == 0 {
		for p := range t.PartitionShards {
			partitions = append(partitions, int32(p))
		}
	}
	refs := make([]wire.PartitionRef, len(partitions))
	for i, p := range partitions {
		if p < 0 || int(p) >= len(t.PartitionShards) {
			return nil, g.caller.Fail(op, topic, p, wire.CodeUnknownPartition, nil)
		}
		refs[i] = wire.PartitionRef{Topic: t.ID, Partition: p}
	}
	r, err := call(ctx, g, op, "", false, func(dst []byte, corr uint32) []byte {
		return wire.AppendGroupOffsetsRequest(dst, corr, wire.GroupOffsetsRequest{Group: []byte(name), Partitions: refs})
	}, wire.DecodeGroupOffsetsResponse)
	switch {
	case err != nil:
		return nil, err
	case r.Code == wire.CodeUnknownGroup:
		r.Offsets = nil // it is made by the reset
	case r.Code != wire.CodeNone:
		return nil, g.refused(op, "", r.Code, r.Message)
	case len(r.Offsets) != len(refs):
		return nil, g.caller.Fail(op, topic, -1, wire.CodeNone, wire.ErrMalformed)
	}
	moves := make([]GroupMove, len(refs))
	for i, ref := range refs {
		m := &moves[i]
		*m = GroupMove{Topic: topic, Partition: ref.Partition, From: -1}
		if r.Offsets != nil {
			m.From = r.Offsets[i].Next
		}
		if err := g.aim(ctx, m, ref, to); err != nil {
			return nil, err
		}
	}
	return moves, nil
}

// aim fills in where the offset of a partition goes.
func (g Admin) aim(ctx context.Context, m *GroupMove, ref wire.PartitionRef, to GroupTarget) (err error) {
	if m.Start, err = g.place(ctx, m.Topic, ref, wire.TimeStart); err != nil {
		return err
	}
	if m.End, err = g.place(ctx, m.Topic, ref, wire.TimeEnd); err != nil {
		return err
	}
	switch to.kind {
	case toStart:
		m.To = m.Start
	case toEnd:
		m.To = m.End
	case toTime:
		m.To, err = g.place(ctx, m.Topic, ref, max(0, to.at.UnixMilli()))
	case toMove:
		m.To, err = g.moved(ctx, m, ref, to.offset)
	case toOffset:
		if m.To = max(to.offset, m.Start); m.To > m.End {
			return g.caller.Fail(wire.OpGroupCommit, m.Topic, m.Partition, wire.CodeOffsetBeyondEnd, nil)
		}
	}
	return err
}

// moved is n records on, or back, within the log. Where offsets are in recorded gaps the
// broker is asked how many records there are behind one, until it is the right one.
func (g Admin) moved(ctx context.Context, m *GroupMove, ref wire.PartitionRef, n int64) (int64, error) {
	all, err := g.left(ctx, m, ref, m.Start)
	if err != nil || all == m.End-m.Start || n == 0 {
		return m.moved(n), err
	}
	have, err := g.left(ctx, m, ref, max(m.From, m.Start))
	if err != nil {
		return 0, err
	}
	left := have - max(have-all, min(n, have))
	if left <= 0 {
		return m.End, nil
	}
	// The last offset with so many behind it is that of a record.
	low, high := m.Start, m.End
	for high-low > 1 {
		mid := low + (high-low)/2
		have, err := g.left(ctx, m, ref, mid)
		if err != nil {
			return 0, err
		}
		if have >= left {
			low = mid
		} else {
			high = mid
		}
	}
	return low, nil
}

// left is how many records there are from an offset to the end. A broker that cannot be
// asked is taken to have one for each offset.
func (g Admin) left(ctx context.Context, m *GroupMove, ref wire.PartitionRef, from int64) (int64, error) {
	const op = wire.OpLag
	r, err := call(ctx, g, op, "", false, func(dst []byte, corr uint32) []byte {
		return wire.AppendLagRequest(dst, corr, wire.LagRequest{Topic: ref.Topic, Partition: ref.Partition, Offset: from})
	}, wire.DecodeLagResponse)
	switch {
	case g.caller.Unsupported(err):
		return m.End - max(from, m.Start), nil
	case err != nil:
		return 0, err
	case r.Code != wire.CodeNone:
		return 0, g.caller.Fail(op, m.Topic, ref.Partition, r.Code, nil)
	}
	return r.Lag - (r.End - m.End), nil // what has come since has no gaps
}

// moved is n offsets on, within the log.
func (m *GroupMove) moved(n int64) int64 {
	from := m.From
	if from < 0 {
		from = m.Start
	}
	switch { // the sum may be none
	case n >= 0 && n > m.End-from:
		return max(m.End, m.Start)
	case n < 0 && n < m.Start-from:
		return m.Start
	}
	return from + n
}

// place looks an offset of a partition up.
func (g Admin) place(ctx context.Context, topic string, ref wire.PartitionRef, at int64) (int64, error) {
	const op = wire.OpListOffsets
	r, err := call(ctx, g, op, "", false, func(dst []byte, corr uint32) []byte {
		return wire.AppendListOffsetsRequest(dst, corr, wire.ListOffsetsRequest{Topic: ref.Topic, Partition: ref.Partition, Time: at})
	}, wire.DecodeListOffsetsResponse)
	if err != nil {
		return 0, err
	}
	if r.Code != wire.CodeNone {
		return 0, g.caller.Fail(op, topic, ref.Partition, r.Code, nil)
	}
	return r.Offset, nil
}

// ResetOffsets commits the targets of moves, back or forth, in partitions that nobody
// reads. The error is of the first that is refused; others may have been changed.
func (g Admin) ResetOffsets(ctx context.Context, name string, moves []GroupMove) error {
	const op = wire.OpGroupCommit
	if err := g.checkName(name); err != nil {
		return err
	}
	topics := map[string]wire.TopicID{}
	q := wire.GroupCommitRequest{Group: []byte(name), Reset: true}
	for i := range moves {
		m := &moves[i]
		id, ok := topics[m.Topic]
		if !ok {
			t, err := g.topic(ctx, m.Topic)
			if err != nil {
				return err
			}
			id = t.ID
			topics[m.Topic] = id
		}
		q.Entries = append(q.Entries, wire.CommitEntry{PartitionRef: wire.PartitionRef{Topic: id, Partition: m.Partition}, Next: m.To, Epoch: -1})
	}
	r, err := call(ctx, g, op, "", true, func(dst []byte, corr uint32) []byte {
		return wire.AppendGroupCommitRequest(dst, corr, &q)
	}, wire.DecodeGroupCommitResponse)
	if err != nil {
		return err
	}
	if err := g.refused(op, "", r.Code, r.Message); err != nil {
		return err
	}
	for i, e := range r.Entries {
		if e.Code != wire.CodeNone && e.Code != wire.CodeOffsetRaised && i < len(moves) {
			return g.caller.Fail(op, moves[i].Topic, moves[i].Partition, e.Code, nil)
		}
	}
	return nil
}
