package interop

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mqd-broker/mqd/net/wire"
)

// commit commits offsets of a topic, partition by partition, for a consumer that is no
// member of the group.
func commit(t *testing.T, ctx context.Context, c *kgo.Client, group, topic string, offsets ...int64) {
	t.Helper()
	q := kmsg.NewPtrOffsetCommitRequest()
	q.Group, q.Generation = group, -1
	at := kmsg.NewOffsetCommitRequestTopic()
	at.Topic = topic
	for i, o := range offsets {
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset = int32(i), o
		at.Partitions = append(at.Partitions, p)
	}
	q.Topics = append(q.Topics, at)
	a, err := q.RequestWith(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range a.Topics[0].Partitions {
		if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
			t.Fatalf("partition %d: %v", p.Partition, err)
		}
	}
}

// committed is what a group has committed for the partitions of a topic.
func committed(t *testing.T, ctx context.Context, c *kgo.Client, group, topic string) map[int32]int64 {
	t.Helper()
	q := kmsg.NewPtrOffsetFetchRequest()
	g := kmsg.NewOffsetFetchRequestGroup()
	q.Group, g.Group = group, group
	q.Groups = append(q.Groups, g)
	a, err := q.RequestWith(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	got := map[int32]int64{}
	for _, g := range a.Groups {
		if err := kerr.ErrorForCode(g.ErrorCode); err != nil {
			t.Fatal(err)
		}
		for _, at := range g.Topics {
			for _, p := range at.Partitions {
				if at.Topic == topic {
					got[p.Partition] = p.Offset
				}
			}
		}
	}
	return got
}

func TestOffsetsOfASimpleConsumerSurviveAKill(t *testing.T) {
	b := start(t)
	ctx := within(t)
	b.mqd("places", 2)
	c := b.kgo()
	commit(t, ctx, c, "simple", "places", 20, 30)
	commit(t, ctx, c, "simple", "places", 10) // back, as Kafka allows
	b.kill()
	b.launch()
	if got := committed(t, ctx, c, "simple", "places"); len(got) != 2 || got[0] != 10 || got[1] != 30 {
		t.Errorf("committed are %v, expected 10 and 30", got)
	}
	d, err := b.dial().Admin().DescribeGroup(ctx, "simple")
	if err != nil || len(d.Partitions) != 2 || d.Partitions[1].Committed != 30 {
		t.Errorf("the batch protocol describes %+v, %v", d, err)
	}
}

// tether is how a client reaches the broker, until it is cut: then it is like a process
// that was killed, which closes no group and says nothing more.
type tether struct {
	mu    sync.Mutex
	cut   bool
	conns []net.Conn
}

func (l *tether) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut {
		return nil, errors.New("this client has been killed")
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, network, addr)
	if err == nil {
		l.conns = append(l.conns, c)
	}
	return c, err
}

func (l *tether) kill() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = true
	for _, c := range l.conns {
		_ = c.Close()
	}
}

// crew is a consumer group, and what its members have read together.
type crew struct {
	t     *testing.T
	b     *broker
	topic string

	mu   sync.Mutex
	seen map[int64]int // by number of the record
	all  chan struct{} // closed when n records have been seen
	n    int
}

// crewMember is one of a crew.
type crewMember struct {
	c      *kgo.Client
	line   tether
	cancel context.CancelFunc
	done   chan struct{}
	owns   atomic.Int32
}

// join starts a member, which reads and commits what it has read, until it is stopped.
func (g *crew) join(ctx context.Context, opts ...kgo.Opt) *crewMember {
	g.t.Helper()
	m := &crewMember{done: make(chan struct{})}
	ctx, m.cancel = context.WithCancel(ctx)
	m.c = g.b.kgo(append([]kgo.Opt{
		kgo.Dialer(m.line.dial), kgo.ConsumerGroup("crew"), kgo.ConsumeTopics(g.topic), kgo.DisableAutoCommit(),
		kgo.SessionTimeout(6 * time.Second), kgo.HeartbeatInterval(500 * time.Millisecond), kgo.RebalanceTimeout(20 * time.Second),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, p map[string][]int32) { m.owns.Add(int32(len(p[g.topic]))) }),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, p map[string][]int32) { m.owns.Add(-int32(len(p[g.topic]))) }),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, p map[string][]int32) { m.owns.Add(-int32(len(p[g.topic]))) }),
		kgo.MaxBufferedRecords(100), kgo.FetchMaxWait(250 * time.Millisecond),
	}, opts...)...)
	go func() {
		defer close(m.done)
		for ctx.Err() == nil {
			polled, cancel := context.WithTimeout(ctx, 250*time.Millisecond)
			g.note(m.c.PollRecords(polled, 50).Records())
			cancel()
			// What a commit that fails should have told the next one tells, or whoever has the
			// partition then reads the records again.
			_ = m.c.CommitUncommittedOffsets(ctx)
		}
	}()
	return m
}

