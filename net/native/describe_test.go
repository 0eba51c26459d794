package native_test

import (
	"testing"
	"time"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/net/wire"
)

func (c *client) describeGroup(name string) wire.GroupDescribeResponse {
	c.r.t.Helper()
	return must(wire.DecodeGroupDescribeResponse(c.wait(c.do(func(corr uint32) []byte {
		return wire.AppendGroupDescribeRequest(nil, corr, wire.GroupDescribeRequest{Group: []byte(name)})
	})).body))
}

func (c *client) groups() wire.GroupListResponse {
	c.r.t.Helper()
	return must(wire.DecodeGroupListResponse(c.wait(c.do(func(corr uint32) []byte {
		return wire.AppendGroupListRequest(nil, corr)
	})).body))
}

func TestGroupsAreDescribedWithTheirLag(t *testing.T) {
	r := newRig(t, rigOptions{seed: 101, shards: 2})
	c := r.dial()
	stamped := wire.Config{Key: "message.timestamp.type", Value: "LogAppendTime"}
	topic := c.create("t", 4, stamped)
	for range 3 {
		c.mustProduce(topic, records(0, []byte("a"), []byte("b")))
		r.advance(10 * time.Second)
	}
	if a := c.describeGroup("g"); a.Code != wire.CodeUnknownGroup || a.Message == "" || len(a.Partitions) != 0 {
		t.Fatalf("%+v", a)
	}
	if a := c.groups(); a.Code != wire.CodeNone || len(a.Groups) != 0 {
		t.Fatalf("%+v", a)
	}
	m := c.join(wire.GroupJoinRequest{Group: []byte("g"), Mode: wire.GroupManual, Instance: "desk-1", Client: "desk", Session: 60_000, Claims: []wire.PartitionRef{ref(topic, 0), ref(topic, 1)}})
	check := func(next, lag int64, seconds float64) {
		t.Helper()
		if next >= 0 {
			c.commit(wire.GroupCommitRequest{Group: []byte("g"), Member: m.Member, Generation: m.Generation, Entries: []wire.CommitEntry{entry(topic, 0, next)}})
		}
		a := c.describeGroup("g")
		if a.Code != wire.CodeNone || len(a.Partitions) != 2 {
			t.Fatalf("%+v", a)
		}
		p := a.Partitions[0]
		if p.Next != next || p.Lag != lag || p.Start != 0 || p.End != 6 || p.Owner != m.Member || (next >= 0) != (p.Time > 0) {
			t.Errorf("%+v, expected %d committed, lag %d", p, next, lag)
		}
		// A millisecond is the unit of a batch's time; the flush takes its time too.
		if got := float64(p.LagTime) / 1e9; lag < 0 && p.LagTime != -1 || lag >= 0 && (got < seconds || got > seconds+1) {
			t.Errorf("committed %d: %v s behind, expected %v", next, got, seconds)
		}
		if p = a.Partitions[1]; p.Next != -1 || p.Lag != -1 || p.LagTime != -1 || p.Start != 0 || p.End != 0 {
			t.Errorf("nothing committed, nothing there: %+v", p)
		}
	}
	check(-1, -1, 0)
	check(0, 6, 20)
	check(1, 5, 20) // in the middle of a batch
	check(2, 4, 10)
	check(5, 1, 0)
	check(6, 0, 0)
	if a := c.groups(); len(a.Groups) != 1 || a.Groups[0] != (wire.ListedGroup{Group: "g", Mode: wire.GroupManual, Members: 1, Offsets: 1}) {
		t.Errorf("%+v", a)
	}
	r.home()
}

// An administrator sees what waits for an instance that is gone, and for how long.
func TestADescriptionShowsMembersAndWhatWaits(t *testing.T) {
	r := newRig(t, rigOptions{seed: 102, shards: 2})
	c := r.dial()
	topic := c.create("t", 2)
	m := c.join(wire.GroupJoinRequest{Group: []byte("g"), Mode: wire.GroupManual, Instance: "desk-1", Client: "desk", Session: 10_000, Claims: []wire.PartitionRef{ref(topic, 1)}})
	r.advance(4 * time.Second)
	a := c.describeGroup("g")
	if a.Mode != wire.GroupManual || a.Idle != 0 || len(a.Members) != 1 || len(a.Table) != 1 || a.Table[0].Away {
		t.Fatalf("%+v", a)
	}
	d := a.Members[0]
	if d.ID != m.Member || d.Instance != "desk-1" || d.Client != "desk" || d.Session != 10_000 || d.Remaining > 6_000 || d.Remaining < 4_000 || len(d.Grants) != 1 || d.Grants[0].PartitionRef != ref(topic, 1) {
		t.Errorf("%+v", d)
	}
	r.advance(10 * time.Second)
	a = c.describeGroup("g")
	if len(a.Members) != 0 || a.Idle <= 0 || len(a.Table) != 1 || !a.Table[0].Away || a.Table[0].Instance != "desk-1" || len(a.Partitions) != 1 || !a.Partitions[0].Owner.IsZero() {
		t.Errorf("%+v", a)
	}
	r.home()
}

