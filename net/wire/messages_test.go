package wire

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"slices"
	"strings"
)

// message is one kind of frame: how to decode a body into a value, how to
// encode such a value into a frame, and one value with every field set.
type message struct {
	name   string
	op     Op
	flags  Flags
	sample any
	encode func(dst []byte, corr uint32, v any) []byte
	decode func(body []byte) (any, error)
}

// kind adapts a typed pair of encoder and decoder.
func kind[T any](name string, op Op, flags Flags, sample T, enc func([]byte, uint32, T) []byte, dec func([]byte) (T, error)) message {
	return message{
		name: name, op: op, flags: flags, sample: sample,
		encode: func(dst []byte, corr uint32, v any) []byte { return enc(dst, corr, v.(T)) },
		decode: func(b []byte) (any, error) { return dec(b) },
	}
}

// byPointer adapts an encoder that takes its message by pointer.
func byPointer[T any](enc func([]byte, uint32, *T) []byte) func([]byte, uint32, T) []byte {
	return func(dst []byte, corr uint32, v T) []byte { return enc(dst, corr, &v) }
}

func sampleID(first byte) (id [16]byte) {
	for i := range id {
		id[i] = first + byte(i)
	}
	return id
}

// messages is every message both ways, with variants where the layout differs.
func messages() []message {
	return slices.Concat(connectionMessages(), dataMessages(), topicMessages(), groupMessages())
}

func connectionMessages() []message {
	type none = struct{}
	ping := func(f func([]byte, uint32) []byte) func([]byte, uint32, none) []byte {
		return func(dst []byte, corr uint32, _ none) []byte { return f(dst, corr) }
	}
	decodePing := func(b []byte) (none, error) { return none{}, DecodePing(b) }
	return []message{
		kind("hello_request", OpHello, 0, HelloRequest{
			MinProtocol: 1, MaxProtocol: 3, WantedShard: 2, Capabilities: 0x80000001,
			ClientID: "orders-1", Tenant: "acme", AuthMechanism: "SCRAM-SHA-256", Auth: []byte{1, 2, 3},
		}, AppendHelloRequest, DecodeHelloRequest),
		kind("hello_response", OpHello, FlagResponse, HelloResponse{
			Protocol: 1, Shard: 2, Shards: 3, MaxFrame: 2 << 20, MaxBatch: 1 << 20, IdleTimeout: 120_000,
			Capabilities: 1, NodeID: sampleID(0xa0), ServerVersion: "0.1.0",
		}, AppendHelloResponse, DecodeHelloResponse),
		kind("ping_request", OpPing, 0, none{}, ping(AppendPingRequest), decodePing),
		kind("ping_response", OpPing, FlagResponse, none{}, ping(AppendPingResponse), decodePing),
		kind("metadata_request", OpMetadata, 0, MetadataRequest{Topics: []string{"alerts", "x"}},
			AppendMetadataRequest, DecodeMetadataRequest),
		kind("metadata_request_all", OpMetadata, 0, MetadataRequest{All: true},
			AppendMetadataRequest, DecodeMetadataRequest),
		kind("metadata_response", OpMetadata, FlagResponse, MetadataResponse{Shards: 3, Topics: []TopicMetadata{
			{Name: "alerts", ID: sampleID(0x10), Class: ClassFlushed, PartitionShards: []uint16{0, 2, 1}},
			{Code: CodeUnknownTopic, Name: "x"},
		}}, AppendMetadataResponse, DecodeMetadataResponse),
		kind("error_response", OpFetch, FlagResponse|FlagError, ErrorResponse{
			Code: CodeUnsupportedVersion, MinVersion: 1, MaxVersion: 1, Message: "fetch version 9",
		}, func(dst []byte, corr uint32, r ErrorResponse) []byte {
			return AppendErrorResponse(dst, OpFetch, corr, r.Code, r.Message)
		}, DecodeErrorResponse),
	}
}

