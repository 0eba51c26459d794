package native

import (
	"github.com/mqd-broker/mqd/broker"
	"github.com/mqd-broker/mqd/net/conn"
	"github.com/mqd-broker/mqd/net/wire"
)

// produceRequest is a produce in flight. The frame that holds its batch is
// retained until the broker is done with it.
type produceRequest struct {
	b           broker.Produce
	peer        *peer
	frame       *conn.Frame
	correlation uint32
	ack         wire.AckMode
	next        *produceRequest // in the pool
}

func (s *Server) newProduce() *produceRequest {
	q := s.produces
	if q == nil {
		q = new(produceRequest)
		q.b.Owner = q
		return q
	}
	s.produces, q.next = q.next, nil
	return q
}

// produce takes a produce request.
func (p *peer) produce(h wire.Header, body []byte, f *conn.Frame) {
	r, err := wire.DecodeProduceRequest(body)
	if err != nil {
		p.malformed(h, err)
		return
	}
	q := p.srv.newProduce()
	q.peer, q.frame, q.correlation, q.ack = p, f, h.Correlation, r.Ack
	q.b.Topic, q.b.Partition = broker.TopicID(r.Topic), r.Partition
	q.b.MinClass, q.b.Encoding, q.b.Batch = broker.Class(r.MinClass), broker.Encoding(r.Encoding), r.Batch
	q.b.Received, q.b.Stamped = f.Arrived()
	f.Retain()
	p.began(len(f.Bytes()))
	p.srv.b.Produce(&q.b)
}

// Produced answers a produce.
func (q *produceRequest) Produced(r *broker.Produce) {
	p, n := q.peer, len(q.frame.Bytes())
	s := p.srv
	if r.Code != broker.OK {
		s.count.add(Failures)
	}
	if q.ack == wire.AckClass {
		p.answerProduce(q.correlation, r)
	}
	q.frame.Release()
	q.peer, q.frame, q.b.Batch = nil, nil, nil
	q.next, s.produces = s.produces, q
	p.done(n)
}

func (p *peer) answerProduce(correlation uint32, r *broker.Produce) {
	a := wire.ProduceResponse{
		Code: codeOf(r.Code), Class: wire.Class(r.Class), BaseOffset: r.Base, AppendTime: r.AppendTime,
	}
	if a.Code == wire.CodeNone {
		wire.AppendProduceResponse(p.c.Reply(wire.ProduceResponseSize)[:0], correlation, &a)
		return
	}
	a.Class, a.ValidLow, a.ValidHigh, a.Message = wire.ClassUnspecified, r.Low, r.High, messageOf(r.Code, r.Message)
	p.write(wire.AppendProduceResponse(p.srv.scratch[:0], correlation, &a))
}
