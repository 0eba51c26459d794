package admin

import (
	"net"
	"sync"
)

// limited accepts no more connections than it has places for.
type limited struct {
	net.Listener
	places chan struct{} // a value for each connection
	closed chan struct{}
	once   sync.Once
}

// limit has l accept up to n connections at a time. What comes beyond waits in the
// kernel's queue, which is bounded too.
func limit(l net.Listener, n int) net.Listener {
	return &limited{Listener: l, places: make(chan struct{}, n), closed: make(chan struct{})}
}

// Accept waits for a connection, and for a place.
func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.places <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.places
		return nil, err
	}
	return &placed{Conn: c, places: l.places}, nil
}

// Close ends accepting.
func (l *limited) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// placed is a connection that gives its place back when it is closed.
type placed struct {
	net.Conn
	places chan struct{}
	once   sync.Once
}

// Close closes it.
func (c *placed) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { <-c.places })
	return err
}
