package integration

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/net/wire"
	"github.com/mqd-broker/mqd/test/rig"
)

// place is what a group has been told about its commits.
type place struct {
	acked, sent int64 // sent is the one that has no answer, or acked
}

// commitUntilDead commits for some groups over one connection until it breaks, and counts
// what is acknowledged.
func commitUntilDead(c *rig.Conn, topic wire.TopicID, names []string, places []place, end int64, acks *atomic.Int64) error {
	for i := 0; ; i = (i + 1) % len(names) {
		p := &places[i]
		if p.sent = p.acked + 1; p.sent > end {
			p.sent = p.acked
			return nil
		}
		_, body, err := c.Call(wire.AppendGroupCommitRequest(nil, c.Next(), &wire.GroupCommitRequest{
			Group:   []byte(names[i]),
			Entries: []wire.CommitEntry{{PartitionRef: wire.PartitionRef{Topic: topic}, Next: p.sent, Epoch: -1}},
		}))
		if err != nil {
			return nil // the broker was killed
		}
		a, err := wire.DecodeGroupCommitResponse(body)
		if err != nil || a.Code != wire.CodeNone || len(a.Entries) != 1 || a.Entries[0].Code != wire.CodeNone || a.Entries[0].Committed != p.sent {
			return fmt.Errorf("%s to %d: %+v, %v", names[i], p.sent, a, err)
		}
		p.acked = p.sent
		acks.Add(1)
	}
}

// mustHavePlace asks for what a group has committed: what it has been told, or has not
// been answered.
func mustHavePlace(t *testing.T, c *rig.Conn, topic wire.TopicID, name string, p place) (got int64) {
	t.Helper()
	_, body, err := c.Call(wire.AppendGroupOffsetsRequest(nil, c.Next(), wire.GroupOffsetsRequest{
		Group: []byte(name), Partitions: []wire.PartitionRef{{Topic: topic}},
	}))
	if err != nil {
		t.Fatal(err)
	}
	a, err := wire.DecodeGroupOffsetsResponse(body)
	if err != nil {
		t.Fatal(err)
	}
	if a.Code == wire.CodeNone && len(a.Offsets) == 1 && a.Offsets[0].Next >= 0 {
		got = a.Offsets[0].Next
	}
	if got != p.acked && got != p.sent {
		t.Errorf("%s: %d after the start, acknowledged was %d, on the way %d", name, got, p.acked, p.sent)
	}
	return got
}

// A broker is killed again and again under groups that commit all the time. A start
// returns the last commit that was acknowledged of each, or the one that was on its way,
// and nothing else.
func TestCommitsOfManyGroupsSurviveKills(t *testing.T) {
	rig.NeedDriver(t)
	const conns, each, end = 4, 50, 100_000
	m := &mortal{t: t, dir: rig.DataDir(t)}
	m.start()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	open := func() *rig.Conn {
		c, err := rig.Open(ctx, *m.addr.Load())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() }) // the broker may have ended it
		return c
	}
	c := open()
	topic, err := c.CreateTopic("t", 1)
	if err != nil {
		t.Fatal(err)
	}
	values := make([]string, 1000)
	for range end / len(values) {
		if a, err := c.Produce(wire.ProduceRequest{Topic: topic, Batch: batchOf(values...)}); err != nil || a.Code != wire.CodeNone {
			t.Fatal(a.Code, err)
		}
	}
	names, places := make([][]string, conns), make([][]place, conns)
	for i := range conns {
		for k := range each {
			names[i] = append(names[i], fmt.Sprintf("group-%d-%d", i, k))
		}
		places[i] = make([]place, each)
	}
	for round := range 3 {
		var all sync.WaitGroup
		errs := make([]error, conns)
		var acks atomic.Int64
		for i := range conns {
			c := open()
			all.Go(func() { errs[i] = commitUntilDead(c, topic, names[i], places[i], end, &acks) })
		}
		for acks.Load() < 3*conns*each && ctx.Err() == nil {
			pause(ctx)
		}
		if err := m.p.Kill(); err != nil {
			t.Fatal(err)
		}
		all.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		m.start()
		c := open()
		for i := range conns {
			for k := range each {
				p := &places[i][k]
				got := mustHavePlace(t, c, topic, names[i][k], *p)
				p.acked, p.sent = got, got
			}
		}
		if t.Failed() {
			t.Fatalf("after %d kills", round+1)
		}
	}
}

