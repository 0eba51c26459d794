package kafka

import (
	"fmt"

	"github.com/mqd-broker/mqd/broker"
	"github.com/mqd-broker/mqd/broker/catalog"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// CreatePartitions, key 37, versions 0 to 3.
//
// A topic gets as many partitions as are asked for, which are more than it has. An
// assignment has one list for each new one, which may only name the one broker there is.
// They can be used when it is answered. Each topic has an answer of its own, also where
// it is only to be validated.

// growRequest is a request in flight.
type growRequest struct {
	sweep
	correlation int32
	r           kmsg.CreatePartitionsRequest
	a           *kmsg.CreatePartitionsResponse
	topics      []growth
	named       map[string]int // how often each topic is
}

// growth is one topic of it.
type growth struct {
	b  broker.Admin
	of *growRequest
	at *kmsg.CreatePartitionsResponseTopic
}

func (p *peer) createPartitions(h *header) {
	q := &growRequest{correlation: h.correlation, a: kmsg.NewPtrCreatePartitionsResponse(), named: map[string]int{}}
	if !p.decode(h, &q.r) {
		return
	}
	q.a.SetVersion(h.version)
	q.a.Topics = make([]kmsg.CreatePartitionsResponseTopic, len(q.r.Topics))
	q.topics = make([]growth, len(q.r.Topics))
	for i := range q.r.Topics {
		q.named[q.r.Topics[i].Topic]++
	}
	q.p, q.n, q.sweep.ask, q.sweep.done = p, len(q.r.Topics), q.ask, q.answer
	p.began(0, 0)
	p.alone = true
	q.step()
}

// ask gives a topic more partitions, or says why not.
func (q *growRequest) ask(i int) {
	g, t := &q.topics[i], &q.r.Topics[i]
	g.of, g.at = q, &q.a.Topics[i]
	g.at.Default()
	g.at.Topic = t.Topic
	code, err := q.check(t)
	switch {
	case code != codeNone:
		g.refuse(code, err.Error())
	case q.r.ValidateOnly:
		q.answered()
	default:
		g.b.Kind, g.b.Name, g.b.Partitions, g.b.Owner = broker.AddPartitions, t.Topic, uint32(t.Count), g
		q.p.srv.b.Admin(&g.b)
	}
}

func (g *growth) refuse(code int16, text string) {
	g.at.ErrorCode, g.at.ErrorMessage = code, &text
	g.of.p.srv.count.add(Failures)
	g.of.answered()
}

// check judges what is asked for by the topic as it is.
func (q *growRequest) check(t *kmsg.CreatePartitionsRequestTopic) (int16, error) {
	o, image := q.p.srv.b.Node().Options(), q.p.srv.b.Image()
	known := image.ByName(t.Topic)
	switch {
	case q.named[t.Topic] > 1:
		return codeInvalidRequest, fmt.Errorf("topic %s is named %d times", t.Topic, q.named[t.Topic])
	case known == nil:
		return codeUnknownTopic, fmt.Errorf("no topic has this name")
	case known.Internal():
		return codeInvalidTopic, fmt.Errorf("%s is the broker's own", t.Topic)
	case int64(t.Count) <= int64(known.Partitions):
		return codeInvalidPartitions, fmt.Errorf("%d partitions, and the topic has %d: there can only be more", t.Count, known.Partitions)
	}
	if err := catalog.CheckPartitions(uint32(t.Count), o.MaxTopicPartitions); err != nil {
		return codeInvalidPartitions, err
	}
	more := int(t.Count) - int(known.Partitions)
	if all := image.Partitions() + more; all > o.MaxPartitions {
		return codeInvalidPartitions, fmt.Errorf("with %d more all topics would have %d, the limit is %d", more, all, o.MaxPartitions)
	}
	if t.Assignment != nil && len(t.Assignment) != more {
		return codeInvalidAssignment, fmt.Errorf("%d partitions are assigned, expected %d", len(t.Assignment), more)
	}
	for i, a := range t.Assignment {
		if len(a.Replicas) != 1 || a.Replicas[0] != nodeID {
			return codeInvalidAssignment, fmt.Errorf("partition %d has replicas %v, expected broker %d alone", int(known.Partitions)+i, a.Replicas, nodeID)
		}
	}
	return codeNone, nil
}

// AdminDone notes the outcome for a topic.
func (g *growth) AdminDone(r *broker.Admin) {
	if r.Code != broker.OK {
		g.refuse(adminCodeOf(r.Code), messageOf(r.Code, r.Message))
		return
	}
	g.of.answered()
}

func (q *growRequest) answer() {
	q.p.answer(q.correlation, len(q.topics)*2*topicEstimate, func() kmsg.Response { return q.a })
}
