package native

import (
	"github.com/mqd-broker/mqd/broker"
	"github.com/mqd-broker/mqd/broker/lag"
	"github.com/mqd-broker/mqd/net/wire"
)

// lagRequest is a lag request in flight.
type lagRequest struct {
	peer        *peer
	correlation uint32
	row         [1]lag.Row
	look        lag.Look
	next        *lagRequest // in the pool
}

func (s *Server) newLag() *lagRequest {
	q := s.lags
	if q == nil {
		return new(lagRequest)
	}
	s.lags, q.next = q.next, nil
	return q
}

// lag takes a lag request.
func (p *peer) lag(h wire.Header, body []byte) {
	r, err := wire.DecodeLagRequest(body)
	if err != nil {
		p.malformed(h, err)
		return
	}
	q := p.srv.newLag()
	q.peer, q.correlation = p, h.Correlation
	q.row[0] = lag.Row{Topic: broker.TopicID(r.Topic), Partition: r.Partition, Next: r.Offset}
	p.began(0)
	q.look.Begin(p.srv.b, q.row[:], q)
}

// Pause has nothing to do: one row takes no pauses.
func (q *lagRequest) Pause(l *lag.Look) { l.Go() }

// Over implements lag.Host.
func (q *lagRequest) Over() bool { return q.peer.c.Over() }

// Looked answers.
func (q *lagRequest) Looked(code broker.Code) {
	p, r := q.peer, &q.row[0]
	s := p.srv
	if code == broker.OK {
		code = r.Code
	}
	a := wire.LagResponse{Start: r.Start, End: r.End, Lag: r.Records, Bytes: r.Bytes, LagTime: int64(r.Behind)}
	if code != broker.OK {
		s.count.add(Failures)
		a = wire.LagResponse{Code: codeOf(code), Start: -1, End: -1, Lag: -1, Bytes: -1, LagTime: -1}
	}
	p.write(wire.AppendLagResponse(s.scratch[:0], q.correlation, a))
	q.peer = nil
	q.next, s.lags = s.lags, q
	p.done(0)
}
