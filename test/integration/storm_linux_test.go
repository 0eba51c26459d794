package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/client"
)

// written is a record that was acknowledged, and where.
type written struct {
	partition int32
	offset    int64
}

// storm is many clients that do everything in any order, while the broker comes and
// goes and their contexts end at any moment.
type storm struct {
	ph    *phoenix
	until atomic.Bool // it is over

	mu    sync.Mutex
	acked map[string]written
	seen  map[written]string // by consumers
	n     atomic.Int64
}

// life is one client's: some work, and its end, with whatever is under way.
func (s *storm) life(ctx context.Context) {
	var appended, told atomic.Int64
	c, err := client.Dial(ctx, []string{s.ph.addr}, client.WithBackoff(time.Millisecond, 20*time.Millisecond), client.WithTimeout(time.Second),
		client.WithHooks(client.Hooks{OnSend: func(_ context.Context, i client.SendInfo) { told.Add(int64(i.Records)) }}))
	if err != nil {
		return // there is no broker now
	}
	var work sync.WaitGroup
	work.Go(func() { s.produce(ctx, c, &appended) })
	work.Go(func() { s.consume(ctx, c) })
	if rand.N(2) == 0 {
		work.Wait()
	}
	closing, cancel := context.WithTimeout(ctx, time.Duration(rand.N(100))*time.Millisecond)
	defer cancel()
	_ = c.Close(closing) // the broker may be dead
	work.Wait()
	if told.Load() != appended.Load() {
		s.ph.t.Errorf("%d records were appended, the hook heard of %d", appended.Load(), told.Load())
	}
}

// produce appends and flushes. A flush without an error means that everything before
// it is acknowledged.
func (s *storm) produce(ctx context.Context, c *client.Client, appended *atomic.Int64) {
	p, err := c.Producer("storm", client.WithMaxInFlight(1+rand.N(8)))
	if err != nil {
		return
	}
	for range rand.N(20) {
		var values []string
		var tickets []client.Ticket
		for range rand.N(200) {
			v := fmt.Sprint("v", s.n.Add(1))
			t, err := p.Append(ctx, client.Record{Key: []byte(v), Value: []byte(v)})
			if err != nil {
				break // closed
			}
			appended.Add(1)
			values, tickets = append(values, v), append(tickets, t)
		}
		limit, cancel := context.WithTimeout(ctx, time.Duration(rand.N(300))*time.Millisecond)
		flushed := p.Flush(limit)
		cancel()
		for i, t := range tickets {
			if flushed == nil && !t.Done() {
				s.ph.t.Errorf("%s: a flush has returned before it had an end", values[i])
			}
			if !t.Done() {
				continue
			}
			at, err := t.Wait(ctx)
			if err == nil {
				s.mu.Lock()
				s.acked[values[i]] = written{at.Partition, at.Offset}
				s.mu.Unlock()
			} else if flushed == nil {
				s.ph.t.Errorf("%s: a flush without an error, and then %v", values[i], err)
			}
		}
	}
	ended, cancel := context.WithCancel(ctx)
	if rand.N(2) == 0 {
		cancel()
	}
	_ = p.Close(ended) // the broker may be dead
	cancel()
}

// consume reads from the start: offsets grow, and an offset has one record for good.
func (s *storm) consume(ctx context.Context, c *client.Client) {
	co, err := c.Consumer(client.Topics("storm"))
	if err != nil {
		return
	}
	last := map[int32]int64{}
	for range rand.N(50) {
		limit, cancel := context.WithTimeout(ctx, time.Duration(rand.N(50))*time.Millisecond)
		b, err := co.Poll(limit)
		cancel()
		if err != nil {
			continue
		}
		s.mu.Lock()
		for r := range b.Records() {
			at := written{b.Partition, r.Offset}
			if prev, ok := last[at.partition]; ok && r.Offset <= prev {
				s.ph.t.Errorf("%v comes after offset %d", at, prev)
			}
			last[at.partition] = r.Offset
			if v, ok := s.seen[at]; ok && v != string(r.Value) {
				s.ph.t.Errorf("%v is %s and %s", at, v, r.Value)
			}
			s.seen[at] = string(r.Value)
		}
		s.mu.Unlock()
		b.Release()
	}
	_ = co.Close(ctx)
}

// blows reports whether something has been acknowledged and something read.
func (s *storm) blows() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.acked) > 0 && len(s.seen) > 0
}

func TestNothingIsLostOrDoubledInAStorm(t *testing.T) {
	ph := rise(t)
	ctx, cancel := context.WithTimeout(context.Background(), 4*patience)
	defer cancel()
	c := ph.dial(ctx)
	if _, err := c.Admin().CreateTopic(ctx, client.TopicSpec{Name: "storm", Partitions: 3}); err != nil {
		t.Fatal(err)
	}
	s := &storm{ph: ph, acked: map[string]written{}, seen: map[written]string{}}
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for !s.until.Load() {
				s.life(ctx)
				pause(ctx)
			}
		})
	}
	const deaths = 8
	for i := 0; i < deaths || !s.blows() && ctx.Err() == nil; i++ {
		limit, cancel := context.WithTimeout(ctx, time.Duration(200+rand.N(300))*time.Millisecond)
		<-limit.Done()
		cancel()
		ph.end(i%2 == 0)
		for range rand.N(50) {
			pause(ctx)
		}
		ph.start()
	}
	s.until.Store(true)
	clients.Wait()
	s.consume(ctx, c)
	s.settle(ctx, c)
	if err := c.Close(ctx); err != nil {
		t.Error(err)
	}
}

// settle compares what was acknowledged and seen with what there is.
func (s *storm) settle(ctx context.Context, c *client.Client) {
	t := s.ph.t
	ends, err := c.Admin().ListOffsets(ctx, "storm", client.End())
	if err != nil {
		t.Fatal(err)
	}
	left := int64(0)
	for _, e := range ends {
		left += e.Offset
	}
	co, err := c.Consumer(client.Topics("storm"))
	if err != nil {
		t.Fatal(err)
	}
	stored, places := map[written]string{}, map[string]written{}
	for left > 0 {
		b, err := co.Poll(ctx)
		if err != nil {
			t.Fatalf("%d records are missing: %v", left, err)
		}
		for r := range b.Records() {
			at, v := written{b.Partition, r.Offset}, string(r.Value)
			if first, twice := places[v]; twice {
				t.Errorf("%s is stored at %v and %v", v, first, at)
			}
			stored[at], places[v] = v, at
			left--
		}
		b.Release()
	}
	for v, at := range s.acked {
		if stored[at] != v {
			t.Errorf("%s was acknowledged at %v, where %q is", v, at, stored[at])
		}
	}
	for at, v := range s.seen {
		if stored[at] != v {
			t.Errorf("%s was read at %v, where %q is", v, at, stored[at])
		}
	}
	if len(s.acked) == 0 || len(s.seen) == 0 {
		t.Errorf("%d records acknowledged, %d read: no storm", len(s.acked), len(s.seen))
	}
	t.Logf("%d records: %d acknowledged, %d read meanwhile", len(stored), len(s.acked), len(s.seen))
}