// dialGroups is a client and a topic with messages.
func dialGroups(t *testing.T, b *broker, partitions, messages int) (context.Context, *client.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	t.Cleanup(cancel)
	c, err := client.Dial(ctx, []string{b.addr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	if _, err := c.Admin().CreateTopic(ctx, client.TopicSpec{Name: "t", Partitions: partitions}); err != nil {
		t.Fatal(err)
	}
	p, err := c.Producer("t")
	if err != nil {
		t.Fatal(err)
	}
	for i := range messages {
		if _, err := p.Append(ctx, client.Record{Key: []byte{0}, Value: fmt.Append(nil, i)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	return ctx, c
}

// consume reads until n records have come, commits them, and returns where it began.
func consume(ctx context.Context, t *testing.T, c *client.Client, n int, opts ...client.ConsumerOption) (first int64) {
	t.Helper()
	co, err := c.Consumer(append([]client.ConsumerOption{client.Group("g"), client.Topics("t"), client.WithAutoCommit(0, 0)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	first = -1
	for got := 0; got < n; {
		b, err := co.Poll(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if first < 0 {
			first = b.First
		}
		for range b.Records() {
			got++
		}
		if err := b.Commit(ctx); err != nil {
			t.Fatal(err)
		}
		b.Release()
	}
	if err := co.Close(ctx); err != nil {
		t.Fatal(err)
	}
	return first
}

// Case C2: a group that was deleted begins anew, where its consumer says; a new member of
// one that was not goes on.
func TestC2AGroupGoesOnUnlessItWasDeleted(t *testing.T) {
	b := start(t)
	ctx, c := dialGroups(t, b, 1, 100)
	if first := consume(ctx, t, c, 100, client.From(client.Start())); first != 0 {
		t.Fatalf("began at %d", first)
	}
	more := func(n int) {
		t.Helper()
		p, err := c.Producer("t")
		if err != nil {
			t.Fatal(err)
		}
		for range n {
			if _, err := p.Send(ctx, client.Record{Value: []byte("more")}); err != nil {
				t.Fatal(err)
			}
		}
	}
	more(1)
	if first := consume(ctx, t, c, 1, client.From(client.Start())); first != 100 {
		t.Errorf("a second member began at %d, expected 100", first)
	}
	if err := c.Admin().DeleteGroup(ctx, "g"); err != nil {
		t.Fatal(err)
	}
	if first := consume(ctx, t, c, 101, client.From(client.Start())); first != 0 {
		t.Errorf("the group made again began at %d, expected 0", first)
	}
	offsets, err := c.Admin().GroupOffsets(ctx, "g")
	if err != nil || len(offsets) != 1 || offsets[0].Next != 101 || offsets[0].Topic != "t" {
		t.Errorf("%+v, %v", offsets, err)
	}
}

// Case C3: what a group has committed is forgotten some time after its last member has
// left, and not while one is there and silent.
func TestC3OffsetsExpireOnlyWithoutMembers(t *testing.T) {
	b := start(t, "--groups-retention", "1s")
	ctx, c := dialGroups(t, b, 1, 10)
	co, err := c.Consumer(client.Group("g"), client.Topics("t"), client.From(client.Start()))
	if err != nil {
		t.Fatal(err)
	}
	in, err := co.Poll(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := in.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	next := in.Last + 1
	in.Release()
	time.Sleep(3 * time.Second) // longer than the retention
	d, err := c.Admin().DescribeGroup(ctx, "g")
	if err != nil || len(d.Members) != 1 || len(d.Partitions) != 1 || d.Partitions[0].Committed != next {
		t.Fatalf("with a member: %+v, %v", d, err)
	}
	if err := co.Close(ctx); err != nil {
		t.Fatal(err)
	}
	b.wait("the group to expire", func() bool {
		_, err := c.Admin().DescribeGroup(ctx, "g")
		var e *client.Error
		return errors.As(err, &e) && e.Code == wire.CodeUnknownGroup
	})
}

// Case C10: when retention has removed everything there is nothing to catch up with.
func TestC10LagIsZeroWhenRetentionHasRemovedEverything(t *testing.T) {
	b := start(t)
	ctx, c := dialGroups(t, b, 1, 10)
	a := c.Admin()
	moves, err := a.PlanReset(ctx, "g", "t", client.ToMove(3))
	if err != nil || len(moves) != 1 || moves[0].From != -1 || moves[0].To != 3 || moves[0].End != 10 {
		t.Fatalf("%+v, %v", moves, err)
	}
	if err := a.ResetOffsets(ctx, "g", moves); err != nil {
		t.Fatal(err)
	}
	lag := func() (start, end, lag int64, behind time.Duration) {
		d, err := a.DescribeGroup(ctx, "g")
		if err != nil || len(d.Partitions) != 1 || d.Partitions[0].Committed != 3 {
			t.Fatalf("%+v, %v", d, err)
		}
		p := &d.Partitions[0]
		return p.Start, p.End, p.Lag, p.LagTime
	}
	if start, end, n, behind := lag(); start != 0 || end != 10 || n != 7 || behind < 0 {
		t.Errorf("%d to %d, %d behind, %v", start, end, n, behind)
	}
	if err := a.AlterTopic(ctx, "t", map[string]string{"retention.ms": "1000", "segment.ms": "1000"}); err != nil {
		t.Fatal(err)
	}
	b.wait("retention", func() bool {
		start, end, n, behind := lag()
		if n != end-max(3, start) {
			t.Fatalf("%d to %d, %d behind", start, end, n)
		}
		return start == end && n == 0 && behind == 0
	})
}

// mustRefuseLate commits for a member that owns nothing any more.
func mustRefuseLate(t *testing.T, c *rig.Conn, topic wire.TopicID, member wire.GroupAssignment) {
	t.Helper()
	_, body, err := c.Call(wire.AppendGroupCommitRequest(nil, c.Next(), &wire.GroupCommitRequest{
		Group: []byte("g"), Member: member.Member, Generation: member.Generation,
		Entries: []wire.CommitEntry{{PartitionRef: wire.PartitionRef{Topic: topic}, Next: 1, Epoch: -1}},
	}))
	if err != nil {
		t.Fatal(err)
	}
	if late, err := wire.DecodeGroupCommitResponse(body); err != nil || late.Code != wire.CodeUnknownMember && late.Code != wire.CodeFencedMember {
		t.Errorf("a late commit: %+v, %v", late, err)
	}
}

// The partitions of a dead instance wait until an administrator moves them, visibly, and
// what it commits late is refused.
func TestPartitionsOfADeadInstanceWaitUntilTheyAreMoved(t *testing.T) {
	b := start(t)
	ctx, c := dialGroups(t, b, 2, 10)
	a := c.Admin()
	dead, err := client.Dial(ctx, []string{b.addr})
	if err != nil {
		t.Fatal(err)
	}
	topic := b.open()
	meta, err := topic.Topic("t")
	if err != nil {
		t.Fatal(err)
	}
	// The first instance says nothing more after it has joined.
	_, body, err := topic.Call(wire.AppendGroupJoinRequest(nil, topic.Next(), &wire.GroupJoinRequest{
		Group: []byte("g"), Mode: wire.GroupManual, Instance: "desk-1", Session: 1000,
		Claims: []wire.PartitionRef{{Topic: meta.ID}, {Topic: meta.ID, Partition: 1}},
	}))
	if err != nil {
		t.Fatal(err)
	}
	first, err := wire.DecodeGroupAssignment(body)
	if err != nil || first.Code != wire.CodeNone || len(first.Grants) != 2 {
		t.Fatalf("%+v, %v", first, err)
	}
	b.wait("the instance to be away", func() bool {
		d, err := a.DescribeGroup(ctx, "g")
		if err != nil {
			t.Fatal(err)
		}
		return len(d.Members) == 0 && len(d.Table) == 2 && d.Table[0].Away && d.Table[0].Instance == "desk-1"
	})
	var moved atomic.Bool
	second, err := dead.Consumer(client.Group("g"), client.Instance("desk-2"), client.ClaimPartitions("t", 0, 1), client.From(client.Start()))
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan error, 1)
	go func() {
		in, err := second.Poll(ctx)
		if err == nil && !moved.Load() {
			err = errors.New("a partition of a dead instance was read before it was moved")
		}
		if err == nil {
			in.Release()
		}
		read <- err
	}()
	b.wait("the second member", func() bool {
		d, err := a.DescribeGroup(ctx, "g")
		if err != nil {
			t.Fatal(err)
		}
		return len(d.Members) == 1 && d.Members[0].Grants == 0 && d.Table[0].Away
	})
	moved.Store(true)
	if err := a.AssignPartitions(ctx, "g", "desk-2", "t", 0, 1); err != nil {
		t.Fatal(err)
	}
	if err := <-read; err != nil {
		t.Fatal(err)
	}
	mustRefuseLate(t, topic, meta.ID, first)
	if err := dead.Close(ctx); err != nil {
		t.Error(err)
	}
}
