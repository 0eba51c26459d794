package integration

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/net/wire"
	"github.com/mqd-broker/mqd/test/rig"
)

// The soak of groups. Without flags it is short; -soak.time=5m -soak.kill=10s
// -soak.stay=8s -soak.rate=1000 is the long form.
var (
	soakTime = flag.Duration("soak.time", 8*time.Second, "how long the soak of groups runs")
	soakKill = flag.Duration("soak.kill", 2500*time.Millisecond, "how often it kills the broker")
	soakStay = flag.Duration("soak.stay", 1500*time.Millisecond, "how long a member stays, at most")
	soakRate = flag.Int("soak.rate", 5000, "records that each producer sends in a second")
)

const soakPartitions = 8

// sighting is one record that a member of a group was given.
type sighting struct {
	offset int64
	value  string
	run    int // which assignment of the partition it was
}

// groupLedger is what a group was given and what it has committed, by partition.
type groupLedger struct {
	mu        sync.Mutex
	seen      [soakPartitions][]sighting
	offsets   [soakPartitions]map[int64]bool // that were seen
	committed [soakPartitions]int64
	runs      int
	wrong     []string
}

func (g *groupLedger) fail(format string, args ...any) {
	g.wrong = append(g.wrong, fmt.Sprintf(format, args...))
}

func newGroupLedger() *groupLedger {
	g := &groupLedger{}
	for p := range g.offsets {
		g.offsets[p] = map[int64]bool{}
	}
	return g
}

// begin notes that a partition has come to a member, with its first offset. What is
// committed before must not come again.
func (g *groupLedger) begin(partition int32, first int64) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.runs++
	if first < g.committed[partition] {
		g.fail("partition %d begins at %d, and %d was committed", partition, first, g.committed[partition])
	}
	return g.runs
}

func (g *groupLedger) note(b *client.Batch, run int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for r := range b.Records() {
		g.seen[b.Partition] = append(g.seen[b.Partition], sighting{r.Offset, string(r.Value), run})
		g.offsets[b.Partition][r.Offset] = true
	}
}

func (g *groupLedger) commits(partition int32, next int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.committed[partition] = max(g.committed[partition], next)
}

// count is how many different records the group was given.
func (g *groupLedger) count() (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for p := range g.offsets {
		n += len(g.offsets[p])
	}
	return n
}

// check holds what the group was given against the log.
func (g *groupLedger) check(t *testing.T, name string, log [soakPartitions][]sighting) (again int) {
	for _, w := range g.wrong {
		t.Errorf("group %s: %s", name, w)
	}
	for p := range log {
		at := map[int64]int{} // an offset's place in the log
		for i, s := range log[p] {
			at[s.offset] = i
		}
		seen, last := make([]int, len(log[p])), map[int]int{} // of each run, the place of its last record
		for _, s := range g.seen[p] {
			i, ok := at[s.offset]
			if !ok || log[p][i].value != s.value {
				t.Errorf("group %s, partition %d: offset %d came as %q, which the log does not have", name, p, s.offset, s.value)
				continue
			}
			if before, ok := last[s.run]; ok && i != before+1 {
				t.Errorf("group %s, partition %d: after offset %d came %d in one assignment", name, p, log[p][before].offset, s.offset)
			}
			last[s.run] = i
			seen[i]++
		}
		for i, n := range seen {
			if n == 0 {
				t.Errorf("group %s, partition %d: offset %d never came", name, p, log[p][i].offset)
			}
			again += max(0, n-1)
		}
	}
	return again
}

// lifeline makes connections that all die at once, when their process would.
type lifeline struct {
	mu    sync.Mutex
	dead  bool
	conns []net.Conn
}

func (m *lifeline) dial(ctx context.Context, addr string) (net.Conn, error) {
	nc, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead {
		return nil, errors.Join(errors.New("the member is dead"), nc.Close())
	}
	m.conns = append(m.conns, nc)
	return nc, nil
}

func (m *lifeline) die() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead = true
	for _, nc := range m.conns {
		_ = nc.Close() // it may have ended
	}
}

// soak is a topic, its producers and its groups.
type soak struct {
	t      *testing.T
	addr   string
	groups map[string]*groupLedger
}

func (s *soak) open(m *lifeline, opts ...client.ConsumerOption) (*client.Client, *client.Consumer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for { // the broker may be away
		c, err := client.Dial(ctx, []string{s.addr}, client.WithDialer(m.dial), client.WithBackoff(time.Millisecond, 20*time.Millisecond))
		if err == nil {
			var co *client.Consumer
			if co, err = c.Consumer(opts...); err == nil {
				return c, co, nil
			}
			closeNow(c)
		}
		if ctx.Err() != nil {
			return nil, nil, err
		}
		pause(ctx)
	}
}

// closeNow ends a client without waiting for anything.
func closeNow(c *client.Client) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = c.Close(ctx) // nothing is left to be told
}

