package native_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/net/native"
	"github.com/mqd-broker/mqd/net/wire"
)

func (c *client) commit(r wire.GroupCommitRequest) wire.GroupCommitResponse {
	c.r.t.Helper()
	return must(wire.DecodeGroupCommitResponse(c.wait(c.do(func(corr uint32) []byte {
		return wire.AppendGroupCommitRequest(nil, corr, &r)
	})).body))
}

func (c *client) offsets(name string, refs ...wire.PartitionRef) wire.GroupOffsetsResponse {
	c.r.t.Helper()
	return must(wire.DecodeGroupOffsetsResponse(c.wait(c.do(func(corr uint32) []byte {
		return wire.AppendGroupOffsetsRequest(nil, corr, wire.GroupOffsetsRequest{Group: []byte(name), Partitions: refs})
	})).body))
}

func (c *client) join(r wire.GroupJoinRequest) wire.GroupAssignment {
	c.r.t.Helper()
	return must(wire.DecodeGroupAssignment(c.wait(c.do(func(corr uint32) []byte {
		return wire.AppendGroupJoinRequest(nil, corr, &r)
	})).body))
}

func (c *client) beat(name string, a wire.GroupAssignment, wait time.Duration) uint32 {
	return c.do(func(corr uint32) []byte {
		return wire.AppendGroupHeartbeatRequest(nil, corr, wire.GroupHeartbeatRequest{
			Group: []byte(name), Member: a.Member, Generation: a.Generation, Wait: uint32(wait.Milliseconds()),
		})
	})
}

func ref(topic wire.TopicID, partition int32) wire.PartitionRef {
	return wire.PartitionRef{Topic: topic, Partition: partition}
}

func entry(topic wire.TopicID, partition int32, next int64) wire.CommitEntry {
	return wire.CommitEntry{PartitionRef: ref(topic, partition), Next: next, Epoch: -1, Metadata: []byte("here")}
}

func TestGroupsCommitAndAreAsked(t *testing.T) {
	r := newRig(t, rigOptions{seed: 95, shards: 2})
	c := r.dial()
	topic := c.create("t", 2)
	c.mustProduce(topic, records(0, []byte("a"), []byte("b"), []byte("c")))
	if a := c.offsets("g", ref(topic, 0)); a.Code != wire.CodeUnknownGroup {
		t.Errorf("an unknown group: %+v", a)
	}
	a := c.commit(wire.GroupCommitRequest{Group: []byte("g"), Entries: []wire.CommitEntry{entry(topic, 0, 2), entry(topic, 1, 1), entry(topic, 9, 0)}})
	want := []wire.CommittedEntry{{Code: wire.CodeNone, Committed: 2}, {Code: wire.CodeOffsetBeyondEnd, Committed: -1}, {Code: wire.CodeInvalidGroup, Committed: -1}}
	if a.Code != wire.CodeNone || fmt.Sprint(a.Entries) != fmt.Sprint(want) {
		t.Fatalf("%+v, expected %+v", a, want)
	}
	for _, refs := range [][]wire.PartitionRef{{ref(topic, 0)}, nil} {
		o := c.offsets("g", refs...)
		if o.Code != wire.CodeNone || len(o.Offsets) != 1 || o.Offsets[0].Next != 2 || string(o.Offsets[0].Metadata) != "here" {
			t.Fatalf("%+v", o)
		}
	}
	if a = c.commit(wire.GroupCommitRequest{Group: []byte("g"), Entries: []wire.CommitEntry{entry(topic, 0, 1)}}); a.Entries[0].Code != wire.CodeOffsetBackwards || a.Entries[0].Committed != 2 {
		t.Fatalf("%+v", a)
	}
	if a = c.commit(wire.GroupCommitRequest{Group: []byte("g"), Reset: true, Entries: []wire.CommitEntry{entry(topic, 0, 1)}}); a.Entries[0].Code != wire.CodeNone {
		t.Fatalf("%+v", a)
	}
	if a = c.commit(wire.GroupCommitRequest{Group: []byte("a\nb"), Entries: []wire.CommitEntry{entry(topic, 0, 1)}}); a.Code != wire.CodeInvalidGroup || a.Message == "" || len(a.Entries) != 0 {
		t.Fatalf("%+v", a)
	}
	if m := c.metadata(); len(m.Topics) != 1 || m.Topics[0].Name != "t" {
		t.Errorf("all topics: %+v", m.Topics)
	}
	r.home()
}

