package admin

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"sync"
)

// crowd are the connections of a front. There is a bound to them, and it never keeps
// anybody out who has something to ask: one that is not being answered gives its place to a
// new one.
type crowd struct {
	net.Listener
	most int

	mu    sync.Mutex
	conns []*guest // in the order in which they came
}

// guest is a connection.
type guest struct {
	net.Conn
	crowd *crowd
	from  netip.Addr
	// busy says that a request of it is being answered.
	busy bool
}

// gather has l accept connections, of which up to most stay.
func gather(l net.Listener, most int) *crowd { return &crowd{Listener: l, most: most} }

// Accept waits for a connection. When there are too many, the oldest of those that only
// send, or only wait, is closed: one of the address that has most of them. When all are being
// answered the new one is closed.
func (c *crowd) Accept() (net.Conn, error) {
	for {
		conn, err := c.Listener.Accept()
		if err != nil {
			return nil, err
		}
		g := &guest{Conn: conn, crowd: c, from: addressOf(conn)}
		out := c.enter(g)
		if out != nil {
			_ = out.Conn.Close() // nobody waits for what it says
		}
		if out != g {
			return g, nil
		}
	}
}

// enter gives a connection a place and returns the one that loses its own, nil for none. It
// is the new one if nobody else can go.
func (c *crowd) enter(g *guest) *guest {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out *guest
	if len(c.conns) >= c.most {
		if out = c.leastMissed(); out == nil {
			return g
		}
		c.remove(out)
	}
	c.conns = append(c.conns, g)
	return out
}

// leastMissed is the oldest connection that is not being answered, of the address that has
// most of those.
func (c *crowd) leastMissed() (out *guest) {
	waiting := map[netip.Addr]int{}
	for _, g := range c.conns {
		if !g.busy {
			waiting[g.from]++
		}
	}
	for _, g := range c.conns {
		if !g.busy && (out == nil || waiting[g.from] > waiting[out.from]) {
			out = g
		}
	}
	return out
}

func (c *crowd) remove(g *guest) {
	for i, other := range c.conns {
		if other == g {
			c.conns = append(c.conns[:i], c.conns[i+1:]...)
			return
		}
	}
}

// Close closes it and gives its place back.
func (g *guest) Close() error {
	g.crowd.mu.Lock()
	g.crowd.remove(g)
	g.crowd.mu.Unlock()
	return g.Conn.Close()
}

// addressOf is where a connection comes from, without the port.
func addressOf(c net.Conn) netip.Addr {
	peer, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return netip.Addr{} // as of a peer that has gone
	}
	return peer.Addr().Unmap()
}

// guestKey is that of the guest in a request's context.
type guestKey struct{}

// withGuest puts a connection into the context of its requests.
func withGuest(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, guestKey{}, c)
}

// attended notes which connections are being answered.
func attended(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g, ok := r.Context().Value(guestKey{}).(*guest); ok {
			g.attend(true)
			defer g.attend(false)
		}
		h.ServeHTTP(w, r)
	})
}

func (g *guest) attend(busy bool) {
	g.crowd.mu.Lock()
	g.busy = busy
	g.crowd.mu.Unlock()
}
