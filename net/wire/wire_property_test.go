package wire

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// roundTrips checks that any value of T, made legal by fix, survives encoding
// and decoding.
func roundTrips[T any](t *testing.T, enc func([]byte, uint32, T) []byte, dec func([]byte) (T, error), fix func(*rapid.T, *T)) {
	t.Helper()
	t.Run(reflect.TypeFor[T]().Name(), func(t *testing.T) {
		gen := rapid.Make[T]()
		rapid.Check(t, func(t *rapid.T) {
			want := gen.Draw(t, "message")
			if fix != nil {
				fix(t, &want)
			}
			corr := rapid.Uint32().Draw(t, "correlation")
			frame := enc(nil, corr, want)
			h, err := ParseHeader(frame, 1<<31)
			if err != nil || h.Correlation != corr || h.FrameSize() != len(frame) {
				t.Fatalf("header %+v, %v", h, err)
			}
			got, err := dec(frame[HeaderSize:])
			if err != nil {
				t.Fatalf("%+v: %v", want, err)
			}
			if !same(got, want) {
				t.Fatalf("got %+v, want %+v", got, want)
			}
		})
	})
}

func legalClass(t *rapid.T) Class {
	return Class(rapid.IntRange(0, int(ClassFlushed)).Draw(t, "class"))
}

func legalEncoding(t *rapid.T) Encoding {
	return Encoding(rapid.IntRange(0, int(EncodingPlain)).Draw(t, "encoding"))
}

func TestAnyConnectionMessageRoundTrips(t *testing.T) {
	roundTrips(t, AppendHelloRequest, DecodeHelloRequest, func(_ *rapid.T, r *HelloRequest) {
		r.WantedShard = max(r.WantedShard, AnyShard)
		r.MinProtocol, r.MaxProtocol = min(r.MinProtocol, r.MaxProtocol), max(r.MinProtocol, r.MaxProtocol)
	})
	roundTrips(t, AppendHelloResponse, DecodeHelloResponse, nil)
	roundTrips(t, AppendMetadataRequest, DecodeMetadataRequest, func(_ *rapid.T, r *MetadataRequest) {
		if r.All {
			r.Topics = nil
		}
	})
	roundTrips(t, AppendMetadataResponse, DecodeMetadataResponse, func(t *rapid.T, r *MetadataResponse) {
		for i := range r.Topics {
			r.Topics[i].Class = legalClass(t)
		}
	})
}

func TestAnyDataMessageRoundTrips(t *testing.T) {
	roundTrips(t, byPointer(AppendProduceRequest), DecodeProduceRequest, func(t *rapid.T, r *ProduceRequest) {
		r.Partition &= 1<<31 - 1
		r.MinClass, r.Encoding, r.Ack = legalClass(t), legalEncoding(t), r.Ack&1
	})
	roundTrips(t, byPointer(AppendProduceResponse), DecodeProduceResponse, func(t *rapid.T, r *ProduceResponse) {
		r.Class = legalClass(t)
		if r.Code == CodeNone {
			r.ValidLow, r.ValidHigh, r.Message = 0, 0, ""
		}
	})
	roundTrips(t, byPointer(AppendFetchRequest), DecodeFetchRequest, func(t *rapid.T, r *FetchRequest) {
		r.Partition &= 1<<31 - 1
		r.Offset &= 1<<63 - 1
		r.Encoding = legalEncoding(t)
	})
	roundTrips(t, byPointer(AppendFetchResponse), DecodeFetchResponse, func(t *rapid.T, r *FetchResponse) {
		r.Class, r.Encoding = legalClass(t), legalEncoding(t)
		if r.Code != CodeNone {
			r.Batches = nil
		}
	})
	roundTrips(t, AppendListOffsetsRequest, DecodeListOffsetsRequest, func(_ *rapid.T, r *ListOffsetsRequest) {
		r.Partition &= 1<<31 - 1
		r.Time = max(r.Time, TimeStart)
	})
	roundTrips(t, AppendListOffsetsResponse, DecodeListOffsetsResponse, nil)
}

