package client

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/net/wire"
)

// lookOften has a client look for more partitions all the time.
func lookOften(c *config) { c.refreshEvery = time.Millisecond }

func TestPartitionsAreAdded(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 2)
	a := dialFake(t, b).Admin()
	ctx := testContext(t)
	for range 2 { // as many as there are is no error
		if err := a.AddPartitions(ctx, "alerts", 5); err != nil {
			t.Fatal(err)
		}
	}
	if d, err := a.DescribeTopic(ctx, "alerts"); err != nil || len(d.Partitions) != 5 {
		t.Fatalf("%+v, %v", d, err)
	}
	var e *Error
	if err := a.AddPartitions(ctx, "alerts", 4); !errors.As(err, &e) || e.Code != wire.CodeInvalidPartitions {
		t.Errorf("fewer partitions: %v", err)
	}
	wantError(t, a.AddPartitions(ctx, "none", 4), ErrUnknownTopic)
	wantError(t, a.AddPartitions(ctx, "alerts", 0), ErrInvalid, "0 partitions, expected 1 to 2147483647")
}

// A key goes to another partition when there are more, and the producer does not have to be
// opened again for that.
func TestAProducerFindsPartitionsThatHaveCome(t *testing.T) {
	b := newFakeBroker(t)
	b.shards = 2
	b.addTopic("alerts", 1)
	c := dialFake(t, b, lookOften)
	p := openProducer(t, c, "alerts", WithIdempotence())
	ctx := testContext(t)
	send := func(key string) int32 {
		t.Helper()
		at, err := p.Send(ctx, Record{Key: []byte(key), Value: []byte(key)})
		if err != nil {
			t.Fatal(err)
		}
		return at.Partition
	}
	for _, key := range numbered(0, 50) {
		if at := send(key); at != 0 {
			t.Fatalf("partition %d of 1", at)
		}
	}
	if err := c.Admin().AddPartitions(ctx, "alerts", 4); err != nil {
		t.Fatal(err)
	}
	eventually(t, "4 partitions", func() bool { return p.Partitions() == 4 })
	used := map[int32]int{}
	for _, key := range numbered(0, 50) {
		used[send(key)]++
	}
	total := 0
	for at, n := range used {
		total += n
		if at != 0 && len(b.values("alerts", int(at))) != n {
			t.Errorf("partition %d has %d records, expected %d", at, len(b.values("alerts", int(at))), n)
		}
	}
	if len(used) != 4 || total != 50 {
		t.Errorf("50 keys in partitions %v", used)
	}
}

// What is in a new partition when it is found was written after the consumer began: it is
// read, also by one that wanted what is new.
func TestAConsumerFindsPartitionsThatHaveCome(t *testing.T) {
	b := newFakeBroker(t)
	b.shards = 2
	b.addTopic("alerts", 1)
	b.put("alerts", 0, CompressNone, "old")
	c := dialFake(t, b, lookOften)
	co := openConsumer(t, c, Topics("alerts"), From(End()))
	fixed := openConsumer(t, c, Partitions("alerts", 0), From(Start()))
	ctx := testContext(t)
	if err := c.Admin().AddPartitions(ctx, "alerts", 3); err != nil {
		t.Fatal(err)
	}
	b.put("alerts", 2, CompressNone, "c")
	b.put("alerts", 1, CompressNone, "b")
	b.put("alerts", 0, CompressNone, "a")
	got := collect(t, co, 3)
	if slices.Sort(got); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("read %q", got)
	}
	if got := collect(t, fixed, 2); !slices.Equal(got, []string{"old", "a"}) {
		t.Errorf("one of partition 0 read %q", got)
	}
}

func TestAGroupGetsPartitionsThatHaveCome(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	b.put("alerts", 0, CompressNone, "old")
	co := joinFake(t, b, Topics("alerts"), From(End()))
	eventually(t, "its partition", func() bool {
		co.mu.Lock()
		defer co.mu.Unlock()
		return len(co.feeds) == 1
	})
	b.put("alerts", 0, CompressNone, "a")
	if got := collect(t, co, 1); !slices.Equal(got, []string{"a"}) {
		t.Fatalf("read %q", got)
	}
	if err := co.c.Admin().AddPartitions(testContext(t), "alerts", 3); err != nil {
		t.Fatal(err)
	}
	b.put("alerts", 1, CompressNone, "b")
	b.put("alerts", 2, CompressNone, "c")
	b.pass(time.Millisecond)
	got := collect(t, co, 2)
	if slices.Sort(got); !slices.Equal(got, []string{"b", "c"}) {
		t.Errorf("read %q", got)
	}
}

// Whoever looks for more partitions does not name topics: that might make one again that has
// been deleted.
func TestLookingForPartitionsMakesNoTopics(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	c := dialFake(t, b, lookOften)
	p := openProducer(t, c, "alerts")
	if _, err := p.Send(testContext(t), value("v")); err != nil {
		t.Fatal(err)
	}
	looks := make(chan wire.MetadataRequest, 1024)
	b.onRequest(func(_ *fakeConn, h wire.Header, body []byte) fault {
		if h.Op == wire.OpMetadata {
			select {
			case looks <- must(wire.DecodeMetadataRequest(body)):
			default:
			}
		}
		return pass
	})
	for range 5 {
		select {
		case r := <-looks:
			if !r.All || len(r.Topics) > 0 {
				t.Fatalf("a look that names %q", r.Topics)
			}
		case <-testContext(t).Done():
			t.Fatal("nobody looks")
		}
	}
}
