package client

import (
	"context"
	"time"

	"github.com/mqd-broker/mqd/client/internal/admin"
	"github.com/mqd-broker/mqd/client/internal/link"
	"github.com/mqd-broker/mqd/net/wire"
)

// Admin manages topics and consumer groups. It is a view of its client and needs no closing.
type Admin struct {
	admin.Admin
	c *Client
}

// Admin returns the management side of the client.
func (c *Client) Admin() *Admin { return &Admin{admin.New(adminCaller{c}), c} }

// What the methods of [Admin] speak of.
type (
	TopicID          = wire.TopicID           // a topic's identity for life
	TopicSpec        = admin.TopicSpec        // a topic to create
	TopicInfo        = admin.TopicInfo        // a topic in a list
	TopicDescription = admin.TopicDescription // everything about a topic
	ConfigEntry      = admin.ConfigEntry      // a setting in force and where it comes from
	PartitionInfo    = admin.PartitionInfo    // one partition of a described topic
	GroupInfo        = admin.GroupInfo        // a consumer group in a list
	GroupDescription = admin.GroupDescription // everything about a group
	GroupTarget      = admin.GroupTarget      // where the offsets of a group go
	GroupMove        = admin.GroupMove        // of the offset of a partition
)

// Where [Admin.PlanReset] sends the offsets of a group.
var (
	ToStart  = admin.ToStart  // the first record stored
	ToEnd    = admin.ToEnd    // behind everything that can be read now
	ToOffset = admin.ToOffset // a certain offset
	ToTime   = admin.ToTime   // the first record at or after a time
	ToMove   = admin.ToMove   // so many records on, or back
)

// OffsetAt is an offset that [Admin.ListOffsets] found.
type OffsetAt struct {
	Offset int64
	// Time of the record there; zero where none was looked up.
	Time time.Time
}

// adminCaller is a client as the methods of an [Admin] see it.
type adminCaller struct{ c *Client }

func (a adminCaller) Call(ctx context.Context, op wire.Op, topic string, change bool, build func([]byte, uint32) []byte) ([]byte, error) {
	kind := callRead
	if change {
		kind = callChange
	}
	return do(ctx, a.c.control, kind, topic, op, build)
}

func (a adminCaller) Fail(op wire.Op, topic string, partition int32, code wire.Code, cause error) error {
	if code == wire.CodeNone {
		return opError(op.String(), topic, partition, cause)
	}
	e := codeError(op.String(), topic, partition, code, "")
	switch e.Err = cause; op {
	case wire.OpMetadata, wire.OpListOffsets, wire.OpLag, wire.OpTopicDescribe, wire.OpGroupList, wire.OpGroupDescribe, wire.OpGroupOffsets:
		e.OutcomeUnknown = false // they change nothing
	}
	return e
}

func (a adminCaller) Unsupported(err error) bool { return unsupported(err) }

func (a adminCaller) Invalid(text string) error { return invalid("%s", text) }

// TrimTopic deletes the records of a partition that are before a place: an offset up to
// the durable end, [End], or the first record at or after a time. It returns the first
// offset that is left, when that is durable. A log that begins behind the place stays as
// it is. Whole files go; what is deleted in the file that is left cannot be read any more.
func (a *Admin) TrimTopic(ctx context.Context, name string, partition int, at Place) (logStart int64, err error) {
	t, err := a.c.lookup(ctx, name)
	if err != nil {
		return -1, err
	}
	if partition < 0 || partition >= len(t.shards) {
		return -1, invalid("partition %d of %d", partition, len(t.shards))
	}
	req := wire.TopicTrimRequest{Topic: t.id, Partition: int32(partition), Offset: at.offset}
	switch at.kind {
	case placeEnd:
		req.Offset = wire.TimeEnd
	case placeTime:
		qs := []offsetQuery{{topic: &t, partition: int32(partition), time: at.time()}}
		if err := a.c.listOffsets(ctx, qs); err != nil {
			return -1, err
		}
		req.Offset = qs[0].offset
	}
	// Made twice it does the same as once.
	body, err := do(ctx, a.c.linkTo(t.shards[partition]), callRead, name, wire.OpTopicTrim, func(dst []byte, corr uint32) []byte {
		return wire.AppendTopicTrimRequest(dst, corr, req)
	})
	if err != nil {
		return -1, err
	}
	resp, err := wire.DecodeTopicTrimResponse(body)
	if err != nil {
		return -1, opError("topic-trim", name, int32(partition), err)
	}
	if resp.Code != wire.CodeNone {
		return -1, a.trimRefused(ctx, name, partition, req.Offset, &resp)
	}
	return resp.LogStart, nil
}

