package native_test

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/broker"
	"github.com/mqd-broker/mqd/net/native"
	"github.com/mqd-broker/mqd/net/wire"
)

// frame is a request frame of any op, version, flags and body.
func frame(op, version byte, flags uint16, corr uint32, body ...byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(8+len(body)))
	b = append(b, op, version)
	b = binary.BigEndian.AppendUint16(b, flags)
	b = binary.BigEndian.AppendUint32(b, corr)
	return append(b, body...)
}

func TestAFrameThatCannotBeTakenIsAnsweredAndTheConnectionStays(t *testing.T) {
	r := newRig(t, rigOptions{seed: 80})
	c := r.dial()
	id := c.create("t", 1)
	whole := map[wire.Op][]byte{
		wire.OpPing:          wire.AppendPingRequest(nil, 0),
		wire.OpMetadata:      wire.AppendMetadataRequest(nil, 0, wire.MetadataRequest{Topics: []string{"t"}}),
		wire.OpFetch:         wire.AppendFetchRequest(nil, 0, &wire.FetchRequest{Topic: id}),
		wire.OpListOffsets:   wire.AppendListOffsetsRequest(nil, 0, wire.ListOffsetsRequest{Topic: id}),
		wire.OpTopicTrim:     wire.AppendTopicTrimRequest(nil, 0, wire.TopicTrimRequest{Topic: id}),
		wire.OpTopicCreate:   wire.AppendTopicCreateRequest(nil, 0, wire.TopicCreateRequest{Name: "u"}),
		wire.OpTopicAlter:    wire.AppendTopicAlterRequest(nil, 0, wire.TopicAlterRequest{Name: "u"}),
		wire.OpTopicGrow:     wire.AppendTopicGrowRequest(nil, 0, wire.TopicGrowRequest{Name: "u", Partitions: 2}),
		wire.OpTopicDelete:   wire.AppendTopicDeleteRequest(nil, 0, wire.TopicDeleteRequest{Name: "u"}),
		wire.OpTopicDescribe: wire.AppendTopicDescribeRequest(nil, 0, wire.TopicDescribeRequest{Name: "u"}),

		wire.OpGroupCommit:    wire.AppendGroupCommitRequest(nil, 0, &wire.GroupCommitRequest{Group: []byte("g")}),
		wire.OpGroupOffsets:   wire.AppendGroupOffsetsRequest(nil, 0, wire.GroupOffsetsRequest{Group: []byte("g")}),
		wire.OpGroupJoin:      wire.AppendGroupJoinRequest(nil, 0, &wire.GroupJoinRequest{Group: []byte("g"), Mode: wire.GroupAuto}),
		wire.OpGroupHeartbeat: wire.AppendGroupHeartbeatRequest(nil, 0, wire.GroupHeartbeatRequest{Group: []byte("g")}),
		wire.OpGroupLeave:     wire.AppendGroupLeaveRequest(nil, 0, wire.GroupLeaveRequest{Group: []byte("g")}),
		wire.OpGroupAssign:    wire.AppendGroupAssignRequest(nil, 0, wire.GroupAssignRequest{Group: []byte("g")}),
		wire.OpGroupForget:    wire.AppendGroupForgetRequest(nil, 0, wire.GroupForgetRequest{Group: []byte("g")}),
		wire.OpGroupDelete:    wire.AppendGroupDeleteRequest(nil, 0, wire.GroupDeleteRequest{Group: []byte("g")}),
		wire.OpGroupDescribe:  wire.AppendGroupDescribeRequest(nil, 0, wire.GroupDescribeRequest{Group: []byte("g")}),
		wire.OpGroupList:      wire.AppendGroupListRequest(nil, 0),
	}
	corr := uint32(1000)
	refused := func(what string, want wire.Code, b []byte) {
		t.Helper()
		corr++
		binary.BigEndian.PutUint32(b, uint32(len(b)-4))
		binary.BigEndian.PutUint32(b[8:], corr)
		c.write(b)
		if e := c.refused(corr); e.Code != want || e.Message == "" {
			t.Errorf("%s: %+v, want %v", what, e, want)
		}
	}
	for op, b := range whole {
		body := b[wire.HeaderSize:]
		refused(op.String()+" with bytes behind it", wire.CodeMalformedFrame, frame(byte(op), 1, 0, 0, append(append([]byte(nil), body...), 0)...))
		if len(body) > 0 {
			refused(op.String()+" cut short", wire.CodeMalformedFrame, frame(byte(op), 1, 0, 0, body[:len(body)-1]...))
		}
		refused(op.String()+" of version 9", wire.CodeUnsupportedVersion, frame(byte(op), 9, 0, 0, body...))
		refused(op.String()+" as a response", wire.CodeMalformedFrame, frame(byte(op), 1, 1, 0, body...))
	}
	refused("produce without its fixed part", wire.CodeMalformedFrame, frame(byte(wire.OpProduce), 1, 0, 0, id[:]...))
	refused("op 0", wire.CodeUnsupportedOp, frame(0, 1, 0, 0))
	refused("op 31", wire.CodeUnsupportedOp, frame(31, 1, 0, 0))
	refused("op 255", wire.CodeUnsupportedOp, frame(255, 1, 0, 0, 1, 2, 3))
	c.mustProduce(id, records(0, values(1, 10, 1)...))
	if n := r.count(native.Refusals); n != uint64(corr-1000) {
		t.Errorf("%d refusals counted, want %d", n, corr-1000)
	}
	r.home()
}

