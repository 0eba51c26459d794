package node

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mqd-broker/mqd/client"
)

// load is producers at work on some topics, and what they were promised.
type load struct {
	r       *rig
	stop    chan struct{}
	all     sync.WaitGroup
	clients []*client.Client

	mu     sync.Mutex
	acked  map[spot][]byte // what must be where
	failed map[string]int  // errors, by what they say
	sent   atomic.Int64    // acknowledged
}

// spot is a place in a partition.
type spot struct {
	topic     string
	partition int32
	offset    int64
}

// loadWindow is the number of records that a producer has on the way.
const loadWindow = 64

func newLoad(r *rig) *load {
	return &load{r: r, stop: make(chan struct{}), acked: map[spot][]byte{}, failed: map[string]int{}}
}

var producerSerial atomic.Int64

// produce starts a producer, with a connection of its own, that goes on until the
// load ends. limit, if not 0, is the number of records that it sends.
func (l *load) produce(topic string, limit int) {
	l.r.t.Helper()
	c := l.r.dial()
	p, err := c.Producer(topic)
	if err != nil {
		l.r.t.Fatalf("producer: %v", err)
	}
	id := int(producerSerial.Add(1))
	l.clients = append(l.clients, c)
	l.all.Go(func() {
		var open []sentRecord
		for n := 0; limit == 0 || n < limit; n++ {
			select {
			case <-l.stop:
				l.settle(open)
				return
			default:
			}
			v := stamp(id, n, 12+(n*37)%300)
			ticket, err := p.Append(l.r.t.Context(), client.Record{Value: v})
			if err != nil {
				l.fail(err)
				return
			}
			open = append(open, sentRecord{ticket, v})
			if len(open) == loadWindow {
				l.settle(open[:loadWindow/2])
				open = append(open[:0], open[loadWindow/2:]...)
			}
		}
		l.settle(open)
	})
}

// sentRecord is a record on its way.
type sentRecord struct {
	ticket client.Ticket
	value  []byte
}

// settle waits for records and keeps where they are.
func (l *load) settle(records []sentRecord) {
	for _, s := range records {
		at, err := s.ticket.Wait(l.r.t.Context())
		if err != nil {
			l.fail(err)
			continue
		}
		l.mu.Lock()
		k := spot{at.Topic, at.Partition, at.Offset}
		if old, ok := l.acked[k]; ok {
			l.failed[fmt.Sprintf("%v was given to %x and to %x", k, old, s.value)]++
		}
		l.acked[k] = s.value
		l.mu.Unlock()
		l.sent.Add(1)
	}
}

func (l *load) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed[err.Error()]++
}

// wait waits until n records are acknowledged in all.
func (l *load) wait(n int64) {
	l.r.t.Helper()
	eventually(l.r.t, fmt.Sprintf("%d records acknowledged", n), func() bool { return l.sent.Load() >= n })
}

// end stops everything and waits for it. What is not acknowledged by now, may have
// been written or not.
func (l *load) end() {
	close(l.stop)
	for _, c := range l.clients {
		closeNow(c)
	}
	l.all.Wait()
}

// mustHave reads topics from the start, and fails unless every record is where it
// was acknowledged, and the records of each producer in the order in which it sent
// them, once each.
func (l *load) mustHave(topics ...string) {
	l.r.t.Helper()
	got := map[spot][]byte{}
	for _, topic := range topics {
		l.read(topic, got)
	}
	missing := 0
	for k, want := range l.acked {
		if v, ok := got[k]; !ok || !bytes.Equal(v, want) {
			if missing++; missing <= 5 {
				l.r.t.Errorf("%v: found %x, %x was acknowledged", k, v, want)
			}
		}
	}
	if missing > 0 {
		l.r.t.Errorf("%d of %d acknowledged records are not there", missing, len(l.acked))
	}
}

// read reads a topic to its end, which it marks by a record in each partition.
func (l *load) read(topic string, got map[spot][]byte) {
	t := l.r.t
	t.Helper()
	ctx := l.r.context()
	c := l.r.dial()
	defer closeNow(c)
	left := map[int32]int64{}
	for partition := int32(0); ; partition++ {
		p, err := c.Producer(topic, client.WithPartition(partition))
		if errors.Is(err, client.ErrUnknownPartition) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		at, err := p.Send(ctx, client.Record{Value: []byte("end")})
		if err != nil {
			t.Fatalf("mark the end of %s/%d: %v", topic, partition, err)
		}
		left[partition] = at.Offset
		if partition+1 == int32(p.Partitions()) {
			break
		}
	}
	co, err := c.Consumer(client.Topics(topic), client.From(client.Start()))
	if err != nil {
		t.Fatal(err)
	}
	newest := map[uint64]uint64{} // number, by partition and producer
	for len(left) > 0 {
		b, err := co.Poll(ctx)
		if err != nil {
			t.Fatalf("read %s: %v", topic, err)
		}
		for r := range b.Records() {
			if end, ok := left[b.Partition]; ok && end == r.Offset {
				delete(left, b.Partition)
				continue
			}
			got[spot{topic, b.Partition, r.Offset}] = append([]byte(nil), r.Value...)
			if len(r.Value) < 12 {
				continue // an earlier mark
			}
			producer, number := uint64(binary.BigEndian.Uint32(r.Value)), binary.BigEndian.Uint64(r.Value[4:])+1
			k := producer<<32 | uint64(b.Partition)
			if number <= newest[k] {
				t.Errorf("%s/%d at %d: record %d of producer %d after its record %d", topic, b.Partition, r.Offset, number, producer, newest[k])
			}
			newest[k] = number
		}
		b.Release()
	}
	if err := co.Close(ctx); err != nil {
		t.Error(err)
	}
}

// consume reads topics to whatever end they have until the load ends, as somebody
// who is in the way when the node stops.
func (l *load) consume(topics ...string) {
	l.r.t.Helper()
	c := l.r.dial()
	co, err := c.Consumer(client.Topics(topics...))
	if err != nil {
		l.r.t.Fatal(err)
	}
	l.clients = append(l.clients, c)
	ctx, cancel := context.WithCancel(l.r.t.Context())
	l.all.Go(func() {
		<-l.stop
		cancel()
	})
	l.all.Go(func() {
		for ctx.Err() == nil {
			if b, err := co.Poll(ctx); err == nil {
				b.Release()
			} else if errors.Is(err, client.ErrClosed) {
				return
			}
		}
	})
}

func TestManyPartitionsKeepWhatTheirProducersSent(t *testing.T) {
	each(t, func(t *testing.T, shards int) {
		r := newRig(t, small(shards))
		c := r.dial()
		for _, class := range []string{"memory", "written", "flushed"} {
			r.create(c, class, 17, class)
		}
		l := newLoad(r)
		l.consume("memory", "flushed")
		for _, topic := range []string{"memory", "written", "flushed", "flushed"} {
			l.produce(topic, 700)
		}
		l.wait(4 * 700)
		l.end()
		if len(l.failed) > 0 {
			t.Fatalf("%v", l.failed)
		}
		l.mustHave("memory", "written", "flushed")
		r.stop()
	})
}