func dataMessages() []message {
	type none = struct{}
	return []message{
		kind("producer_init_request", OpProducerInit, 0, none{},
			func(dst []byte, corr uint32, _ none) []byte { return AppendProducerInitRequest(dst, corr) },
			func(b []byte) (none, error) { return none{}, DecodeProducerInitRequest(b) }),
		kind("producer_init_response", OpProducerInit, FlagResponse, ProducerInitResponse{
			Producer: 0x0102030405060708, Epoch: 0x0a0b,
		}, AppendProducerInitResponse, DecodeProducerInitResponse),
		kind("producer_init_response_error", OpProducerInit, FlagResponse, ProducerInitResponse{
			Code: CodeBackpressure, Producer: -1, Epoch: -1, Message: "disk full",
		}, AppendProducerInitResponse, DecodeProducerInitResponse),
		kind("produce_request", OpProduce, 0, ProduceRequest{
			Topic: sampleID(0x10), Partition: 7, MinClass: ClassWritten, Encoding: EncodingPlain, Ack: AckNone,
			Batch: []byte("a batch"),
		}, byPointer(AppendProduceRequest), DecodeProduceRequest),
		kind("produce_response", OpProduce, FlagResponse, ProduceResponse{
			Class: ClassFlushed, BaseOffset: 1 << 40, AppendTime: 1_700_000_000_123_456_789,
		}, byPointer(AppendProduceResponse), DecodeProduceResponse),
		kind("produce_response_error", OpProduce, FlagResponse, ProduceResponse{
			Code: CodeBatchTooLarge, BaseOffset: -1, AppendTime: -1, ValidLow: 0, ValidHigh: 1 << 20, Message: "too large",
		}, byPointer(AppendProduceResponse), DecodeProduceResponse),
		kind("fetch_request", OpFetch, 0, FetchRequest{
			Topic: sampleID(0x10), Partition: 7, Offset: 1 << 40, MaxWait: 500, MinBytes: 1, MaxBytes: 1 << 20,
			MaxRecords: 500, Encoding: EncodingPlain,
		}, byPointer(AppendFetchRequest), DecodeFetchRequest),
		kind("fetch_response", OpFetch, FlagResponse, FetchResponse{
			Class: ClassFlushed, Encoding: EncodingPlain, LogStart: 5, Durable: 90, End: 100,
			NewestAppendTime: 1_700_000_000_123_456_789, NextOffset: 12, Batches: []byte("two batches"),
		}, byPointer(AppendFetchResponse), DecodeFetchResponse),
		kind("fetch_response_error", OpFetch, FlagResponse, FetchResponse{
			Code: CodeOffsetOutOfRange, Class: ClassMemory, LogStart: 5, Durable: 90, End: 100,
			NewestAppendTime: -1, NextOffset: -1, Batches: []byte{},
		}, byPointer(AppendFetchResponse), DecodeFetchResponse),
		kind("list_offsets_request", OpListOffsets, 0, ListOffsetsRequest{
			Topic: sampleID(0x10), Partition: 7, Time: TimeStart,
		}, AppendListOffsetsRequest, DecodeListOffsetsRequest),
		kind("list_offsets_response", OpListOffsets, FlagResponse, ListOffsetsResponse{
			Offset: 42, Timestamp: 1_700_000_000_123,
		}, AppendListOffsetsResponse, DecodeListOffsetsResponse),
		kind("lag_request", OpLag, 0, LagRequest{
			Topic: sampleID(0x10), Partition: 7, Offset: 1 << 40,
		}, AppendLagRequest, DecodeLagRequest),
		kind("lag_response", OpLag, FlagResponse, LagResponse{
			Start: 5, End: 90, Lag: 48, Bytes: 1 << 33, LagTime: 250_000_000,
		}, AppendLagResponse, DecodeLagResponse),
	}
}

func topicMessages() []message {
	result := func(op Op) func([]byte, uint32, TopicResult) []byte {
		return func(dst []byte, corr uint32, r TopicResult) []byte { return AppendTopicResult(dst, op, corr, r) }
	}
	configs := []Config{{"class", "flushed"}, {"segment.bytes", "1048576"}}
	return []message{
		kind("topic_create_request", OpTopicCreate, 0, TopicCreateRequest{
			Name: "alerts", Partitions: 4, Configs: configs,
		}, AppendTopicCreateRequest, DecodeTopicCreateRequest),
		kind("topic_create_response", OpTopicCreate, FlagResponse, TopicCreateResponse{
			Code: CodeTopicExists, ID: sampleID(0x10), Message: "exists",
		}, AppendTopicCreateResponse, DecodeTopicCreateResponse),
		kind("topic_alter_request", OpTopicAlter, 0, TopicAlterRequest{Name: "alerts", Configs: configs},
			AppendTopicAlterRequest, DecodeTopicAlterRequest),
		kind("topic_alter_response", OpTopicAlter, FlagResponse,
			TopicResult{Code: CodeInvalidConfig, Message: "class: unknown value"}, result(OpTopicAlter), DecodeTopicResult),
		kind("topic_grow_request", OpTopicGrow, 0, TopicGrowRequest{Name: "alerts", Partitions: 12},
			AppendTopicGrowRequest, DecodeTopicGrowRequest),
		kind("topic_grow_response", OpTopicGrow, FlagResponse,
			TopicResult{Code: CodeInvalidPartitions, Message: "there can only be more"}, result(OpTopicGrow), DecodeTopicResult),
		kind("topic_delete_request", OpTopicDelete, 0, TopicDeleteRequest{Name: "alerts"},
			AppendTopicDeleteRequest, DecodeTopicDeleteRequest),
		kind("topic_delete_response", OpTopicDelete, FlagResponse, TopicResult{}, result(OpTopicDelete), DecodeTopicResult),
		kind("topic_trim_request", OpTopicTrim, 0, TopicTrimRequest{Topic: sampleID(0x10), Partition: 3, Offset: 1 << 40},
			AppendTopicTrimRequest, DecodeTopicTrimRequest),
		kind("topic_trim_response", OpTopicTrim, FlagResponse, TopicTrimResponse{Code: CodeOffsetOutOfRange, LogStart: -1, Message: "no"},
			AppendTopicTrimResponse, DecodeTopicTrimResponse),
		kind("topic_describe_request", OpTopicDescribe, 0, TopicDescribeRequest{Name: "alerts"},
			AppendTopicDescribeRequest, DecodeTopicDescribeRequest),
		kind("topic_describe_response", OpTopicDescribe, FlagResponse, TopicDescribeResponse{
			Message: "ok", ID: sampleID(0x10), Class: ClassWritten,
			Configs: []DescribedConfig{{"class", "written", SourceTopic}, {"segment.bytes", "1048576", SourceDefault}},
			Partitions: []PartitionDescription{
				{Shard: 1, LogStart: 2, Durable: 3, End: 4, BytesOnDisk: 5, ExposedBytes: 6, Epoch: 7},
				{Shard: 2, LogStart: 8, Durable: 9, End: 10, BytesOnDisk: 11, ExposedBytes: 12, Epoch: 13},
			},
		}, byPointer(AppendTopicDescribeResponse), DecodeTopicDescribeResponse),
	}
}

