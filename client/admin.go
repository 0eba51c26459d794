package client

import (
	"context"
	"time"

	"github.com/mqd-broker/mqd/client/internal/link"
	"github.com/mqd-broker/mqd/client/internal/settings"
	"github.com/mqd-broker/mqd/net/wire"
)

// Admin manages topics. It is a view of its client and needs no closing.
type Admin struct{ c *Client }

// Admin returns the management side of the client.
func (c *Client) Admin() *Admin { return &Admin{c: c} }

// configClass is the setting that has a field of its own in [TopicSpec].
const configClass = "durability"

// TopicID is a topic's identity for life.
type TopicID = wire.TopicID

// TopicSpec is a topic to create.
type TopicSpec struct {
	// Name has 1 to 249 of the characters a-z A-Z 0-9 . _ -.
	Name string
	// Partitions is 1 or greater; 0 takes the broker's default.
	Partitions int
	// Class is the durability class; 0 takes the broker's default, flushed.
	Class Class
	// Configs are further settings, such as segment.bytes.
	Configs map[string]string
}

// TopicInfo is a topic in a list.
type TopicInfo struct {
	Name       string
	ID         TopicID
	Class      Class
	Partitions int
}

// TopicDescription is everything about a topic.
type TopicDescription struct {
	TopicInfo
	Configs    []ConfigEntry
	Partitions []PartitionInfo
}

// ConfigEntry is a setting in force and where it comes from.
type ConfigEntry = wire.DescribedConfig

// PartitionInfo is one partition of a described topic: its shard, offsets, bytes
// on disk, and the acknowledged bytes that a power cut could still take.
type PartitionInfo = wire.PartitionDescription

// OffsetAt is an offset that [Admin.ListOffsets] found.
type OffsetAt struct {
	Offset int64
	// Time of the record there; zero where none was looked up.
	Time time.Time
}

// CreateTopic creates a topic and returns when that is durable.
func (a *Admin) CreateTopic(ctx context.Context, spec TopicSpec) (TopicID, error) {
	if err := checkTopic(spec.Name); err != nil {
		return TopicID{}, err
	}
	if spec.Partitions < 0 || spec.Partitions > 1<<31-1 {
		return TopicID{}, invalid("%d partitions", spec.Partitions)
	}
	req := wire.TopicCreateRequest{Name: spec.Name, Partitions: uint32(spec.Partitions)}
	var err error
	if req.Configs, err = settings.List(spec.Configs); err != nil {
		return TopicID{}, invalid("%v", err)
	}
	if spec.Class != 0 {
		if _, twice := spec.Configs[configClass]; twice {
			return TopicID{}, invalid("%s is given twice", configClass)
		}
		req.Configs = append(req.Configs, wire.Config{Key: configClass, Value: spec.Class.String()})
	}
	body, err := do(ctx, a.c.control, callChange, spec.Name, wire.OpTopicCreate, func(dst []byte, corr uint32) []byte {
		return wire.AppendTopicCreateRequest(dst, corr, req)
	})
	if err != nil {
		return TopicID{}, err
	}
	resp, err := wire.DecodeTopicCreateResponse(body)
	if err != nil {
		return TopicID{}, opError("topic-create", spec.Name, -1, err)
	}
	if resp.Code != wire.CodeNone {
		return TopicID{}, codeError("topic-create", spec.Name, -1, resp.Code, resp.Message)
	}
	return resp.ID, nil
}

// AlterTopic changes settings of a topic. Settings that are not named stay; an
// empty value goes back to the broker's default. A stronger class (the setting
// durability) is in force when the call returns.
func (a *Admin) AlterTopic(ctx context.Context, name string, configs map[string]string) error {
	list, err := settings.List(configs)
	if err != nil {
		return invalid("%v", err)
	}
	return a.change(ctx, wire.OpTopicAlter, name, func(dst []byte, corr uint32) []byte {
		return wire.AppendTopicAlterRequest(dst, corr, wire.TopicAlterRequest{Name: name, Configs: list})
	})
}

// DeleteTopic deletes a topic and its records.
func (a *Admin) DeleteTopic(ctx context.Context, name string) error {
	return a.change(ctx, wire.OpTopicDelete, name, func(dst []byte, corr uint32) []byte {
		return wire.AppendTopicDeleteRequest(dst, corr, wire.TopicDeleteRequest{Name: name})
	})
}

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
		return -1, codeError("topic-trim", name, int32(partition), resp.Code, resp.Message)
	}
	return resp.LogStart, nil
}

// change makes a call that answers with a code and a message.
func (a *Admin) change(ctx context.Context, op wire.Op, name string, build func([]byte, uint32) []byte) error {
	if err := checkTopic(name); err != nil {
		return err
	}
	body, err := do(ctx, a.c.control, callChange, name, op, build)
	if err != nil {
		return err
	}
	resp, err := wire.DecodeTopicResult(body)
	if err != nil {
		return opError(op.String(), name, -1, err)
	}
	if resp.Code != wire.CodeNone {
		return codeError(op.String(), name, -1, resp.Code, resp.Message)
	}
	return nil
}

// ListTopics returns all topics in order of name.
func (a *Admin) ListTopics(ctx context.Context) ([]TopicInfo, error) {
	found, err := a.c.metadata(ctx, wire.MetadataRequest{All: true})
	if err != nil {
		return nil, err
	}
	infos := make([]TopicInfo, 0, len(found))
	for i := range found {
		t := &found[i]
		if t.Code != wire.CodeNone {
			return nil, readError("metadata", t.Name, -1, t.Code, "")
		}
		infos = append(infos, TopicInfo{Name: t.Name, ID: t.ID, Class: t.Class, Partitions: len(t.PartitionShards)})
	}
	return infos, nil
}

// DescribeTopic returns everything about a topic.
func (a *Admin) DescribeTopic(ctx context.Context, name string) (TopicDescription, error) {
	if err := checkTopic(name); err != nil {
		return TopicDescription{}, err
	}
	body, err := do(ctx, a.c.control, callRead, name, wire.OpTopicDescribe, func(dst []byte, corr uint32) []byte {
		return wire.AppendTopicDescribeRequest(dst, corr, wire.TopicDescribeRequest{Name: name})
	})
	if err != nil {
		return TopicDescription{}, err
	}
	resp, err := wire.DecodeTopicDescribeResponse(body)
	if err != nil {
		return TopicDescription{}, opError("topic-describe", name, -1, err)
	}
	if resp.Code != wire.CodeNone {
		return TopicDescription{}, readError("topic-describe", name, -1, resp.Code, resp.Message)
	}
	return TopicDescription{
		TopicInfo:  TopicInfo{Name: name, ID: resp.ID, Class: resp.Class, Partitions: len(resp.Partitions)},
		Configs:    resp.Configs,
		Partitions: resp.Partitions,
	}, nil
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
