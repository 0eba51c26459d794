package native

import (
	"time"

	"github.com/mqd-broker/mqd/broker"
	"github.com/mqd-broker/mqd/net/conn"
	"github.com/mqd-broker/mqd/net/waitlist"
	"github.com/mqd-broker/mqd/net/wire"
)

// fetchRequest is a fetch in flight: with the broker, parked, being converted, or
// being sent.
type fetchRequest struct {
	f           broker.Fetch
	peer        *peer
	correlation uint32
	encoding    wire.Encoding
	retry       bool                        // was parked and has been asked again
	released    bool                        // the broker has its memory back
	pinned      int                         // bytes being sent
	at          waitlist.Node[fetchRequest] // in peer.asked, peer.parked or Server.convert
	next        *fetchRequest               // in the pool
}

func (s *Server) newFetch() *fetchRequest {
	q := s.fetches
	if q == nil {
		q = new(fetchRequest)
		q.f.Owner = q
		return q
	}
	s.fetches, q.next = q.next, nil
	return q
}

// fetch takes a fetch request.
func (p *peer) fetch(h wire.Header, body []byte) {
	r, err := wire.DecodeFetchRequest(body)
	if err != nil {
		p.malformed(h, err)
		return
	}
	q := p.srv.newFetch()
	q.peer, q.correlation, q.encoding = p, h.Correlation, r.Encoding
	q.f.Topic, q.f.Partition, q.f.Offset = broker.TopicID(r.Topic), r.Partition, r.Offset
	q.f.MaxBytes, q.f.MaxRecords, q.f.MinBytes = clampInt(r.MaxBytes), clampInt(r.MaxRecords), clampInt(r.MinBytes)
	q.f.MaxWait = int64(r.MaxWait) * int64(time.Millisecond)
	p.began(0)
	q.ask()
}

// clampInt makes an int of a count that no limit is near to.
func clampInt(n uint32) int { return int(min(n, 1<<30)) }

// ask gives the fetch to the broker.
func (q *fetchRequest) ask() {
	p := q.peer
	p.asked.Push(&q.at, q)
	p.srv.b.Fetch(&q.f)
}

// Fetched takes the broker's answer.
func (q *fetchRequest) Fetched(f *broker.Fetch) {
	p := q.peer
	s := p.srv
	q.at.Leave()
	wasRetry := q.retry
	if wasRetry {
		q.retry, p.retrying = false, false
	}
	switch {
	case p.c.Over():
		q.finish()
		return
	case f.Bytes() == 0:
		q.head(codeOf(f.Code), 0, f.Next)
		q.finish()
	case p.pinned >= s.opts.MaxPinned:
		q.park()
	case q.encoding == wire.EncodingPlain:
		s.convertLater(q)
	default:
		q.head(codeOf(f.Code), f.Bytes(), f.Next)
		q.pin(f.Bytes())
		p.c.Lend(f.Pieces(), q)
	}
	if wasRetry {
		p.unpark()
	}
}

// head answers a fetch up to the batches, of which n bytes follow.
func (q *fetchRequest) head(code wire.Code, n int, next int64) {
	f := &q.f
	a := wire.FetchResponse{
		Code: code, Class: wire.Class(f.Class), Encoding: q.encoding,
		LogStart: f.LogStart, Durable: f.Durable, End: f.End, NewestAppendTime: f.NewestAppend, NextOffset: next,
	}
	if a.Code != wire.CodeNone {
		q.peer.srv.count.add(Failures)
	}
	wire.AppendFetchResponseHeader(q.peer.c.Reply(wire.FetchResponseHeaderSize)[:0], q.correlation, &a, n)
}

// pin counts the n bytes of an answer that waits to be sent.
func (q *fetchRequest) pin(n int) {
	q.pinned = n
	q.peer.pinned += n
}

// park gives an answer back that the peer has no room for.
func (q *fetchRequest) park() {
	p := q.peer
	p.srv.count.add(Parks)
	p.srv.b.Release(&q.f)
	p.parked.Push(&q.at, q)
}

// Sent ends a fetch whose answer has been sent, or which nobody wants any more.
func (q *fetchRequest) Sent(*conn.Conn) {
	p := q.peer
	p.pinned -= q.pinned
	q.release()
	p.unpark()
	q.end()
}

// finish gives the broker its memory back and ends the fetch.
func (q *fetchRequest) finish() {
	q.release()
	q.end()
}

func (q *fetchRequest) release() {
	if !q.released {
		q.released = true
		q.peer.srv.b.Release(&q.f)
	}
}

// end puts the fetch back.
func (q *fetchRequest) end() {
	p := q.peer
	s := p.srv
	q.peer, q.retry, q.released, q.pinned = nil, false, false, 0
	q.next, s.fetches = s.fetches, q
	p.done(0)
}

// unpark asks again for what was parked, one fetch at a time, while the peer
// reads.
func (p *peer) unpark() {
	for !p.retrying && p.pinned < p.srv.opts.MaxPinned && !p.c.Over() {
		q := p.parked.Pop()
		if q == nil {
			return
		}
		q.f.MaxWait, q.f.MinBytes = 0, 0
		q.retry, p.retrying = true, true
		q.ask()
	}
}
