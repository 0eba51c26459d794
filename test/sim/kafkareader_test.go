package sim

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mqd-broker/mqd/net/wire"
	"github.com/mqd-broker/mqd/test/history"
)

// kafkaReader follows partitions with long polls, several in one request, and asks where they
// begin and end; what it asks behind a long poll has to be answered behind it.
type kafkaReader struct {
	r       *run
	link    *link
	follows map[*part]*follow
	next    int64
	polls   int // in flight
}

// follow is how far a reader is in a partition.
type follow struct {
	tail    *history.Tail
	next    int64
	durable int64
	asked   bool
}

func (r *run) newKafkaReader() *kafkaReader {
	c := &kafkaReader{r: r, follows: map[*part]*follow{}}
	c.link = r.newKafkaLink(nil)
	return c
}

func (c *kafkaReader) act(now int64) {
	c.link.keep(now)
	r := c.r
	if c.link.stage != ready || !r.loading || now < c.next || len(c.link.calls) > 4 {
		return
	}
	c.next = now + int64(r.rng.IntN(120_000))
	if r.rng.IntN(4) > 0 {
		c.fetch()
	} else if p := r.anyPart(); p != nil {
		c.listOffsets(p)
	}
}

func (c *kafkaReader) follow(p *part) *follow {
	f := c.follows[p]
	if f == nil {
		f = &follow{tail: p.p.Tail(0)}
		c.follows[p] = f
	}
	return f
}

// fetch asks for some partitions of all topics.
func (c *kafkaReader) fetch() {
	r := c.r
	q := kmsg.NewPtrFetchRequest()
	q.ReplicaID, q.SessionEpoch, q.IsolationLevel = -1, -1, int8(r.rng.IntN(2))
	q.MaxBytes = []int32{1, 4 << 10, 64 << 10, 1 << 20}[r.rng.IntN(4)]
	if r.rng.IntN(2) == 0 {
		q.MaxWaitMillis, q.MinBytes = int32(1+r.rng.IntN(30)), int32(r.rng.IntN(3000))
	}
	var parts []*part
	var least []int64
	for _, tp := range r.alive() {
		topic := kmsg.NewFetchRequestTopic()
		topic.Topic = tp.name
		for _, p := range tp.parts {
			f := c.follow(p)
			if f.asked || r.rng.IntN(2) == 0 {
				continue
			}
			f.asked = true
			part := kmsg.NewFetchRequestTopicPartition()
			part.Partition, part.FetchOffset, part.PartitionMaxBytes = p.n, f.next, []int32{1, 700, 16 << 10, 256 << 10}[r.rng.IntN(4)]
			topic.Partitions = append(topic.Partitions, part)
			parts, least = append(parts, p), append(least, p.p.Start())
		}
		if len(topic.Partitions) > 0 {
			q.Topics = append(q.Topics, topic)
		}
	}
	if len(parts) == 0 {
		return
	}
	r.op(opFetch)
	life := r.lives
	c.link.ask(int16(5+r.rng.IntN(8)), q, func(a kmsg.Response) {
		for _, p := range parts {
			c.follow(p).asked = false
		}
		if a != nil && life == r.lives {
			c.fetched(q, parts, least, a.(*kmsg.FetchResponse))
		}
	})
}

// fetched judges an answer, in which the partitions stand as they were asked for.
func (c *kafkaReader) fetched(q *kmsg.FetchRequest, parts []*part, least []int64, a *kmsg.FetchResponse) {
	n := 0
	for i := range a.Topics {
		for k := range a.Topics[i].Partitions {
			at := &a.Topics[i].Partitions[k]
			if n == len(parts) || a.Topics[i].Topic != parts[n].topic.name || at.Partition != parts[n].n {
				c.r.failf("a fetch of %v was answered with %s/%d at place %d", parts, a.Topics[i].Topic, at.Partition, n)
			}
			if p := parts[n]; !p.topic.going {
				c.fetchedPart(p, least[n], at)
			}
			n++
		}
	}
	if a.ErrorCode != 0 || n != len(parts) {
		c.r.failf("a fetch of %d partitions was answered with code %d and %d partitions", len(parts), a.ErrorCode, n)
	}
}

