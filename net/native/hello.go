package native

import (
	"fmt"

	"github.com/mqd-broker/mqd/net/wire"
)

// greeting is a hello that was accepted and is to be answered by the shard on
// which the connection lands.
type greeting struct {
	correlation uint32
}

// maxName bounds what a client calls itself and its tenant, in bytes: the tenant stays with
// the connection.
const maxName = 255

// hello takes the first frame of a connection. What does not please ends it.
func (p *peer) hello(h wire.Header, body []byte) {
	err := wire.CheckRequest(h)
	if h.Op != wire.OpHello {
		p.refuse(h, wire.CodeHelloRequired, "the first frame is hello")
		p.c.Finish()
		return
	}
	var r wire.HelloRequest
	if err == nil {
		r, err = wire.DecodeHelloRequest(body)
	}
	code := wire.CodeOf(err)
	switch {
	case err != nil:
	case r.MinProtocol > wire.Protocol || r.MaxProtocol < wire.Protocol:
		code = wire.CodeUnsupportedVersion
		err = fmt.Errorf("protocol versions %d to %d, this broker speaks %d", r.MinProtocol, r.MaxProtocol, wire.Protocol)
	case len(r.ClientID) > maxName || len(r.Tenant) > maxName:
		code = wire.CodeMalformedFrame
		err = fmt.Errorf("a client id of %d bytes, a tenant of %d, expected at most %d", len(r.ClientID), len(r.Tenant), maxName)
	case r.AuthMechanism != "" || len(r.Auth) > 0:
		code = wire.CodeAuthFailed
		err = fmt.Errorf("authentication %q: this broker has none", r.AuthMechanism)
	}
	if err != nil {
		p.refuse(h, code, err.Error())
		p.c.Finish()
		return
	}
	p.c.Tenant = r.Tenant
	g := &greeting{correlation: h.Correlation}
	want, s := int(r.WantedShard), p.srv
	if want < 0 || want >= s.b.Node().Shards() || want == s.b.ID() {
		p.welcome(g)
		return
	}
	s.count.add(HandOvers)
	p.moving = g
	p.c.Move(want, g)
}

// welcome answers a hello.
func (p *peer) welcome(g *greeting) {
	s := p.srv
	n := s.b.Node()
	p.greeted = true
	p.limit = uint32(s.conns.MaxFrame())
	p.c.SetLimit(s.conns.MaxFrame())
	p.c.Establish()
	s.count.add(Hellos)
	p.write(wire.AppendHelloResponse(s.scratch[:0], g.correlation, wire.HelloResponse{
		Protocol:      wire.Protocol,
		Shard:         uint32(s.b.ID()),
		Shards:        uint32(n.Shards()),
		MaxFrame:      uint32(s.conns.MaxFrame()),
		MaxBatch:      uint32(n.Options().MaxBatch),
		IdleTimeout:   uint32(s.opts.IdleTimeout.Milliseconds()),
		NodeID:        n.ID(),
		ServerVersion: s.opts.Version,
	}))
}