func TestMembersHeartbeatOverTheWire(t *testing.T) {
	r := newRig(t, rigOptions{seed: 96, shards: 2})
	c, d := r.dial(), r.dial()
	c.create("t", 4)
	request := wire.GroupJoinRequest{Group: []byte("g"), Mode: wire.GroupAuto, Client: "c", Session: 10_000, Topics: []string{"t"}}
	a := c.join(request)
	if a.Code != wire.CodeNone || len(a.Grants) != 4 || a.Member.IsZero() {
		t.Fatalf("%+v", a)
	}
	held := c.beat("g", a, 5*time.Second)
	r.settle()
	if c.answered(held) {
		t.Fatal("a heartbeat was answered although nothing has changed")
	}
	b := d.join(request)
	next := must(wire.DecodeGroupAssignment(c.wait(held).body))
	if len(b.Grants) != 0 || len(next.Grants) != 2 || next.Generation <= a.Generation {
		t.Fatalf("%+v, %+v", next, b)
	}
	second := d.beat("g", b, 5*time.Second)
	third := c.beat("g", next, 5*time.Second)
	if got := must(wire.DecodeGroupAssignment(d.wait(second).body)); len(got.Grants) != 2 {
		t.Fatalf("%+v", got)
	}
	left := must(wire.DecodeGroupResult(d.wait(d.do(func(corr uint32) []byte {
		return wire.AppendGroupLeaveRequest(nil, corr, wire.GroupLeaveRequest{Group: []byte("g"), Member: b.Member})
	})).body))
	if got := must(wire.DecodeGroupAssignment(c.wait(third).body)); left.Code != wire.CodeNone || len(got.Grants) != 4 {
		t.Fatalf("%+v, %+v", left, got)
	}
	// A connection that ends while its heartbeat waits leaves nothing behind.
	c.beat("g", next, 5*time.Second)
	r.settle()
	c.close()
	r.advance(6 * time.Second)
	r.home()
}

func TestGroupsAreAdministeredOverTheWire(t *testing.T) {
	r := newRig(t, rigOptions{seed: 97, shards: 2})
	c := r.dial()
	topic := c.create("t", 4)
	result := func(frame func(corr uint32) []byte) wire.GroupResult {
		t.Helper()
		return must(wire.DecodeGroupResult(c.wait(c.do(frame)).body))
	}
	assign := func(instance string, refs ...wire.PartitionRef) wire.GroupResult {
		t.Helper()
		return result(func(corr uint32) []byte {
			return wire.AppendGroupAssignRequest(nil, corr, wire.GroupAssignRequest{Group: []byte("g"), Instance: instance, Partitions: refs})
		})
	}
	if a := assign("desk-1", ref(topic, 0), ref(topic, 1), ref(topic, 7)); a.Code != wire.CodeNone || fmt.Sprint(a.Codes) != fmt.Sprint([]wire.Code{wire.CodeNone, wire.CodeNone, wire.CodeInvalidGroup}) {
		t.Fatalf("%+v", a)
	}
	m := c.join(wire.GroupJoinRequest{Group: []byte("g"), Mode: wire.GroupManual, Instance: "desk-1", Session: 10_000, Claims: []wire.PartitionRef{ref(topic, 3)}})
	if m.Code != wire.CodeNone || len(m.Grants) != 3 {
		t.Fatalf("%+v", m)
	}
	remove := func(corr uint32) []byte {
		return wire.AppendGroupDeleteRequest(nil, corr, wire.GroupDeleteRequest{Group: []byte("g")})
	}
	if a := result(remove); a.Code != wire.CodeGroupActive || a.Message == "" {
		t.Fatalf("%+v", a)
	}
	c.commit(wire.GroupCommitRequest{Group: []byte("g"), Member: m.Member, Generation: m.Generation, Entries: []wire.CommitEntry{entry(topic, 0, 0)}})
	result(func(corr uint32) []byte {
		return wire.AppendGroupLeaveRequest(nil, corr, wire.GroupLeaveRequest{Group: []byte("g"), Member: m.Member})
	})
	forgotten := result(func(corr uint32) []byte {
		return wire.AppendGroupForgetRequest(nil, corr, wire.GroupForgetRequest{Group: []byte("g"), Partitions: []wire.PartitionRef{ref(topic, 0)}})
	})
	if o := c.offsets("g"); forgotten.Code != wire.CodeNone || len(o.Offsets) != 0 {
		t.Fatalf("%+v, %+v", forgotten, o)
	}
	if a := result(remove); a.Code != wire.CodeNone {
		t.Fatalf("%+v", a)
	}
	r.home()
}

