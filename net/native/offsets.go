package native

import (
	"github.com/mqd-broker/mqd/broker"
	"github.com/mqd-broker/mqd/net/wire"
)

// lookupRequest is a list-offsets request in flight.
type lookupRequest struct {
	b           broker.ListOffsets
	peer        *peer
	correlation uint32
	next        *lookupRequest // in the pool
}

func (s *Server) newLookup() *lookupRequest {
	q := s.lookups
	if q == nil {
		q = new(lookupRequest)
		q.b.Owner = q
		return q
	}
	s.lookups, q.next = q.next, nil
	return q
}

// listOffsets takes a list-offsets request.
func (p *peer) listOffsets(h wire.Header, body []byte) {
	r, err := wire.DecodeListOffsetsRequest(body)
	if err != nil {
		p.malformed(h, err)
		return
	}
	q := p.srv.newLookup()
	q.peer, q.correlation = p, h.Correlation
	q.b.Topic, q.b.Partition, q.b.Time, q.b.Trim = broker.TopicID(r.Topic), r.Partition, r.Time, false
	p.began(0)
	p.srv.b.ListOffsets(&q.b)
}

// trim takes a topic-trim request.
func (p *peer) trim(h wire.Header, body []byte) {
	r, err := wire.DecodeTopicTrimRequest(body)
	if err != nil {
		p.malformed(h, err)
		return
	}
	if t := p.srv.b.Image().ByID(broker.TopicID(r.Topic)); t != nil && t.Internal() {
		p.write(wire.AppendTopicTrimResponse(p.srv.scratch[:0], h.Correlation, wire.TopicTrimResponse{
			Code: wire.CodeInvalidTopic, LogStart: -1, Message: "the topic is the broker's own",
		}))
		return
	}
	q := p.srv.newLookup()
	q.peer, q.correlation = p, h.Correlation
	q.b.Topic, q.b.Partition, q.b.Time, q.b.Trim = broker.TopicID(r.Topic), r.Partition, r.Offset, true
	p.began(0)
	p.srv.b.ListOffsets(&q.b)
}

// OffsetsListed answers a list-offsets or topic-trim request.
func (q *lookupRequest) OffsetsListed(r *broker.ListOffsets) {
	p := q.peer
	s := p.srv
	a := wire.ListOffsetsResponse{Code: codeOf(r.Code), Offset: r.Offset, Timestamp: r.Timestamp}
	if a.Code != wire.CodeNone {
		s.count.add(Failures)
	}
	if r.Trim {
		p.write(wire.AppendTopicTrimResponse(s.scratch[:0], q.correlation, wire.TopicTrimResponse{
			Code: a.Code, LogStart: a.Offset, Message: messageOf(r.Code, r.Message),
		}))
	} else {
		p.write(wire.AppendListOffsetsResponse(s.scratch[:0], q.correlation, a))
	}
	q.peer = nil
	q.next, s.lookups = s.lookups, q
	p.done(0)
}