// trimRefused is the error of a trim that was refused. The answer has not the range of an
// offset that is outside it, which is looked up.
func (a *Admin) trimRefused(ctx context.Context, name string, partition int, offset int64, resp *wire.TopicTrimResponse) error {
	e := codeError("topic-trim", name, int32(partition), resp.Code, resp.Message)
	if resp.Code == wire.CodeOffsetOutOfRange {
		e.Offset = offset
		if d, err := a.DescribeTopic(ctx, name); err == nil && partition < len(d.Partitions) {
			e.ValidLow, e.ValidHigh = d.Partitions[partition].LogStart, d.Partitions[partition].Durable
		}
	}
	return e
}

// ListOffsets returns an offset of every partition of a topic, in order of
// partition: its start, its end, or that of the first record at or after a time.
func (a *Admin) ListOffsets(ctx context.Context, name string, at Place) ([]OffsetAt, error) {
	if at.kind == placeOffset {
		return nil, invalid("an offset is not looked up")
	}
	t, err := a.c.lookup(ctx, name)
	if err != nil {
		return nil, err
	}
	want := make([]offsetQuery, len(t.shards))
	for p := range want {
		want[p] = offsetQuery{topic: &t, partition: int32(p), time: at.time()}
	}
	if err := a.c.listOffsets(ctx, want); err != nil {
		return nil, err
	}
	found := make([]OffsetAt, len(want))
	for i := range want {
		found[i].Offset = want[i].offset
		if want[i].timestamp >= 0 {
			found[i].Time = time.UnixMilli(want[i].timestamp)
		}
	}
	return found, nil
}

// offsetQuery is one look-up of [Client.listOffsets] and its answer.
type offsetQuery struct {
	topic     *topic
	partition int32
	time      int64

	offset    int64
	timestamp int64
}

func (q *offsetQuery) build(dst []byte, corr uint32) []byte {
	return wire.AppendListOffsetsRequest(dst, corr, wire.ListOffsetsRequest{
		Topic: q.topic.id, Partition: q.partition, Time: q.time,
	})
}

// listOffsets sends all look-ups before it waits for the first.
func (c *Client) listOffsets(ctx context.Context, qs []offsetQuery) error {
	calls := make([]*link.Call, len(qs))
	links := make([]*link.Link, len(qs))
	for i := range qs {
		links[i] = c.linkTo(qs[i].topic.shards[qs[i].partition])
		calls[i] = links[i].Start(wire.OpListOffsets, qs[i].build)
	}
	for i := range qs {
		if err := qs[i].finish(ctx, links[i], calls[i]); err != nil {
			return err
		}
	}
	return nil
}

func (q *offsetQuery) finish(ctx context.Context, l *link.Link, c *link.Call) error {
	body, err := finish(ctx, l, wire.OpListOffsets, c, callRead, q.topic.name)
	if err != nil && isDisconnected(err) {
		body, err = do(ctx, l, callRead, q.topic.name, wire.OpListOffsets, q.build)
	}
	if err != nil {
		return err
	}
	resp, err := wire.DecodeListOffsetsResponse(body)
	if err != nil {
		return opError("list-offsets", q.topic.name, q.partition, err)
	}
	if resp.Code != wire.CodeNone {
		return readError("list-offsets", q.topic.name, q.partition, resp.Code, "")
	}
	q.offset, q.timestamp = resp.Offset, resp.Timestamp
	return nil
}
