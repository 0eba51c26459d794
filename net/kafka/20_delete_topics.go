package kafka

import (
	"fmt"

	"github.com/mqd-broker/mqd/broker"
	"github.com/mqd-broker/mqd/broker/catalog"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DeleteTopics, key 20, versions 0 to 6.
//
//	v5  message
//	v6  topics by id

// deleteRequest is a request in flight.
type deleteRequest struct {
	sweep
	correlation int32
	a           *kmsg.DeleteTopicsResponse
	topics      []deletion
	named       map[topicKey]int // how often
}

// topicKey is what a topic is named by: its name, or its id.
type topicKey struct {
	name string
	id   [16]byte
}

func keyOf(t *kmsg.DeleteTopicsResponseTopic) topicKey {
	if t.Topic != nil {
		return topicKey{name: *t.Topic}
	}
	return topicKey{id: t.TopicID}
}

// deletion is one topic of it.
type deletion struct {
	b  broker.Admin
	of *deleteRequest
	at *kmsg.DeleteTopicsResponseTopic
}

func (p *peer) deleteTopics(h *header) {
	var r kmsg.DeleteTopicsRequest
	if !p.decode(h, &r) {
		return
	}
	q := &deleteRequest{correlation: h.correlation, a: kmsg.NewPtrDeleteTopicsResponse()}
	q.a.SetVersion(h.version)
	n := max(len(r.TopicNames), len(r.Topics))
	q.a.Topics, q.topics, q.named = make([]kmsg.DeleteTopicsResponseTopic, n), make([]deletion, n), map[topicKey]int{}
	for i := range q.topics {
		at := &q.a.Topics[i]
		at.Default()
		if h.version < 6 {
			at.Topic = &r.TopicNames[i]
		} else {
			at.Topic, at.TopicID = r.Topics[i].Topic, r.Topics[i].TopicID
		}
		q.topics[i].of, q.topics[i].at = q, at
		q.named[keyOf(at)]++
	}
	q.p, q.n, q.sweep.ask, q.sweep.done = p, n, q.ask, q.answer
	p.began(0, 0)
	p.alone = true
	q.step()
}

func (q *deleteRequest) ask(i int) {
	d := &q.topics[i]
	if n := q.named[keyOf(d.at)]; n > 1 {
		d.refuse(codeInvalidRequest, fmt.Sprintf("the topic is named %d times", n))
		return
	}
	if d.at.Topic == nil {
		t := q.p.srv.b.Image().ByID(catalog.TopicID(d.at.TopicID))
		if t == nil {
			d.refuse(codeUnknownTopicID, "no topic has this id")
			return
		}
		d.at.Topic = &t.Name
	}
	d.b.Kind, d.b.Name, d.b.Owner = broker.DeleteTopic, *d.at.Topic, d
	q.p.srv.b.Admin(&d.b)
}

func (d *deletion) refuse(code int16, text string) {
	d.at.ErrorCode, d.at.ErrorMessage = code, &text
	d.of.p.srv.count.add(Failures)
	d.of.answered()
}

// AdminDone notes the outcome of a deletion.
func (d *deletion) AdminDone(r *broker.Admin) {
	if r.Code != broker.OK {
		d.refuse(adminCodeOf(r.Code), messageOf(r.Code, r.Message))
		return
	}
	d.at.TopicID = r.Topic.ID
	d.of.answered()
}

func (q *deleteRequest) answer() {
	q.p.answer(q.correlation, len(q.topics)*2*topicEstimate, func() kmsg.Response { return q.a })
}
