package native

import (
	"math"
	"time"

	"github.com/mqd-broker/mqd/broker"
	"github.com/mqd-broker/mqd/broker/catalog"
	"github.com/mqd-broker/mqd/net/conn"
	"github.com/mqd-broker/mqd/net/wire"
)

// Broker is what the front door needs of the broker's part of a shard.
type Broker interface {
	ID() int
	Node() *broker.Node
	Image() *catalog.Image
	Produce(r *broker.Produce)
	Fetch(r *broker.Fetch)
	CancelFetch(r *broker.Fetch)
	Release(r *broker.Fetch)
	ListOffsets(r *broker.ListOffsets)
	Admin(r *broker.Admin)
}

// Options of a server. Zero fields take the defaults.
type Options struct {
	// Version is the program's version, told in hello.
	Version string
	// MaxInFlight bounds the requests of one connection that are not answered;
	// at the limit it is not read. Default 4096.
	MaxInFlight int
	// IdleTimeout is told in hello. Default 120 s.
	IdleTimeout time.Duration
	// PlainBytes bounds what one answer in plain encoding takes. Default 1 MiB.
	PlainBytes int
}

func (o Options) withDefaults() Options {
	if o.MaxInFlight == 0 {
		o.MaxInFlight = 4096
	}
	if o.IdleTimeout == 0 {
		o.IdleTimeout = 120 * time.Second
	}
	if o.PlainBytes == 0 {
		o.PlainBytes = 1 << 20
	}
	return o
}

// Server speaks the protocol on the connections of one shard. It implements
// conn.Protocol.
type Server struct {
	b     Broker
	conns *conn.Server
	opts  Options

	produces *produce // free
	fetches  *fetch   // free
	scratch  []byte   // of answers that are not hot
	stats    Stats
}

// Stats are counters, written by the loop alone.
type Stats struct {
	Frames, Produces, Fetches, Errors uint64
	// Outstanding requests of all connections.
	Outstanding int
}

// NewServer makes the server of a shard. Door opens it to connections.
func NewServer(b Broker, conns *conn.Server, o Options) *Server {
	return &Server{b: b, conns: conns, opts: o.withDefaults(), scratch: make([]byte, 0, 4096)}
}

// Stats returns the counters.
func (s *Server) Stats() Stats { return s.stats }

// Open adds the protocol's door to the shard's connections.
func (s *Server) Open() (*conn.Door, error) {
	return s.conns.Open(s, conn.DoorOptions{
		Name: "native", PrefixBytes: wire.HeaderSize, FrameLimit: wire.MaxFrameBeforeHello,
		IdleTimeout: s.opts.IdleTimeout,
	})
}

// session is a connection as the protocol sees it.
type session struct {
	c        *conn.Conn
	hello    bool // the hello has been answered, or is about to be on another shard
	moving   *greeting
	inFlight int
	paused   bool
	fetches  *fetch // not answered, linked by next
}

// greeting is a hello whose answer comes from the shard that the client wants.
type greeting struct {
	correlation uint32
	tenant      string
}

// Opened implements conn.Protocol.
func (s *Server) Opened(c *conn.Conn, app any) {
	ss := &session{c: c}
	c.User = ss
	if g, ok := app.(*greeting); ok {
		s.greet(ss, g)
	}
}

// FrameSize implements conn.Protocol. The limit is the connection's to hold.
func (s *Server) FrameSize(_ *conn.Conn, prefix []byte) (int, error) {
	h, err := wire.ParseHeader(prefix, math.MaxInt32)
	if err != nil {
		return 0, err
	}
	return h.FrameSize(), nil
}

// Frame implements conn.Protocol.
func (s *Server) Frame(c *conn.Conn, f *conn.Frame) conn.Verdict {
	ss := c.User.(*session)
	if ss.inFlight >= s.opts.MaxInFlight {
		ss.paused = true
		return conn.Later
	}
	s.stats.Frames++
	b := f.Bytes()
	h, err := wire.ParseHeader(b, math.MaxInt32)
	if err == nil {
		err = wire.CheckRequest(h)
	}
	if err != nil {
		s.refuse(c, h, err)
		return conn.Taken
	}
	body := b[wire.HeaderSize:]
	if !ss.hello {
		s.handshake(ss, h, body)
		return conn.Taken
	}
	switch h.Op {
	case wire.OpProduce:
		err = s.produce(ss, h, body, f)
	case wire.OpFetch:
		err = s.fetch(ss, h, body)
	case wire.OpPing:
		if err = wire.DecodePing(body); err == nil {
			c.Write(wire.AppendPingResponse(s.scratch[:0], h.Correlation))
		}
	default:
		err = s.rare(ss, h, body)
	}
	if err != nil {
		s.refuse(c, h, err)
	}
	return conn.Taken
}