// More partitions than are looked at in a turn, and an answer that a helper makes; a
// peer that is gone meanwhile leaves nothing behind.
func TestALargeGroupIsDescribed(t *testing.T) {
	r := newRig(t, rigOptions{seed: 103, shards: 2})
	c, gone := r.dial(), r.dial()
	topic := c.create("t", 700)
	request := wire.GroupCommitRequest{Group: []byte("g")}
	for p := range int32(700) {
		request.Entries = append(request.Entries, entry(topic, p, 0))
	}
	c.commit(request)
	gone.do(func(corr uint32) []byte {
		return wire.AppendGroupDescribeRequest(nil, corr, wire.GroupDescribeRequest{Group: []byte("g")})
	})
	r.turn()
	gone.close()
	a := c.describeGroup("g")
	if a.Code != wire.CodeNone || len(a.Partitions) != 700 {
		t.Fatalf("%v, %d partitions", a.Code, len(a.Partitions))
	}
	for i, p := range a.Partitions {
		if p.Partition != int32(i) || p.Next != 0 || p.Lag != 0 || p.LagTime != 0 || p.Start != 0 {
			t.Fatalf("%+v", p)
		}
	}
	c.commit(wire.GroupCommitRequest{Group: []byte("h"), Entries: request.Entries[:1]})
	if l := c.groups(); len(l.Groups) != 2 || l.Groups[0].Group != "g" || l.Groups[0].Offsets != 700 || l.Groups[1].Group != "h" {
		t.Errorf("%+v", l)
	}
	r.home()
}

// What producers say of the time decides nothing that the broker knows better.
func TestLagInSecondsIsByTheBrokersClock(t *testing.T) {
	const decade = 10 * 365 * 24 * time.Hour
	for name, wrong := range map[string]time.Duration{"right": 0, "ten years ahead": decade, "ten years behind": -decade} {
		for _, stamped := range []string{"CreateTime", "LogAppendTime"} {
			t.Run(name+" "+stamped, func(t *testing.T) {
				r := newRig(t, rigOptions{seed: 5, shards: 2})
				c := r.dial()
				topic := c.create("t", 1, wire.Config{Key: "index.interval.bytes", Value: "256"}, wire.Config{Key: "message.timestamp.type", Value: stamped})
				var times []int64
				for i := range 6 {
					r.advance(time.Duration(1+i%3) * time.Second)
					b := batch.NewBuilder(nil, 1<<16)
					rec := batch.Record{Timestamp: (r.w.Wall() + int64(wrong)) / 1e6, Value: make([]byte, 300)}
					if err := b.Append(&rec); err != nil {
						t.Fatal(err)
					}
					times = append(times, c.produce(topic, b.Finish(batch.CodecNone)).AppendTime)
				}
				newest := times[len(times)-1]
				for next := range times {
					c.commit(wire.GroupCommitRequest{Group: []byte("g"), Entries: []wire.CommitEntry{entry(topic, 0, int64(next))}})
					p := c.describeGroup("g").Partitions[0]
					// What lies between two entries of the index, and a millisecond, is not known.
					most, least := newest-times[next], newest-times[min(next+1, len(times)-1)]
					if wrong <= 0 || stamped == "LogAppendTime" {
						least = most - int64(time.Millisecond)
					}
					if l := c.lag(topic, 0, int64(next)); l.Code != 0 || l.Lag != p.Lag || l.LagTime != p.LagTime || l.Start != p.Start || l.End != p.End {
						t.Errorf("at %d: lag %+v, the group has %d, %d", next, l, p.Lag, p.LagTime)
					}
					if p.Lag != int64(len(times)-next) || p.LagTime > most+int64(time.Millisecond) || p.LagTime < least {
						t.Errorf("at %d: %d behind, %v, expected %v to %v", next, p.Lag, time.Duration(p.LagTime), time.Duration(least), time.Duration(most))
					}
				}
				c.commit(wire.GroupCommitRequest{Group: []byte("g"), Entries: []wire.CommitEntry{entry(topic, 0, int64(len(times)))}})
				if p := c.describeGroup("g").Partitions[0]; p.Lag != 0 || p.LagTime != 0 {
					t.Errorf("at the end: %d behind, %v", p.Lag, time.Duration(p.LagTime))
				}
				r.home()
			})
		}
	}
}
