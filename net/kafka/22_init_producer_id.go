package kafka

import (
	"github.com/mqd-broker/mqd/broker"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// InitProducerId, key 22, versions 0 to 4, for idempotence.
//
// Each answer has an id that nobody else has or ever had, and epoch 0, also for a
// client that names the id that it has and wants a new epoch (KIP-360): a new id
// does as well, and its sequences begin again. A transactional id is answered with
// UNSUPPORTED_VERSION, which clients do not try again.

// initRequest is a request in flight.
type initRequest struct {
	b           broker.Admin
	p           *peer
	correlation int32
	a           *kmsg.InitProducerIDResponse
}

func (p *peer) initProducerID(h *header) {
	var r kmsg.InitProducerIDRequest
	if !p.decode(h, &r) {
		return
	}
	a := kmsg.NewPtrInitProducerIDResponse()
	a.SetVersion(h.version)
	a.ProducerID, a.ProducerEpoch = -1, -1
	if r.TransactionalID != nil {
		a.ErrorCode = codeUnsupportedVersion
		p.srv.count.add(Failures)
		p.reply(h.correlation, a)
		return
	}
	q := &initRequest{p: p, correlation: h.correlation, a: a}
	q.b.Kind, q.b.Owner = broker.NewProducer, q
	p.began(0, 0)
	p.alone = true
	p.srv.b.Admin(&q.b)
}

// AdminDone answers.
func (q *initRequest) AdminDone(r *broker.Admin) {
	p := q.p
	if r.Code == broker.OK {
		q.a.ProducerID, q.a.ProducerEpoch = r.Producer, 0
	} else {
		q.a.ErrorCode = codeOf(r.Code)
		p.srv.count.add(Failures)
	}
	p.reply(q.correlation, q.a)
	p.done(0, 0)
}
