package native

import (
	"github.com/mqd-broker/mqd/broker"
	"github.com/mqd-broker/mqd/net/conn"
	"github.com/mqd-broker/mqd/net/wire"
)

// produce is a produce request until it is answered. It is pooled.
type produce struct {
	broker.Produce
	s           *Server
	ss          *session
	frame       *conn.Frame
	correlation uint32
	silent      bool // no answer is wanted
	next        *produce
}

func (s *Server) produce(ss *session, h wire.Header, body []byte, f *conn.Frame) error {
	req, err := wire.DecodeProduceRequest(body)
	if err != nil {
		return err
	}
	s.stats.Produces++
	p := s.produces
	if p == nil {
		p = &produce{s: s}
		p.Owner = p
	} else {
		s.produces, p.next = p.next, nil
	}
	f.Retain()
	s.began(ss)
	p.ss, p.frame, p.correlation, p.silent = ss, f, h.Correlation, req.Ack == wire.AckNone
	p.Topic, p.Partition = broker.TopicID(req.Topic), req.Partition
	p.MinClass, p.Encoding, p.Batch = broker.Class(req.MinClass), broker.Encoding(req.Encoding), req.Batch
	s.b.Produce(&p.Produce)
	return nil
}

// Produced answers.
func (p *produce) Produced(r *broker.Produce) {
	s, ss := p.s, p.ss
	resp := wire.ProduceResponse{Class: wire.Class(r.Class), BaseOffset: r.Base, AppendTime: r.AppendTime}
	switch {
	case p.silent:
	case r.Code == broker.OK:
		wire.AppendProduceResponse(ss.c.Reply(wire.ProduceResponseSize)[:0], p.correlation, &resp)
	default:
		s.stats.Errors++
		resp.Code, resp.ValidLow, resp.ValidHigh = codeOf(r.Code), r.Low, r.High
		resp.Class = 0
		resp.Message = message(r.Code, r.Message)
		ss.c.Write(wire.AppendProduceResponse(s.scratch[:0], p.correlation, &resp))
	}
	p.frame.Release()
	p.frame, p.ss, p.Batch = nil, nil, nil
	p.next, s.produces = s.produces, p
	s.ended(ss)
}