// member reads as a member of a group until ctx ends, and then leaves, or dies.
func (s *soak) member(ctx context.Context, group string, dies bool) {
	m, g := &lifeline{}, s.groups[group]
	auto := rand.N(2) == 0
	opts := []client.ConsumerOption{client.Group(group), client.Topics("soak"), client.WithSession(2 * time.Second)}
	if auto {
		opts = append(opts, client.WithAutoCommit(50*time.Millisecond, 100))
	} else {
		opts = append(opts, client.WithAutoCommit(0, 0))
	}
	c, co, err := s.open(m, opts...)
	if err != nil {
		s.t.Errorf("group %s: join: %v", group, err)
		return
	}
	runs := map[context.Context]int{}
	for b, err := range co.Batches(ctx) {
		var e *client.Error
		switch {
		case err == nil:
		case errors.As(err, &e) && e.Retriable:
			continue
		default:
			s.t.Errorf("group %s: %v", group, err)
			continue
		}
		run, known := runs[b.Context()]
		if !known {
			run = g.begin(b.Partition, b.First)
			runs[b.Context()] = run
		}
		g.note(b, run)
		if !auto {
			if err := b.Commit(b.Context()); err == nil {
				g.commits(b.Partition, b.Last+1)
			}
		}
		b.Release()
	}
	if dies {
		m.die()
		closeNow(c)
		return
	}
	leaving, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := c.Close(leaving); err != nil && !errors.Is(err, client.ErrFenced) {
		s.t.Errorf("group %s: close: %v", group, err)
	}
}

// produce sends numbers to all partitions, each once, until ctx ends.
func (s *soak) produce(ctx context.Context, id int) (sent int) {
	c, err := client.Dial(ctx, []string{s.addr}, client.WithBackoff(time.Millisecond, 20*time.Millisecond))
	if err != nil {
		s.t.Error(err)
		return 0
	}
	p, err := c.Producer("soak", client.WithIdempotence(), client.WithPartitioner(func(key []byte, n int32) int32 {
		return int32(binary.BigEndian.Uint64(key) % uint64(n))
	}))
	if err != nil {
		s.t.Error(err)
		return 0
	}
	for ctx.Err() == nil {
		_, err := p.Append(ctx, client.Record{Key: binary.BigEndian.AppendUint64(nil, uint64(sent)), Value: fmt.Appendf(nil, "%d:%d", id, sent)})
		if err != nil {
			break // ctx has ended
		}
		if sent++; sent%50 == 0 {
			time.Sleep(50 * time.Second / time.Duration(*soakRate)) // a rate, not a wait
		}
	}
	ending, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := c.Close(ending); err != nil {
		s.t.Errorf("producer %d: %v", id, err)
	}
	return sent
}

