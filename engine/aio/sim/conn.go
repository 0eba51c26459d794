package sim

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
)

// conn is one end of a connection for goroutines: a net.Conn.
type conn struct {
	s    *sock
	cond *sync.Cond // on the world's mutex
	// Guarded by the world's mutex.
	read, write deadline
	noMore      bool // CloseWrite was called
	closed      bool
}

// deadline is a time after which calls fail.
type deadline struct {
	timer *time.Timer
	over  bool
}

var _ net.Conn = (*conn)(nil)

// DialConn opens a connection from outside the machine, for code that uses
// goroutines, such as the Go client. The world must be a RealTime one.
func (w *World) DialConn(addr string) (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.opt.Mode != RealTime {
		return nil, fsError("dial", addr, syscall.EOPNOTSUPP)
	}
	s, err := w.connect(addr, client)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: fsError("dial", addr, err)}
	}
	c := &conn{s: s, cond: sync.NewCond(&w.mu)}
	s.conn = c
	w.runDue()
	w.arm()
	return c, nil
}

func (c *conn) opError(op string, err error) error {
	return &net.OpError{Op: op, Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
}

// Read receives into b.
func (c *conn) Read(b []byte) (int, error) {
	s, w := c.s, c.s.w
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		switch {
		case c.closed:
			return 0, c.opError("read", net.ErrClosed)
		case c.read.over:
			return 0, c.opError("read", os.ErrDeadlineExceeded)
		case len(b) == 0:
			return 0, nil
		case s.in.available() > 0:
			n := min(len(b), s.in.available())
			s.in.take(b[:n])
			s.peer.pump()
			w.runDue()
			w.arm()
			return n, nil
		case s.reset:
			return 0, c.opError("read", syscall.ECONNRESET)
		case s.in.fin:
			return 0, io.EOF
		}
		c.cond.Wait()
	}
}

// Write sends all of b.
func (c *conn) Write(b []byte) (int, error) {
	s, w := c.s, c.s.w
	w.mu.Lock()
	defer w.mu.Unlock()
	for sent := 0; ; {
		switch err := s.writable(); {
		case c.closed:
			return sent, c.opError("write", net.ErrClosed)
		case c.noMore:
			return sent, c.opError("write", syscall.EPIPE)
		case c.write.over:
			return sent, c.opError("write", os.ErrDeadlineExceeded)
		case err != 0:
			return sent, c.opError("write", err)
		}
		sent += s.put(b[sent:])
		w.runDue()
		w.arm()
		if sent == len(b) {
			return sent, nil
		}
		if s.peer.in.space() == 0 {
			c.cond.Wait()
		}
	}
}

// CloseWrite ends the direction to the other side and leaves the other open.
func (c *conn) CloseWrite() error {
	w := c.s.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if !c.noMore && !c.closed {
		c.noMore = true
		c.s.endOut()
		w.runDue()
		w.arm()
	}
	return nil
}

// Close ends the connection.
func (c *conn) Close() error {
	w := c.s.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.closed {
		return c.opError("close", net.ErrClosed)
	}
	c.closed = true
	c.s.shut = c.noMore
	c.s.close()
	c.read.stop()
	c.write.stop()
	c.cond.Broadcast()
	w.runDue()
	w.arm()
	return nil
}

// LocalAddr is the address of this end.
func (c *conn) LocalAddr() net.Addr { return tcpAddr(c.s) }

// RemoteAddr is the address of the other end.
func (c *conn) RemoteAddr() net.Addr { return tcpAddr(c.s.peer) }

func tcpAddr(s *sock) net.Addr { return &net.TCPAddr{IP: net.ParseIP(s.host), Port: s.port} }

// SetDeadline limits reads and writes.
func (c *conn) SetDeadline(t time.Time) error {
	c.set(t, &c.read, &c.write)
	return nil
}

// SetReadDeadline limits reads.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.set(t, &c.read)
	return nil
}

// SetWriteDeadline limits writes.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.set(t, &c.write)
	return nil
}

func (c *conn) set(t time.Time, which ...*deadline) {
	mu := &c.s.w.mu
	mu.Lock()
	defer mu.Unlock()
	for _, d := range which {
		d.stop()
		left := until(t)
		if d.over = !t.IsZero() && left <= 0; d.over || t.IsZero() {
			continue
		}
		var mine *time.Timer
		mine = later(left, func() {
			mu.Lock()
			defer mu.Unlock()
			if d.timer == mine {
				d.over = true
				c.cond.Broadcast()
			}
		})
		d.timer = mine
	}
	c.cond.Broadcast()
}

func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
}

// Reset breaks the connection that s is an end of, at both ends.
func (w *World) Reset(id aio.Sock) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := w.sock(id); s != nil && s.peer != nil {
		w.at(0, event{kind: evReset, sock: s})
		w.at(0, event{kind: evReset, sock: s.peer})
		w.arm()
	}
}

// CloseWrite ends the direction of the connection that leads away from s, and
// leaves the other open: a peer's half close.
func (w *World) CloseWrite(id aio.Sock) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := w.sock(id); s != nil && s.peer != nil {
		s.endOut()
		w.arm()
	}
}