func TestAFrameThatLosesTheBoundariesEndsTheConnectionWithAnAnswer(t *testing.T) {
	for name, x := range map[string]struct {
		header []byte
		code   wire.Code
	}{
		"length 7":    {[]byte{0, 0, 0, 7, 2, 1, 0, 0, 0, 0, 3, 0xe7}, wire.CodeMalformedFrame},
		"length 0":    {[]byte{0, 0, 0, 0, 2, 1, 0, 0, 0, 0, 3, 0xe7}, wire.CodeMalformedFrame},
		"flag 4":      {[]byte{0, 0, 0, 8, 2, 1, 0, 4, 0, 0, 3, 0xe7}, wire.CodeMalformedFrame},
		"error flag":  {[]byte{0, 0, 0, 8, 2, 1, 0, 2, 0, 0, 3, 0xe7}, wire.CodeMalformedFrame},
		"too large":   {[]byte{0, 6, 0, 0, 4, 1, 0, 0, 0, 0, 3, 0xe7}, wire.CodeFrameTooLarge},
		"length -1":   {[]byte{255, 255, 255, 255, 4, 1, 0, 0, 0, 0, 3, 0xe7}, wire.CodeFrameTooLarge},
		"length 2^31": {[]byte{128, 0, 0, 0, 4, 1, 0, 0, 0, 0, 3, 0xe7}, wire.CodeFrameTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, rigOptions{seed: 81})
			c := r.dial()
			id := c.create("t", 1)
			s := r.shards[0]
			s.tap.hold = true
			p := c.beginProduce(wire.ProduceRequest{Topic: id, Batch: records(0, values(1, 10, 1)...)})
			c.write(x.header)
			c.write(make([]byte, 100_000)) // is thrown away, so that the answer arrives
			if e := c.refused(999); e.Code != x.code {
				t.Errorf("%+v, want %v", e, x.code)
			}
			r.settle()
			s.tap.let()
			if a := must(wire.DecodeProduceResponse(c.wait(p).body)); a.Code != wire.CodeNone {
				t.Errorf("the batch before: %+v", a)
			}
			r.advance(3 * time.Second)
			if !c.ended() {
				t.Error("the connection stays")
			}
			r.home()
		})
	}
}

func TestEveryCodeOfTheBrokerHasOneOfTheProtocol(t *testing.T) {
	seen := map[wire.Code]broker.Code{}
	for _, c := range broker.Codes() {
		w := native.CodeOf(c)
		if other, twice := seen[w]; twice {
			t.Errorf("%v and %v are both %v", c, other, w)
		}
		seen[w] = c
		if w.Retriable() != c.Retriable() || w.OutcomeUnknown() != c.OutcomeUnknown() {
			t.Errorf("%v: retriable %v, outcome unknown %v; %v: %v, %v", c, c.Retriable(), c.OutcomeUnknown(), w, w.Retriable(), w.OutcomeUnknown())
		}
	}
	if w := native.CodeOf(broker.Code(999)); w != wire.CodeInternal {
		t.Errorf("a code of nobody: %v", w)
	}
}

// FuzzFramesAreAnsweredOrRefused sends arbitrary bytes after a hello: nothing
// panics, everything comes home, and who plays by the rules is served.
func FuzzFramesAreAnsweredOrRefused(f *testing.F) {
	id := make([]byte, 16)
	produce := append(id, 0, 0, 0, 0, 0, 0, 0, 0)
	f.Add(uint64(1), frame(2, 1, 0, 7))
	f.Add(uint64(2), frame(4, 1, 0, 7, append(produce, records(0, []byte("x"))...)...))
	f.Add(uint64(3), frame(5, 1, 0, 7, make([]byte, wire.FetchRequestSize)...))
	f.Add(uint64(4), frame(6, 1, 0, 7, make([]byte, 28)...))
	f.Add(uint64(5), append(frame(3, 1, 0, 7, 255, 255), frame(16, 1, 0, 8, 0, 1, 'a', 0, 0, 0, 1, 0, 0)...))
	f.Add(uint64(6), append(frame(19, 1, 0, 7, 0, 1, 't'), frame(18, 1, 0, 9, 0, 1, 't')...))
	f.Add(uint64(7), []byte{0, 0, 0, 9, 4, 1, 0})
	f.Add(uint64(8), wire.AppendGroupCommitRequest(nil, 7, &wire.GroupCommitRequest{Group: []byte("g"), Entries: []wire.CommitEntry{{Next: 0}}}))
	f.Add(uint64(9), append(wire.AppendGroupJoinRequest(nil, 7, &wire.GroupJoinRequest{Group: []byte("g"), Mode: wire.GroupAuto, Session: 1000, Topics: []string{"t"}}),
		wire.AppendGroupHeartbeatRequest(nil, 8, wire.GroupHeartbeatRequest{Group: []byte("g"), Wait: 1})...))
	f.Fuzz(func(t *testing.T, seed uint64, stream []byte) {
		r := newRig(t, rigOptions{seed: seed, chunks: 4 << 20})
		good := r.dial()
		topic := good.create("t", 1)
		c := r.dial()
		c.lenient = true
		// A topic id of zeros stands for the topic that there is.
		for at := 0; at+wire.HeaderSize+16 <= len(stream); {
			if b := stream[at+wire.HeaderSize:][:16]; [16]byte(b) == [16]byte{} {
				copy(b, topic[:])
			}
			at += 4 + int(binary.BigEndian.Uint32(stream[at:])&0xffff)
		}
		c.write(stream)
		r.settle()
		good.wait(good.do(func(corr uint32) []byte { return wire.AppendPingRequest(nil, corr) }))
		r.home()
	})
}