// refuse answers a frame that cannot be taken. Its boundaries are known, so the
// connection goes on.
func (s *Server) refuse(c *conn.Conn, h wire.Header, err error) {
	s.stats.Errors++
	c.Write(wire.AppendErrorResponse(s.scratch[:0], h.Op, h.Correlation, wire.CodeOf(err), err.Error()))
}

// handshake takes the first frame.
func (s *Server) handshake(ss *session, h wire.Header, body []byte) {
	if h.Op != wire.OpHello {
		s.stats.Errors++
		ss.c.Write(wire.AppendErrorResponse(s.scratch[:0], h.Op, h.Correlation, wire.CodeHelloRequired, "the first frame must be hello"))
		ss.c.Finish()
		return
	}
	r, err := wire.DecodeHelloRequest(body)
	if err == nil && (r.MinProtocol > wire.Protocol || r.MaxProtocol < wire.Protocol) {
		err = wire.ErrUnsupportedVersion
	}
	if err != nil {
		s.refuse(ss.c, h, err)
		ss.c.Finish()
		return
	}
	ss.hello = true
	ss.c.Tenant = r.Tenant
	g := &greeting{correlation: h.Correlation, tenant: r.Tenant}
	if want := int(r.WantedShard); want >= 0 && want < s.b.Node().Shards() && want != s.b.ID() {
		ss.moving = g
		ss.c.Move(want, g)
		return
	}
	s.greet(ss, g)
}

// greet answers a hello on the shard where the connection stays.
func (s *Server) greet(ss *session, g *greeting) {
	ss.hello, ss.moving = true, nil
	ss.c.Tenant = g.tenant
	ss.c.Establish()
	limit := s.conns.MaxFrame()
	ss.c.SetLimit(limit)
	n := s.b.Node()
	ss.c.Write(wire.AppendHelloResponse(s.scratch[:0], g.correlation, wire.HelloResponse{
		Protocol: wire.Protocol, Shard: uint32(s.b.ID()), Shards: uint32(n.Shards()),
		MaxFrame: uint32(limit), MaxBatch: uint32(n.Options().MaxBatch),
		IdleTimeout: uint32(s.opts.IdleTimeout / time.Millisecond),
		NodeID:      n.ID(), ServerVersion: s.opts.Version,
	}))
}

// Broken implements conn.Protocol.
func (s *Server) Broken(c *conn.Conn, prefix []byte, err error) {
	s.stats.Errors++
	if len(prefix) < wire.HeaderSize {
		return
	}
	h, perr := wire.ParseHeader(prefix, math.MaxInt32)
	code, text := wire.CodeFrameTooLarge, err.Error()
	if perr != nil {
		code, text = wire.CodeOf(perr), perr.Error()
	}
	c.Write(wire.AppendErrorResponse(s.scratch[:0], h.Op, h.Correlation, code, text))
}

// Ended implements conn.Protocol: long polls are answered now.
func (s *Server) Ended(c *conn.Conn) { s.cancelFetches(c.User.(*session)) }

// Stayed implements conn.Protocol: the hello is answered here after all.
func (s *Server) Stayed(c *conn.Conn) {
	if ss := c.User.(*session); ss.moving != nil {
		s.greet(ss, ss.moving)
	}
}

// Closed implements conn.Protocol.
func (s *Server) Closed(c *conn.Conn, _ conn.Reason) { s.cancelFetches(c.User.(*session)) }

// began counts a request of the connection.
func (s *Server) began(ss *session) {
	ss.inFlight++
	s.stats.Outstanding++
	ss.c.Hold()
}

// ended counts its end and reads the connection again if it was at its limit.
func (s *Server) ended(ss *session) {
	ss.inFlight--
	s.stats.Outstanding--
	ss.c.Drop()
	if ss.paused && ss.inFlight <= s.opts.MaxInFlight/2 {
		ss.paused = false
		ss.c.Resume()
	}
}
