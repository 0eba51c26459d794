package native

import (
	"math"

	"github.com/mqd-broker/mqd/broker"
	"github.com/mqd-broker/mqd/broker/catalog"
	"github.com/mqd-broker/mqd/net/conn"
	"github.com/mqd-broker/mqd/net/waitlist"
	"github.com/mqd-broker/mqd/net/wire"
)

// Broker is what the front door needs of a shard's broker; *broker.Shard has it.
type Broker interface {
	ID() int
	Node() *broker.Node
	Image() *catalog.Image
	Produce(r *broker.Produce)
	Fetch(r *broker.Fetch)
	Release(r *broker.Fetch)
	CancelFetch(r *broker.Fetch)
	ListOffsets(r *broker.ListOffsets)
	Admin(r *broker.Admin)
	Group(r *broker.Group)
}

var _ Broker = (*broker.Shard)(nil)

// Server speaks the protocol on one shard. It belongs to the shard's loop, and is
// driven by its connections and by the broker alone: it has no part in a turn of
// its own.
type Server struct {
	b     Broker
	conns *conn.Server
	opts  Options

	open    int                 // requests in flight
	waiting waitlist.List[peer] // connections that ask while there are too many

	produces *produceRequest
	fetches  *fetchRequest
	lookups  *lookupRequest
	lags     *lagRequest
	groups   *groupRequest
	peers    *peer

	converting int                         // works with helpers that make plain answers
	convert    waitlist.List[fetchRequest] // answers that wait to be converted
	inline     plainWork                   // converts on the loop
	slowBytes  int                         // estimated size of long answers being made

	scratch []byte // for answers of any length
	count   Counters
}

// NewServer makes the server of a shard for its broker and its connections.
func NewServer(b Broker, conns *conn.Server, o Options) *Server {
	s := &Server{b: b, conns: conns, opts: o.WithDefaults()}
	s.inline.srv = s
	return s
}

// Open adds the protocol's door to the shard's connections. The error is
// [ErrOptions] or conn.ErrOptions.
func (s *Server) Open() (*conn.Door, error) {
	if err := s.opts.validate(); err != nil {
		return nil, err
	}
	return s.conns.Open(s, conn.DoorOptions{
		Name:        "native",
		PrefixBytes: wire.HeaderSize,
		FrameLimit:  wire.MaxFrameBeforeHello,
		IdleTimeout: s.opts.IdleTimeout,
		MaxOutput:   2 * s.opts.MaxPinned,
	})
}

// Counters are the server's counters. Any goroutine may read them.
func (s *Server) Counters() *Counters { return &s.count }

// InFlight is the number of requests that are not answered. Loop only.
func (s *Server) InFlight() int { return s.open }

// Opened implements conn.Protocol.
func (s *Server) Opened(c *conn.Conn, app any) {
	p := s.newPeer(c)
	if g, ok := app.(*greeting); ok {
		p.welcome(g)
	}
}

// FrameSize implements conn.Protocol.
func (s *Server) FrameSize(c *conn.Conn, prefix []byte) (int, error) {
	h, err := wire.ParseHeader(prefix, peerOf(c).limit)
	return h.FrameSize(), err
}

// Frame implements conn.Protocol: it takes one request.
func (s *Server) Frame(c *conn.Conn, f *conn.Frame) conn.Verdict {
	p := peerOf(c)
	b := f.Bytes()
	h, err := wire.ParseHeader(b, math.MaxUint32)
	body := b[wire.HeaderSize:]
	switch {
	case err != nil: // FrameSize has seen this header
		p.refuse(h, wire.CodeInternal, err.Error())
	case !p.greeted:
		p.hello(h, body)
	case s.open >= s.opts.MaxRequests:
		s.count.add(ShardWaits)
		if !p.waits.Waits() {
			s.waiting.Push(&p.waits, p)
		}
		return conn.Later
	default:
		p.request(h, body, f)
		p.bound()
		s.wake()
	}
	return conn.Taken
}

// Broken implements conn.Protocol: frames cannot be told apart any more.
func (s *Server) Broken(c *conn.Conn, prefix []byte, err error) {
	p := peerOf(c)
	h, perr := wire.ParseHeader(prefix, p.limit)
	if perr == nil {
		perr = err
	}
	p.refuse(h, wire.CodeOf(perr), perr.Error())
}

// Ended implements conn.Protocol: nobody will ask any more, so nobody waits for
// new messages either.
func (s *Server) Ended(c *conn.Conn) { peerOf(c).cancelFetches() }

// Stayed implements conn.Protocol: the shard that the client wanted did not take
// the connection.
func (s *Server) Stayed(c *conn.Conn) {
	s.count.add(Stays)
	p := peerOf(c)
	p.welcome(p.moving)
	p.moving = nil
}

// Closed implements conn.Protocol.
func (s *Server) Closed(c *conn.Conn, _ conn.Reason) {
	p := peerOf(c)
	p.began(0) // so that p stays until the end of this call
	p.over = true
	p.waits.Leave()
	for q := p.parked.Pop(); q != nil; q = p.parked.Pop() {
		q.end()
	}
	p.cancelFetches()
	p.done(0)
}

// began counts a request of p, with n bytes of memory that it keeps.
func (p *peer) began(n int) {
	p.srv.open++
	p.inFlight++
	p.inFlightBytes += n
	p.c.Hold()
}

// done counts a request that is answered.
func (p *peer) done(n int) {
	s := p.srv
	s.open--
	p.inFlight--
	p.inFlightBytes -= n
	p.unbound()
	p.c.Drop()
	p.maybeGone()
	s.wake()
}

// wake lets connections ask that waited because the shard had too many requests.
// Whoever is woken has a frame that was not taken, so this is called again.
func (s *Server) wake() {
	for n := s.opts.MaxRequests - s.open; n > 0 && s.waiting.Len() > 0; n-- {
		s.waiting.Pop().goOn()
	}
}