// decodeCommit adapts the decoder that uses a request again.
func decodeCommit(b []byte) (GroupCommitRequest, error) {
	var r GroupCommitRequest
	err := DecodeGroupCommitRequest(b, &r)
	return r, err
}

func assignmentOf(op Op) func([]byte, uint32, GroupAssignment) []byte {
	return func(dst []byte, corr uint32, r GroupAssignment) []byte {
		return AppendGroupAssignment(dst, op, corr, &r)
	}
}

func groupResultOf(op Op) func([]byte, uint32, GroupResult) []byte {
	return func(dst []byte, corr uint32, r GroupResult) []byte { return AppendGroupResult(dst, op, corr, &r) }
}

func groupMessages() []message {
	name := []byte("risk")
	refs := []PartitionRef{{sampleID(0x10), 7}, {sampleID(0x20), 8}}
	entries := []CommitEntry{
		{PartitionRef: refs[0], Next: 1 << 40, Epoch: 5, Metadata: []byte("meta")},
		{PartitionRef: refs[1], Next: 9, Epoch: -1, Metadata: []byte{}},
	}
	grants := []GroupGrant{{refs[0], 3}, {refs[1], 4}}
	return []message{
		kind("group_commit_request", OpGroupCommit, 0, GroupCommitRequest{
			Group: name, Member: sampleID(0x40), Generation: 4, Reset: true, Entries: entries,
		}, byPointer(AppendGroupCommitRequest), decodeCommit),
		kind("group_commit_response", OpGroupCommit, FlagResponse, GroupCommitResponse{
			Code: CodeGroupActive, Message: "no", Entries: []CommittedEntry{{CodeNone, 1 << 40}, {CodeFencedMember, -1}},
		}, byPointer(AppendGroupCommitResponse), DecodeGroupCommitResponse),
		kind("group_offsets_request", OpGroupOffsets, 0, GroupOffsetsRequest{Group: name, Partitions: refs},
			AppendGroupOffsetsRequest, DecodeGroupOffsetsRequest),
		kind("group_offsets_response", OpGroupOffsets, FlagResponse, GroupOffsetsResponse{
			Code: CodeUnknownGroup, Message: "none", Offsets: []GroupOffset{{entries[0], 1_800_000_000_000_000_000}, {entries[1], -1}},
		}, byPointer(AppendGroupOffsetsResponse), DecodeGroupOffsetsResponse),
		kind("group_join_request", OpGroupJoin, 0, GroupJoinRequest{
			Group: name, Mode: GroupManual, Instance: "risk-1", Client: "desk", Session: 10_000, Topics: []string{"a", "bc"}, Claims: refs,
		}, byPointer(AppendGroupJoinRequest), DecodeGroupJoinRequest),
		kind("group_join_response", OpGroupJoin, FlagResponse, GroupAssignment{
			Code: CodeGroupLimit, Message: "no", Member: sampleID(0x40), Generation: 4, Grants: grants,
		}, assignmentOf(OpGroupJoin), DecodeGroupAssignment),
		kind("group_heartbeat_request", OpGroupHeartbeat, 0, GroupHeartbeatRequest{
			Group: name, Member: sampleID(0x40), Generation: 4, Wait: 3000,
		}, AppendGroupHeartbeatRequest, DecodeGroupHeartbeatRequest),
		kind("group_heartbeat_response", OpGroupHeartbeat, FlagResponse, GroupAssignment{
			Code: CodeUnknownMember, Message: "no", Member: sampleID(0x40), Generation: 5, Grants: grants[:1],
		}, assignmentOf(OpGroupHeartbeat), DecodeGroupAssignment),
		kind("group_leave_request", OpGroupLeave, 0, GroupLeaveRequest{Group: name, Member: sampleID(0x40)},
			AppendGroupLeaveRequest, DecodeGroupLeaveRequest),
		kind("group_leave_response", OpGroupLeave, FlagResponse, GroupResult{Code: CodeFencedMember, Message: "no"},
			groupResultOf(OpGroupLeave), DecodeGroupResult),
		kind("group_assign_request", OpGroupAssign, 0, GroupAssignRequest{Group: name, Instance: "risk-1", Partitions: refs},
			AppendGroupAssignRequest, DecodeGroupAssignRequest),
		kind("group_assign_response", OpGroupAssign, FlagResponse, GroupResult{Codes: []Code{CodeNone, CodeGroupWrongMode}},
			groupResultOf(OpGroupAssign), DecodeGroupResult),
		kind("group_forget_request", OpGroupForget, 0, GroupForgetRequest{Group: name, Partitions: refs},
			AppendGroupForgetRequest, DecodeGroupForgetRequest),
		kind("group_forget_response", OpGroupForget, FlagResponse, GroupResult{Codes: []Code{CodeNone, CodeGroupActive}},
			groupResultOf(OpGroupForget), DecodeGroupResult),
		kind("group_delete_request", OpGroupDelete, 0, GroupDeleteRequest{Group: name},
			AppendGroupDeleteRequest, DecodeGroupDeleteRequest),
		kind("group_delete_response", OpGroupDelete, FlagResponse, GroupResult{Code: CodeUnknownGroup, Message: "no"},
			groupResultOf(OpGroupDelete), DecodeGroupResult),
		kind("group_describe_request", OpGroupDescribe, 0, GroupDescribeRequest{Group: name},
			AppendGroupDescribeRequest, DecodeGroupDescribeRequest),
		kind("group_describe_response", OpGroupDescribe, FlagResponse, GroupDescribeResponse{
			Code: CodeNone, Message: "x", Mode: GroupManual, Generation: 6, Idle: 1 << 35,
			Members: []GroupMember{{
				ID: sampleID(0x40), Instance: "risk-1", Client: "desk", Session: 10_000, Remaining: 9_000, Generation: 4,
				Topics: []string{"a", "bc"}, Grants: grants, Leaving: grants[:1],
			}},
			Table: []GroupTableRow{{refs[0], "risk-1", false}, {refs[1], "risk-2", true}},
			Partitions: []GroupPartition{
				{GroupOffset: GroupOffset{entries[0], 1_800_000_000_000_000_000}, Start: 3, End: 1<<40 + 7, Lag: 7, LagTime: 250_000_000, Owner: sampleID(0x40)},
				{GroupOffset: GroupOffset{CommitEntry{PartitionRef: refs[1], Next: -1, Epoch: -1, Metadata: []byte{}}, -1}, Start: 0, End: 5, Lag: -1, LagTime: -1},
			},
		}, byPointer(AppendGroupDescribeResponse), DecodeGroupDescribeResponse),
		kind("group_list_request", OpGroupList, 0, struct{}{},
			func(dst []byte, corr uint32, _ struct{}) []byte { return AppendGroupListRequest(dst, corr) },
			func(b []byte) (struct{}, error) { return struct{}{}, DecodeGroupListRequest(b) }),
		kind("group_list_response", OpGroupList, FlagResponse, GroupListResponse{
			Code: CodeNone, Message: "x", Groups: []ListedGroup{{"risk", GroupAuto, 2, 9}, {"desk", GroupNone, 0, 1}},
		}, byPointer(AppendGroupListResponse), DecodeGroupListResponse),
	}
}

// documentName is the heading of a message in docs/format/wire.md.
func documentName(m message) string {
	name := strings.TrimSuffix(strings.TrimSuffix(m.name, "_all"), "_error")
	return strings.ReplaceAll(name, "_", " ")
}

// frameOf builds a frame by hand, for bodies that no encoder writes.
func frameOf(op Op, version uint8, flags Flags, corr uint32, body []byte) []byte {
	f := binary.BigEndian.AppendUint32(nil, uint32(len(body)+8))
	f = append(f, byte(op), version)
	f = binary.BigEndian.AppendUint16(f, uint16(flags))
	f = binary.BigEndian.AppendUint32(f, corr)
	return append(f, body...)
}

// same compares decoded values; an empty slice and none are the same.
func same(a, b any) bool {
	return reflect.DeepEqual(a, b) || bytes.Equal(describe(a), describe(b))
}
