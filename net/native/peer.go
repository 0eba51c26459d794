package native

import (
	"github.com/mqd-broker/mqd/net/conn"
	"github.com/mqd-broker/mqd/net/waitlist"
	"github.com/mqd-broker/mqd/net/wire"
)

// peer is a connection as this protocol sees it.
type peer struct {
	srv *Server
	c   *conn.Conn

	greeted bool
	over    bool      // the connection is gone; requests may still be out
	bounded bool      // has its bound in flight and is not read
	busy    int       // long answers being made; meanwhile it is not read
	limit   uint32    // of a frame, bytes
	moving  *greeting // asked to be handed over

	inFlight      int
	inFlightBytes int
	waits         waitlist.Node[peer] // in Server.waiting

	asked    waitlist.List[fetchRequest] // fetches that the broker has
	parked   waitlist.List[fetchRequest] // answers given back, in order
	pinned   int                         // bytes lent by the engine and not sent
	retrying bool                        // a parked fetch has been asked again

	next *peer // in the pool
}

func peerOf(c *conn.Conn) *peer { return c.User.(*peer) }

func (s *Server) newPeer(c *conn.Conn) *peer {
	p := s.peers
	if p == nil {
		p = new(peer)
	} else {
		s.peers, p.next = p.next, nil
	}
	p.srv, p.c, p.limit = s, c, wire.MaxFrameBeforeHello
	c.User = p
	return p
}

// maybeGone puts a peer back whose connection is gone and whose requests are.
func (p *peer) maybeGone() {
	if !p.over || p.inFlight > 0 {
		return
	}
	s := p.srv
	*p = peer{next: s.peers}
	s.peers = p
}

// bound stops reading a connection that has its bound in flight.
func (p *peer) bound() {
	o := &p.srv.opts
	if !p.bounded && (p.inFlight >= o.MaxInFlightRequests || p.inFlightBytes >= o.MaxInFlightBytes) {
		p.bounded = true
		p.srv.count.add(Pauses)
		p.c.Pause()
	}
}

// unbound reads it again when a quarter of what is allowed has come back, so that
// it does not stop and go with every request.
func (p *peer) unbound() {
	o := &p.srv.opts
	if p.bounded && p.inFlight <= o.MaxInFlightRequests*3/4 && p.inFlightBytes <= o.MaxInFlightBytes*3/4 {
		p.bounded = false
		p.goOn()
	}
}

// goOn reads a connection again unless something else keeps it from being read.
func (p *peer) goOn() {
	if !p.bounded && p.busy == 0 && !p.waits.Waits() {
		p.c.Resume()
	}
}

// request takes a request of a connection that has said hello.
func (p *peer) request(h wire.Header, body []byte, f *conn.Frame) {
	s := p.srv
	if err := wire.CheckRequest(h); err != nil {
		p.refuse(h, wire.CodeOf(err), err.Error())
		return
	}
	switch h.Op {
	case wire.OpProduce:
		s.count.add(Produces)
		p.produce(h, body, f)
	case wire.OpFetch:
		s.count.add(Fetches)
		p.fetch(h, body)
	case wire.OpPing:
		s.count.add(Pings)
		p.ping(h, body)
	case wire.OpListOffsets:
		s.count.add(OffsetLookups)
		p.listOffsets(h, body)
	case wire.OpLag:
		s.count.add(LagRequests)
		p.lag(h, body)
	case wire.OpTopicTrim:
		s.count.add(TopicRequests)
		p.trim(h, body)
	case wire.OpMetadata:
		s.count.add(MetadataRequests)
		p.metadata(h, body)
	case wire.OpHello:
		p.refuse(h, wire.CodeMalformedFrame, "hello has been said")
	case wire.OpGroupCommit, wire.OpGroupOffsets, wire.OpGroupJoin, wire.OpGroupHeartbeat,
		wire.OpGroupLeave, wire.OpGroupAssign, wire.OpGroupForget, wire.OpGroupDelete,
		wire.OpGroupDescribe, wire.OpGroupList:
		s.count.add(GroupRequests)
		p.group(h, body)
	default:
		s.count.add(TopicRequests)
		p.topic(h, body)
	}
}

func (p *peer) ping(h wire.Header, body []byte) {
	if err := wire.DecodePing(body); err != nil {
		p.malformed(h, err)
		return
	}
	wire.AppendPingResponse(p.c.Reply(wire.HeaderSize)[:0], h.Correlation)
}

// malformed answers a request whose body does not decode.
func (p *peer) malformed(h wire.Header, err error) {
	p.refuse(h, wire.CodeOf(err), err.Error())
}

// refuse answers a frame with an error response.
func (p *peer) refuse(h wire.Header, code wire.Code, message string) {
	s := p.srv
	s.count.add(Refusals)
	p.write(wire.AppendErrorResponse(s.scratch[:0], h.Op, h.Correlation, code, message))
}

// write sends an answer that was encoded into the server's scratch memory.
func (p *peer) write(b []byte) {
	s := p.srv
	p.c.Write(b)
	if s.scratch = b[:0]; cap(b) > maxScratch {
		s.scratch = nil
	}
}

// maxScratch is how much scratch memory a server keeps, in bytes.
const maxScratch = 64 << 10

// cancelFetches has the broker answer all open fetches now. An answer may come
// inside the call, and takes its fetch out of the list.
func (p *peer) cancelFetches() {
	for n := p.asked.Len(); n > 0; n-- {
		q := p.asked.Pop()
		if q == nil {
			return
		}
		p.asked.Push(&q.at, q)
		p.srv.b.CancelFetch(&q.f)
	}
}