// An answer that is too long for the loop is made by a helper.
func TestManyOffsetsAreAnswered(t *testing.T) {
	r := newRig(t, rigOptions{seed: 98})
	c := r.dial()
	topic := c.create("t", 2000)
	request := wire.GroupCommitRequest{Group: []byte("g")}
	for p := range int32(2000) {
		request.Entries = append(request.Entries, entry(topic, p, 0))
	}
	if a := c.commit(request); len(a.Entries) != 2000 || a.Entries[1999].Code != wire.CodeNone {
		t.Fatalf("%v, %d entries", a.Code, len(a.Entries))
	}
	if o := c.offsets("g"); len(o.Offsets) != 2000 || o.Offsets[1999].Partition != 1999 {
		t.Fatalf("%v, %d offsets", o.Code, len(o.Offsets))
	}
	r.home()
}

func TestACommitAllocatesNothing(t *testing.T) {
	r := newRig(t, rigOptions{seed: 99, shards: 2, journal: 4 << 20, chunks: 16 << 20})
	c := r.dial()
	topic := c.create("t", 2)
	c.mustProduce(topic, records(0, make([]byte, 10), make([]byte, 10)))
	// The two take turns, so that each changes something.
	first := wire.GroupCommitRequest{Group: []byte("g"), Reset: true, Entries: []wire.CommitEntry{entry(topic, 0, 1), entry(topic, 1, 0)}}
	second := wire.GroupCommitRequest{Group: []byte("g"), Reset: true, Entries: []wire.CommitEntry{entry(topic, 0, 2), entry(topic, 1, 0)}}
	c.commit(first)
	stream := wire.AppendGroupCommitRequest(nil, 1, &first)
	stream = wire.AppendGroupCommitRequest(stream, 2, &second)
	answer := len(wire.AppendGroupCommitResponse(nil, 1, &wire.GroupCommitResponse{Entries: make([]wire.CommittedEntry, 2)}))
	p := newPump(r, stream)
	for range 2000 {
		p.round(2 * answer)
	}
	if n := testing.AllocsPerRun(500, func() { p.round(2 * answer) }); n != 0 {
		t.Errorf("%v allocations for two commits", n)
	}
	p.stop()
}

// A long list is an answer like other long ones: a helper encodes it, within the memory
// for them, and not at all for a connection that is gone.
func TestLongListsOfMembersAreLongAnswers(t *testing.T) {
	r := newRig(t, rigOptions{seed: 193, native: native.Options{MaxSlowBytes: 64 << 10}})
	c, d := r.dial(), r.dial()
	c.create("t", 1000)
	a := c.join(wire.GroupJoinRequest{Group: []byte("g"), Mode: wire.GroupAuto, Session: 60_000, Topics: []string{"t"}})
	if a.Code != wire.CodeNone || len(a.Grants) != 1000 {
		t.Fatalf("%v, %d partitions", a.Code, len(a.Grants))
	}
	var asked []uint32
	for range 8 {
		asked = append(asked, c.beat("g", a, 0))
		d.beat("g", a, 0)
	}
	d.close()
	answered := 0
	for _, corr := range asked {
		f := c.wait(corr)
		if f.h.IsError() {
			if e := must(wire.DecodeErrorResponse(f.body)); e.Code != wire.CodeBackpressure {
				t.Fatalf("%+v", e)
			}
			continue
		}
		if got := must(wire.DecodeGroupAssignment(f.body)); got.Code != wire.CodeNone || len(got.Grants) != 1000 {
			t.Fatalf("%v, %d partitions", got.Code, len(got.Grants))
		}
		answered++
	}
	if answered == 0 {
		t.Error("nothing was answered")
	}
	r.home()
}
