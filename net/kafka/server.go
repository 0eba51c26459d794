package kafka

import (
	"github.com/mqd-broker/mqd/broker"
	"github.com/mqd-broker/mqd/broker/catalog"
	"github.com/mqd-broker/mqd/net/conn"
	"github.com/mqd-broker/mqd/net/kafka/groups"
	"github.com/mqd-broker/mqd/net/waitlist"
)

// Broker is what the front door needs of a shard's broker; *broker.Shard has it.
type Broker interface {
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
// driven by its connections and by the broker alone.
type Server struct {
	b     Broker
	conns *conn.Server
	opts  Options
	host  string // that clients are told to connect to
	port  int32

	groups groups.Door

	open    int                 // partitions in the requests in flight
	waiting waitlist.List[peer] // connections that ask while there are too many
	heavy   int                 // as how many partitions large requests weigh, which count apart
	larges  waitlist.List[peer] // connections that ask one while those weigh too much

	produces     *produceRequest
	produceParts *producePart
	fetches      *fetchRequest
	fetchParts   *fetchPart
	peers        *peer

	slowBytes int                       // estimated size of long answers being made
	slow      waitlist.List[slowAnswer] // answers that wait for others to be made

	scratch []byte // for answers of any length
	refused refusals
	count   Counters
}

// NewServer makes the server of a shard for its broker and its connections.
func NewServer(b Broker, conns *conn.Server, o Options) *Server {
	return &Server{b: b, conns: conns, opts: o.WithDefaults(), groups: groups.Door{Broker: b, Node: nodeID}}
}

// Open adds the protocol's door to the shard's connections. The error is
// [ErrOptions] or conn.ErrOptions.
func (s *Server) Open() (*conn.Door, error) {
	if err := s.opts.validate(); err != nil {
		return nil, err
	}
	return s.conns.Open(s, conn.DoorOptions{
		Name:        "kafka",
		PrefixBytes: lengthSize,
		FrameLimit:  min(s.opts.MaxRequest, s.conns.LargestFrame()),
		IdleTimeout: s.opts.IdleTimeout,
		MaxOutput:   2 * s.opts.MaxPinned,
	})
}

// Advertise sets the address that clients are told to connect to. It is called before
// the first connection comes.
func (s *Server) Advertise(host string, port int32) {
	s.host, s.port = host, port
	s.groups.Host, s.groups.Port = host, port
}

// Counters are the server's counters. Any goroutine may read them.
func (s *Server) Counters() *Counters { return &s.count }

// InFlight is the number of partitions in the requests that are not answered, and as how
// many large ones weigh. Loop only.
func (s *Server) InFlight() int { return s.open + s.heavy }

// Opened implements conn.Protocol.
func (s *Server) Opened(c *conn.Conn, _ any) {
	p := s.peers
	if p == nil {
		p = new(peer)
	} else {
		s.peers, p.next = p.next, nil
	}
	p.srv, p.c = s, c
	c.User = p
}

// FrameSize implements conn.Protocol.
func (s *Server) FrameSize(_ *conn.Conn, prefix []byte) (int, error) { return frameSize(prefix) }

// Frame implements conn.Protocol: it takes one request.
func (s *Server) Frame(c *conn.Conn, f *conn.Frame) conn.Verdict {
	p := peerOf(c)
	h, err := parseHeader(f.Bytes())
	switch {
	case p.alone || p.inFlight > 0 && h.key != keyProduce:
		p.later = true
		return conn.Later
	case s.open >= s.opts.MaxRequests:
		return s.later(p, &s.waiting)
	case s.heavy >= s.opts.MaxRequests && s.large(weight(&h, len(f.Bytes()))):
		return s.later(p, &s.larges)
	case err != nil && h.key == keyAPIVersions && h.version > find(keyAPIVersions).Max:
		p.versionTooHigh(h)
	case err != nil:
		p.refuse(err)
	default:
		c.Establish()
		p.request(&h, f)
		p.bound()
	}
	s.wake()
	return conn.Taken
}

// later has a connection wait in a list. It has asked: what it waits for is no handshake.
func (s *Server) later(p *peer, list *waitlist.List[peer]) conn.Verdict {
	s.count.add(ShardWaits)
	p.c.Establish()
	if !p.waits.Waits() {
		list.Push(&p.waits, p)
	}
	return conn.Later
}

// Broken implements conn.Protocol: frames cannot be told apart any more. Kafka has no
// answer to that.
func (s *Server) Broken(c *conn.Conn, _ []byte, err error) { s.note(c, err) }

// Ended implements conn.Protocol: nobody will ask any more, so nobody waits for new
// messages either.
func (s *Server) Ended(c *conn.Conn) { peerOf(c).cancel() }

// Stayed implements conn.Protocol. Connections of this protocol do not move.
func (s *Server) Stayed(*conn.Conn) {}

// Closed implements conn.Protocol.
func (s *Server) Closed(c *conn.Conn, _ conn.Reason) {
	p := peerOf(c)
	p.began(0, 0) // so that p stays until the end of this call
	p.over = true
	p.waits.Leave()
	p.cancel()
	p.done(0, 0)
}

// wake lets connections ask that waited because the shard had too many requests.
// Whoever is woken has a frame that was not taken, so this is called again.
func (s *Server) wake() {
	for n := s.opts.MaxRequests - s.open; n > 0 && s.waiting.Len() > 0; n-- {
		s.waiting.Pop().goOn()
	}
	if s.heavy < s.opts.MaxRequests && s.open < s.opts.MaxRequests && s.larges.Len() > 0 {
		s.larges.Pop().goOn()
	}
}

// large reports whether a request of some weight counts apart, so that others need not wait
// for it.
func (s *Server) large(weight int) bool { return weight > s.opts.MaxRequests/16 }

// refusals are connections that were closed, and not told of yet.
type refusals struct {
	n     int
	since int64 // loop time at which the last ones were told of
}

// refusalsEvery is how often they are told of, in nanoseconds.
const refusalsEvery = int64(1e9)

// note counts a connection that is closed because of what it sent, and tells why.
func (s *Server) note(c *conn.Conn, why error) {
	s.count.add(Refusals)
	r, now := &s.refused, s.conns.Loop().Now()
	r.n++
	if r.since != 0 && now-r.since < refusalsEvery {
		return
	}
	s.opts.Refused(c.RemoteAddr(), why, r.n)
	r.n, r.since = 0, max(now, 1)
}