// log reads the topic as it is.
func (s *soak) log(ctx context.Context, n int) (log [soakPartitions][]sighting) {
	c, co, err := s.open(&lifeline{}, client.Topics("soak"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer closeNow(c)
	for got := 0; got < n; {
		b, err := co.Poll(ctx)
		if err != nil {
			s.t.Fatalf("after %d of %d records: %v", got, n, err)
		}
		for r := range b.Records() {
			log[b.Partition] = append(log[b.Partition], sighting{offset: r.Offset, value: string(r.Value)})
			got++
		}
		b.Release()
	}
	return log
}

// checkLog holds the log against what producers sent: each record once, and those of a
// producer in order.
func (s *soak) checkLog(log [soakPartitions][]sighting, sent []int) {
	next := map[[2]int]int{}
	total := 0
	for p := range log {
		slices.SortFunc(log[p], func(a, b sighting) int { return cmp.Compare(a.offset, b.offset) })
		for _, r := range log[p] {
			var id, n int
			if _, err := fmt.Sscanf(r.value, "%d:%d", &id, &n); err != nil {
				s.t.Fatalf("partition %d has %q", p, r.value)
			}
			k := [2]int{p, id}
			if want := next[k]*soakPartitions + p; n != want {
				s.t.Fatalf("partition %d: producer %d: %d at offset %d, expected %d", p, id, n, r.offset, want)
			}
			next[k]++
			total++
		}
	}
	want := 0
	for _, n := range sent {
		want += n
	}
	if total != want {
		s.t.Errorf("the log has %d records, %d were sent", total, want)
	}
}

// Members come, go and die, and the broker dies: no group misses a record, each has
// them in order, and what is committed does not come again.
func TestGroupsThroughDeathsOfMembersAndBroker(t *testing.T) {
	ph := rise(t)
	ctx, cancel := context.WithTimeout(context.Background(), *soakTime+4*patience)
	defer cancel()
	admin := ph.dial(ctx)
	if _, err := admin.Admin().CreateTopic(ctx, client.TopicSpec{Name: "soak", Partitions: soakPartitions}); err != nil {
		t.Fatal(err)
	}
	closeNow(admin)
	s := &soak{t: t, addr: ph.addr, groups: map[string]*groupLedger{"one": newGroupLedger(), "two": newGroupLedger()}}
	over, end := context.WithTimeout(ctx, *soakTime)
	defer end()
	sent := make([]int, 3)
	var producers, members sync.WaitGroup
	for i := range sent {
		producers.Go(func() { sent[i] = s.produce(over, i) })
	}
	var joined sync.Mutex
	joins, deaths, kills := 0, 0, 0
	reading, stop := context.WithCancel(ctx) // the last members stay until all is read
	defer stop()
	for group := range s.groups {
		for range 4 {
			members.Go(func() {
				for over.Err() == nil {
					stay, leave := context.WithTimeout(over, *soakStay/5+rand.N(*soakStay*4/5))
					dies := rand.N(3) == 0
					s.member(stay, group, dies)
					leave()
					joined.Lock()
					joins++
					if dies {
						deaths++
					}
					joined.Unlock()
				}
				s.member(reading, group, false)
			})
		}
	}
	for tick := time.NewTicker(*soakKill); ; kills++ {
		select {
		case <-tick.C:
			ph.end(false)
			ph.start()
			continue
		case <-over.Done():
		}
		tick.Stop()
		break
	}
	producers.Wait()
	total := sent[0] + sent[1] + sent[2]
	for _, g := range s.groups {
		for g.count() < total && ctx.Err() == nil {
			pause(ctx)
		}
	}
	stop()
	members.Wait()
	log := s.log(ctx, total)
	s.checkLog(log, sent)
	for name, g := range s.groups {
		again := g.check(t, name, log)
		t.Logf("group %s: %d records, %d of them again, in %d assignments", name, total, again, g.runs)
	}
	t.Logf("%d memberships before the last, %d ended by death; the broker was killed %d times", joins, deaths, kills)
}

// readTo reads from one offset to another, all of it, and commits that if it is told to.
func readTo(ctx context.Context, t *testing.T, co *client.Consumer, from, to int64, commit bool) {
	t.Helper()
	for next := from; next < to; {
		b, err := co.Poll(ctx)
		var e *client.Error
		if errors.As(err, &e) && e.Retriable {
			continue // a heartbeat that was late, say: it goes on where it is
		}
		if err != nil {
			t.Fatal(err)
		}
		if b.First != next {
			t.Fatalf("offset %d, expected %d", b.First, next)
		}
		next = min(b.Last+1, to)
		if commit {
			if err := b.CommitTo(ctx, next); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// C2 of the catalogue of cases: a second member goes on where the first has committed,
// whether it left or died, and a group that was deleted begins by its reset policy.
func TestC2AGroupGoesOnWhereItWas(t *testing.T) {
	ph := rise(t)
	ctx, cancel := context.WithTimeout(context.Background(), 4*patience)
	defer cancel()
	c := ph.dial(ctx)
	defer closeNow(c)
	if _, err := c.Admin().CreateTopic(ctx, client.TopicSpec{Name: "soak", Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	p, err := c.Producer("soak")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		if _, err := p.Append(ctx, client.Record{Value: fmt.Append(nil, i)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	s := &soak{t: t, addr: ph.addr}
	read := func(co *client.Consumer, from, to int64, commit bool) {
		t.Helper()
		readTo(ctx, t, co, from, to, commit)
	}
	// The session of the one that dies ends soon, although not while it lives on a machine
	// that stands still for some seconds, and those of the others do not end.
	join := func(session time.Duration) (*lifeline, *client.Client, *client.Consumer) {
		t.Helper()
		m := &lifeline{}
		c, co, err := s.open(m, client.Group("g"), client.Topics("soak"), client.WithSession(session), client.WithAutoCommit(0, 0))
		if err != nil {
			t.Fatal(err)
		}
		return m, c, co
	}
	_, one, co := join(patience)
	read(co, 0, 100, true)
	if err := one.Close(ctx); err != nil {
		t.Fatal(err)
	}
	m, two, co := join(10 * time.Second)
	read(co, 100, 150, true)
	m.die() // without leaving
	_, three, co := join(patience)
	read(co, 150, 200, false)
	closeNow(two)
	ph.end(false)
	ph.start()
	if err := three.Close(ctx); err != nil {
		t.Fatal(err)
	}
	_, four, co := join(patience)
	read(co, 150, 200, false) // nothing was committed meanwhile
	if err := four.Close(ctx); err != nil {
		t.Fatal(err)
	}
	conn, err := rig.Open(ctx, ph.addr)
	if err != nil {
		t.Fatal(err)
	}
	_, body, err := conn.Call(wire.AppendGroupDeleteRequest(nil, conn.Next(), wire.GroupDeleteRequest{Group: []byte("g")}))
	if r, bad := wire.DecodeGroupResult(body); err != nil || bad != nil || r.Code != wire.CodeNone {
		t.Fatalf("delete: %v, %v, %v", err, bad, r.Code)
	}
	_, five, co := join(patience)
	defer closeNow(five)
	read(co, 0, 200, true) // by its reset policy
}