// note counts records.
func (g *crew) note(rs []*kgo.Record) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range rs {
		n, err := strconv.ParseInt(string(r.Value), 10, 64)
		if err != nil {
			g.t.Errorf("%s/%d at %d: %q", r.Topic, r.Partition, r.Offset, r.Value)
			continue
		}
		if g.seen[n]++; len(g.seen) == g.n && g.seen[n] == 1 {
			close(g.all)
		}
	}
}

// kill ends a member without a word.
func (m *crewMember) kill() {
	m.line.kill()
	m.cancel()
	<-m.done
}

// wait waits until the crew has read n records.
func (g *crew) wait(ctx context.Context, what string) {
	g.t.Helper()
	select {
	case <-g.all:
	case <-ctx.Done():
		g.mu.Lock()
		defer g.mu.Unlock()
		g.t.Fatalf("%s: %d of %d records were read", what, len(g.seen), g.n)
	}
}

// expect has the crew wait for records up to number n.
func (g *crew) expect(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.n, g.all = n, make(chan struct{})
	if len(g.seen) >= n {
		close(g.all)
	}
}

// produce sends records from number first to before end, over all partitions.
func produce(t *testing.T, ctx context.Context, c *kgo.Client, topic string, first, end int) {
	t.Helper()
	var rs []*kgo.Record
	for i := first; i < end; i++ {
		rs = append(rs, &kgo.Record{Topic: topic, Partition: int32(i % 8), Value: strconv.AppendInt(nil, int64(i), 10)})
	}
	if err := c.ProduceSync(ctx, rs...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// until waits until done holds.
func until(t *testing.T, ctx context.Context, what string, done func() bool) {
	t.Helper()
	for !done() {
		select {
		case <-ctx.Done():
			t.Fatalf("never happened: %s", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Three members over eight partitions: one is killed, one joins, the broker is killed,
// and every record is read. What was committed before the kill is committed after it.
func TestAGroupOfFranzGoLosesNothing(t *testing.T) {
	for name, balancer := range map[string]kgo.GroupBalancer{
		"cooperative": kgo.CooperativeStickyBalancer(), "eager": kgo.RangeBalancer(),
	} {
		t.Run(name, func(t *testing.T) {
			b := start(t)
			ctx := within(t)
			b.mqd("work", 8)
			p := b.kgo(kgo.RecordPartitioner(kgo.ManualPartitioner()))
			g := &crew{t: t, b: b, topic: "work", seen: map[int64]int{}}
			balance := kgo.Balancers(balancer)
			g.expect(4000)
			members := []*crewMember{g.join(ctx, balance), g.join(ctx, balance), g.join(ctx, balance)}
			until(t, ctx, "each of three members has partitions", func() bool {
				return members[0].owns.Load() > 0 && members[1].owns.Load() > 0 && members[2].owns.Load() > 0
			})
			produce(t, ctx, p, "work", 0, 2000)
			members[0].kill()
			produce(t, ctx, p, "work", 2000, 4000)
			g.wait(ctx, "after a member was killed")
			late := g.join(ctx, balance)
			until(t, ctx, "the one that has joined has partitions", func() bool { return late.owns.Load() > 0 })
			g.expect(6000)
			produce(t, ctx, p, "work", 4000, 6000)
			g.wait(ctx, "after a member has joined")

			before := committed(t, ctx, p, "crew", "work")
			b.kill()
			b.launch()
			for part, offset := range committed(t, ctx, p, "crew", "work") {
				if offset < before[part] {
					t.Errorf("partition %d: committed is %d, it was %d before the kill", part, offset, before[part])
				}
				delete(before, part)
			}
			if len(before) != 0 {
				t.Errorf("lost with the broker: %v", before)
			}
			g.expect(8000)
			produce(t, ctx, p, "work", 6000, 8000)
			g.wait(ctx, "after the broker was killed")
			native := b.dial().Admin()
			until(t, ctx, "all is committed", func() bool {
				d, err := native.DescribeGroup(ctx, "crew")
				if err != nil {
					t.Fatal(err)
				}
				lag := int64(0)
				for _, p := range d.Partitions {
					lag += p.Lag
				}
				return d.Mode == wire.GroupKafka && len(d.Members) == 3 && len(d.Partitions) == 8 && lag == 0
			})
			for _, m := range append(members[1:], late) {
				m.cancel()
				<-m.done
			}
		})
	}
}