func TestAnyTopicMessageRoundTrips(t *testing.T) {
	roundTrips(t, AppendTopicTrimRequest, DecodeTopicTrimRequest, func(_ *rapid.T, r *TopicTrimRequest) {
		r.Partition &= 1<<31 - 1
		r.Offset = max(r.Offset, TimeEnd)
	})
	roundTrips(t, AppendTopicTrimResponse, DecodeTopicTrimResponse, nil)
	roundTrips(t, AppendTopicCreateRequest, DecodeTopicCreateRequest, nil)
	roundTrips(t, AppendTopicCreateResponse, DecodeTopicCreateResponse, nil)
	roundTrips(t, AppendTopicAlterRequest, DecodeTopicAlterRequest, nil)
	roundTrips(t, AppendTopicDeleteRequest, DecodeTopicDeleteRequest, nil)
	roundTrips(t, AppendTopicDescribeRequest, DecodeTopicDescribeRequest, nil)
	roundTrips(t, byPointer(AppendTopicDescribeResponse), DecodeTopicDescribeResponse,
		func(t *rapid.T, r *TopicDescribeResponse) {
			r.Class = legalClass(t)
			for i := range r.Configs {
				r.Configs[i].Source %= SourceTopic + 1
			}
		})
}

func legalRefs(refs []PartitionRef) {
	for i := range refs {
		refs[i].Partition &= 1<<31 - 1
	}
}

func legalGrants(grants []GroupGrant) {
	for i := range grants {
		grants[i].Partition &= 1<<31 - 1
	}
}

func TestAnyGroupMessageRoundTrips(t *testing.T) {
	roundTrips(t, byPointer(AppendGroupCommitRequest), decodeCommit, func(_ *rapid.T, r *GroupCommitRequest) {
		for i := range r.Entries {
			r.Entries[i].Partition &= 1<<31 - 1
		}
	})
	roundTrips(t, byPointer(AppendGroupCommitResponse), DecodeGroupCommitResponse, nil)
	roundTrips(t, AppendGroupOffsetsRequest, DecodeGroupOffsetsRequest, func(_ *rapid.T, r *GroupOffsetsRequest) { legalRefs(r.Partitions) })
	roundTrips(t, byPointer(AppendGroupOffsetsResponse), DecodeGroupOffsetsResponse, func(_ *rapid.T, r *GroupOffsetsResponse) {
		for i := range r.Offsets {
			r.Offsets[i].Partition &= 1<<31 - 1
		}
	})
	roundTrips(t, byPointer(AppendGroupJoinRequest), DecodeGroupJoinRequest, func(_ *rapid.T, r *GroupJoinRequest) {
		r.Mode = GroupAuto + r.Mode%2
		legalRefs(r.Claims)
	})
	roundTrips(t, AppendGroupHeartbeatRequest, DecodeGroupHeartbeatRequest, nil)
	roundTrips(t, assignmentOf(OpGroupHeartbeat), DecodeGroupAssignment, func(_ *rapid.T, r *GroupAssignment) {
		for i := range r.Grants {
			r.Grants[i].Partition &= 1<<31 - 1
		}
	})
	roundTrips(t, AppendGroupLeaveRequest, DecodeGroupLeaveRequest, nil)
	roundTrips(t, AppendGroupAssignRequest, DecodeGroupAssignRequest, func(_ *rapid.T, r *GroupAssignRequest) { legalRefs(r.Partitions) })
	roundTrips(t, AppendGroupForgetRequest, DecodeGroupForgetRequest, func(_ *rapid.T, r *GroupForgetRequest) { legalRefs(r.Partitions) })
	roundTrips(t, AppendGroupDeleteRequest, DecodeGroupDeleteRequest, nil)
	roundTrips(t, groupResultOf(OpGroupAssign), DecodeGroupResult, nil)
	roundTrips(t, AppendGroupDescribeRequest, DecodeGroupDescribeRequest, nil)
	roundTrips(t, byPointer(AppendGroupDescribeResponse), DecodeGroupDescribeResponse, func(_ *rapid.T, r *GroupDescribeResponse) {
		r.Mode %= GroupManual + 1
		for i := range r.Members {
			legalGrants(r.Members[i].Grants)
			legalGrants(r.Members[i].Leaving)
		}
		for i := range r.Table {
			r.Table[i].Partition &= 1<<31 - 1
		}
		for i := range r.Partitions {
			r.Partitions[i].Partition &= 1<<31 - 1
		}
	})
	roundTrips(t, byPointer(AppendGroupListResponse), DecodeGroupListResponse, func(_ *rapid.T, r *GroupListResponse) {
		for i := range r.Groups {
			r.Groups[i].Mode %= GroupManual + 1
		}
	})
}