func (c *kafkaReader) fetchedPart(p *part, least int64, a *kmsg.FetchResponseTopicPartition) {
	r, f := c.r, c.follow(p)
	code := r.codeOfKafka(p, a.ErrorCode)
	switch {
	case code == wire.CodeNone:
	case code == wire.CodeOffsetOutOfRange && f.next < a.LogStartOffset:
		r.saw(p, least, a.LogStartOffset, a.HighWatermark, a.HighWatermark)
		f.tail.Trimmed(a.LogStartOffset)
		f.next = max(f.next, a.LogStartOffset)
		r.cover(sawKafkaBelowStart)
		return
	case code == wire.CodeCorrupt && r.fault.kind == sawReadFailed, code == wire.CodeShuttingDown:
		return
	case code == wire.CodeStorageError:
		r.refused(code, fmt.Sprintf("%v: fetch at %d", p, f.next))
		return
	default:
		r.failf("%v: fetch at %d by a Kafka client: %v, valid %d to %d", p, f.next, code, a.LogStartOffset, a.HighWatermark)
	}
	r.saw(p, least, a.LogStartOffset, a.HighWatermark, a.HighWatermark)
	if a.LastStableOffset != a.HighWatermark {
		r.failf("%v: stable up to %d, and there is no transaction below %d", p, a.LastStableOffset, a.HighWatermark)
	}
	if a.HighWatermark < f.durable {
		r.failf("%v: durable %d after %d", p, a.HighWatermark, f.durable)
	}
	f.durable = a.HighWatermark
	f.next = r.records(p, &wire.FetchResponse{Batches: a.RecordBatches, Durable: a.HighWatermark}, f.next, func(offset int64, value []byte) {
		f.tail.Record(offset, value)
		r.cover(sawKafkaFetch)
	})
}

// listOffsets asks for a place in a partition.
func (c *kafkaReader) listOffsets(p *part) {
	r := c.r
	q := kmsg.NewPtrListOffsetsRequest()
	q.ReplicaID = -1
	topic, part := kmsg.NewListOffsetsRequestTopic(), kmsg.NewListOffsetsRequestTopicPartition()
	part.Partition, part.CurrentLeaderEpoch = p.n, -1
	part.Timestamp = []int64{-1, -1, -2, -3, r.w.Wall()/1e6 - int64(r.rng.IntN(200))}[r.rng.IntN(5)]
	topic.Topic, topic.Partitions = p.topic.name, append(topic.Partitions, part)
	q.Topics = append(q.Topics, topic)
	r.op(opAdmin)
	start, end, life := p.p.Start(), p.p.End(), r.lives
	c.link.ask(7, q, func(a kmsg.Response) {
		if a == nil || life != r.lives || p.topic.going {
			return
		}
		at := a.(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]
		switch code := r.codeOfKafka(p, at.ErrorCode); {
		case code == wire.CodeCorrupt && r.fault.kind == sawReadFailed, code == wire.CodeShuttingDown:
		case code != wire.CodeNone:
			r.refused(code, fmt.Sprintf("%v: the place of %d", p, part.Timestamp))
		case part.Timestamp == -1:
			p.p.Bounds(end, 0, at.Offset)
		case part.Timestamp == -2:
			r.startsAt(p, start, at.Offset)
		case at.Offset >= 0 && at.Offset < start:
			r.failf("%v: the record from %d on is at %d, and the log starts at %d", p, part.Timestamp, at.Offset, start)
		case at.Offset >= 0 && at.Timestamp < part.Timestamp:
			r.failf("%v: the record from %d on has time %d", p, part.Timestamp, at.Timestamp)
		}
	})
}
