package sim

import (
	"bytes"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mqd-broker/mqd/broker/classic"
	"github.com/mqd-broker/mqd/net/wire"
	"github.com/mqd-broker/mqd/test/history"
)

// addKafka has Kafka clients take part in a third of the runs, beside all others and with the
// same topics.
func (r *run) addKafka() {
	if r.seed/12%3 != 0 {
		return
	}
	r.kafka = true
	r.cfg.KafkaListen, r.cfg.KafkaRequestBytes = "127.0.0.1:9092", 1<<20
	r.cfg.Classic = classic.Limits{MinSession: time.Millisecond, Delay: time.Duration(1+r.rng.IntN(3)) * time.Millisecond}
	r.assigned = map[uint32]map[string]bool{}
	r.actors = append(r.actors, r.newKafkaProducer(), r.newKafkaRetrier(), r.newKafkaReader())
	r.addKafkaGroups()
}

// kafkaProducer sends requests with batches for several partitions, several at a time, with
// any acks.
type kafkaProducer struct {
	producer
	version int16
}

func (r *run) newKafkaProducer() *kafkaProducer {
	p := &kafkaProducer{producer: producer{r: r, depth: 1 + r.rng.IntN(6)}, version: int16(3 + r.rng.IntN(7))}
	p.link = r.newKafkaLink(p.renew)
	p.renew()
	return p
}

func (p *kafkaProducer) act(now int64) {
	p.link.keep(now)
	if p.link.stage != ready || !p.r.loading || now < p.quiet {
		return
	}
	if p.r.sparse {
		p.quiet = now + int64(p.r.rng.IntN(200_000))
	}
	for n := 1 + p.r.rng.IntN(p.r.most(3)); n > 0 && p.inFlight < p.depth && p.link.stage == ready; n-- {
		p.request()
	}
}

// request sends a request for some partitions of one topic.
func (p *kafkaProducer) request() {
	r := p.r
	some := r.anyPart()
	if some == nil {
		return
	}
	q := kmsg.NewPtrProduceRequest()
	q.Acks, q.TimeoutMillis = []int16{-1, -1, 1, 0}[r.rng.IntN(4)], 30_000
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic = some.topic.name
	var sent []sentBatch
	for i := range some.topic.parts {
		to := some.topic.parts[i]
		if to != some && r.rng.IntN(4) > 0 {
			continue
		}
		s := p.build(to)
		sent = append(sent, s)
		part := kmsg.NewProduceRequestTopicPartition()
		part.Partition, part.Records = to.n, bytes.Clone(p.batch)
		topic.Partitions = append(topic.Partitions, part)
		r.op(opProduce)
	}
	q.Topics = append(q.Topics, topic)
	if q.Acks == 0 {
		p.link.tell(p.version, q)
		r.cover(sawKafkaNoAcks)
		for i := range sent {
			sent[i].each(func(m history.Message, _ int64) { sent[i].to.p.Unknown(m) })
		}
		return
	}
	p.inFlight++
	p.link.ask(p.version, q, func(a kmsg.Response) {
		p.inFlight--
		if a == nil {
			for i := range sent {
				sent[i].each(func(m history.Message, _ int64) { sent[i].to.p.Unknown(m) })
			}
			return
		}
		p.answered(some.topic, sent, a.(*kmsg.ProduceResponse))
	})
}

func (p *kafkaProducer) answered(tp *topic, sent []sentBatch, a *kmsg.ProduceResponse) {
	if len(a.Topics) != 1 || a.Topics[0].Topic != tp.name || len(a.Topics[0].Partitions) != len(sent) {
		p.r.failf("%s: a produce to %d partitions was answered with %+v", tp.name, len(sent), a.Topics)
	}
	for i := range sent {
		p.kafkaOutcome(&sent[i], &a.Topics[0].Partitions[i])
	}
}

// kafkaOutcome notes what became of a batch.
func (p *kafkaProducer) kafkaOutcome(s *sentBatch, a *kmsg.ProduceResponseTopicPartition) {
	r, to := p.r, s.to
	if a.Partition != to.n {
		r.failf("%v: the answer names partition %d", to, a.Partition)
	}
	if to.topic.going || to.topic.gone {
		s.each(func(m history.Message, _ int64) { to.p.Unknown(m) })
		return
	}
	if code := r.codeOfKafka(to, a.ErrorCode); code != wire.CodeNone {
		r.refused(code, fmt.Sprintf("%v: produce", to))
		p.quiet = r.w.Now() + int64(r.rng.IntN(300_000))
		s.each(func(m history.Message, _ int64) { r.settle(to, m, code) })
		return
	}
	r.acked += s.n
	class := s.promised()
	s.each(func(m history.Message, i int64) { to.p.AckedAs(m, a.BaseOffset+i, class) })
	r.cover(sawKafkaProduce)
}

// promised is the class that an answer that does not name one stands for: that of the topic,
// if it has not changed meanwhile.
func (s *sentBatch) promised() history.Class {
	if tp := s.to.topic; s.certain && tp.altered == certain && s.changes == tp.changes {
		return tp.class
	}
	return history.Memory
}

// newKafkaRetrier makes an idempotent producer that is a Kafka client.
func (r *run) newKafkaRetrier() *retrier {
	p := r.newRetrier()
	p.link.kafka = true
	return p
}

// askKafka asks for a producer id.
func (p *retrier) askKafka() {
	p.link.ask(int16(p.r.rng.IntN(5)), kmsg.NewPtrInitProducerIDRequest(), func(a kmsg.Response) {
		p.asking = false
		if a == nil {
			return
		}
		i := a.(*kmsg.InitProducerIDResponse)
		if i.ErrorCode == 0 && i.ProducerEpoch != 0 {
			p.r.failf("producer %d begins with epoch %d", i.ProducerID, i.ProducerEpoch)
		}
		p.called(i.ProducerID, p.r.codeOfKafka("producer id", i.ErrorCode), "producer id")
	})
}

// transmitKafka sends a batch.
func (p *retrier) transmitKafka(s *sequence, u *unacked) {
	q := kmsg.NewPtrProduceRequest()
	q.Acks = -1
	topic, part := kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
	part.Partition, part.Records = u.to.n, u.data
	topic.Topic, topic.Partitions = u.to.topic.name, append(topic.Partitions, part)
	q.Topics = append(q.Topics, topic)
	p.link.ask(int16(3+p.r.rng.IntN(7)), q, func(a kmsg.Response) {
		s.inFlight--
		if a == nil || s.to.topic.going || s.to.topic.gone {
			s.again = true
			return
		}
		at := a.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
		o := wire.ProduceResponse{Code: p.r.codeOfKafka(s.to, at.ErrorCode), BaseOffset: at.BaseOffset, Class: wire.Class(u.promised())}
		if p.judged(s, u, &o); o.Code == wire.CodeNone {
			p.r.cover(sawKafkaIdempotent)
		}
	})
}
