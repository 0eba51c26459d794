package kafka

import (
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
	q.a.Topics, q.topics = make([]kmsg.DeleteTopicsResponseTopic, n), make([]deletion, n)
	for i := range q.topics {
		at := &q.a.Topics[i]
		at.Default()
		if h.version < 6 {
			at.Topic = &r.TopicNames[i]
		} else {
			at.Topic, at.TopicID = r.Topics[i].Topic, r.Topics[i].TopicID
		}
		q.topics[i].of, q.topics[i].at = q, at
	}
	q.p, q.n, q.sweep.ask, q.sweep.done = p, n, q.ask, q.answer
	p.began(0, 0)
	p.alone = true
	q.step()
}

func (q *deleteRequest) ask(i int) {
	d := &q.topics[i]
	if d.at.Topic == nil {
		t := q.p.srv.b.Image().ByID(catalog.TopicID(d.at.TopicID))
		if t == nil {
			d.at.ErrorCode = codeUnknownTopicID
			q.p.srv.count.add(Failures)
			q.answered()
			return
		}
		d.at.Topic = &t.Name
	}
	d.b.Kind, d.b.Name, d.b.Owner = broker.DeleteTopic, *d.at.Topic, d
	q.p.srv.b.Admin(&d.b)
}

// AdminDone notes the outcome of a deletion.
func (d *deletion) AdminDone(r *broker.Admin) {
	if r.Code != broker.OK {
		text := messageOf(r.Code, r.Message)
		d.at.ErrorCode, d.at.ErrorMessage = adminCodeOf(r.Code), &text
		d.of.p.srv.count.add(Failures)
	} else {
		d.at.TopicID = r.Topic.ID
	}
	d.of.answered()
}

func (q *deleteRequest) answer() {
	q.p.answer(q.correlation, len(q.topics)*2*topicEstimate, func() kmsg.Response { return q.a })
}
