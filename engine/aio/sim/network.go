package sim

import (
	"strconv"
	"strings"
	"syscall"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/fifo"
)

const (
	// backlog is the number of connections that wait to be accepted.
	backlog = 4096
	// firstPort is where ports begin that the network gives out.
	firstPort = 32768
)

// network is what connects sockets. A handle of a socket is used once, so that a
// late use of a closed one is noticed.
type network struct {
	socks     []*sock
	listeners []*sock
	port      int
}

// sock is one end of a connection, or a listener.
type sock struct {
	w      *World
	id     aio.Sock
	side   side
	host   string
	port   int
	mode   aio.ListenMode
	listen bool

	peer    *sock // the other end; nil for a listener
	in      stream
	recv    armed
	accept  armed
	send    armed // the send in flight
	pending fifo.Queue[aio.Sock]
	conn    *conn // the user, when that is a goroutine

	shut   bool // both directions ended from here
	closed bool
	reset  bool
}

// armed is an operation that waits on a socket.
type armed struct {
	d    *Driver
	slot uint32
}

func (w *World) newSock(on side, host string, port int) *sock {
	s := &sock{w: w, id: aio.Sock(len(w.net.socks)), side: on, host: host, port: port}
	s.in.mem, s.in.limit = w.opt.Memory, w.opt.SocketBuffer
	w.net.socks = append(w.net.socks, s)
	return s
}

// sock is the open socket that id means, or nil.
func (w *World) sock(id aio.Sock) *sock {
	if id < 0 || int(id) >= len(w.net.socks) {
		return nil
	}
	return w.net.socks[id]
}

func (s *sock) addr() string { return joinAddr(s.host, s.port) }

func joinAddr(host string, port int) string {
	if strings.IndexByte(host, ':') >= 0 {
		host = "[" + host + "]"
	}
	return host + ":" + strconv.Itoa(port)
}

// splitAddr takes "host:port" apart; an empty or wildcard host is "".
func splitAddr(addr string) (host string, port int, err error) {
	at := strings.LastIndexByte(addr, ':')
	if at < 0 {
		return "", 0, syscall.EINVAL
	}
	host = strings.TrimSuffix(strings.TrimPrefix(addr[:at], "["), "]")
	port, err = strconv.Atoi(addr[at+1:])
	if err != nil || port < 0 || port > 65535 {
		return "", 0, syscall.EINVAL
	}
	switch host {
	case "0.0.0.0", "::":
		host = ""
	case "localhost":
		host = "127.0.0.1"
	}
	return host, port, nil
}

// clash reports whether two hosts mean the same address of the machine.
func clash(a, b string) bool { return a == b || a == "" || b == "" }

// freePort gives out the next port that nobody listens on.
func (n *network) freePort() int {
	for {
		n.port++
		port := firstPort + n.port%(65536-firstPort)
		taken := false
		for _, l := range n.listeners {
			taken = taken || l.port == port
		}
		if !taken {
			return port
		}
	}
}

// Listen opens a listening socket; port 0 takes a free one.
func (d *Driver) Listen(addr string, mode aio.ListenMode) (aio.Sock, string, error) {
	w := d.w
	w.mu.Lock()
	defer w.mu.Unlock()
	host, port, err := splitAddr(addr)
	if err == nil && d.dead {
		err = aio.ErrClosed
	}
	if err != nil {
		return aio.NoSock, "", fsError("listen", addr, err)
	}
	if port == 0 {
		port = w.net.freePort()
	}
	for _, l := range w.net.listeners {
		alone := mode == aio.ListenAlone || l.mode == aio.ListenAlone
		if l.port == port && clash(l.host, host) && alone {
			return aio.NoSock, "", fsError("listen", addr, syscall.EADDRINUSE)
		}
	}
	s := w.newSock(d.side, host, port)
	s.listen, s.mode = true, mode
	w.net.listeners = append(w.net.listeners, s)
	if host == "" {
		host = "0.0.0.0"
	}
	return s.id, joinAddr(host, port), nil
}

// Dial opens a connection. Like a kernel's it succeeds when somebody listens,
// before the other side has accepted.
func (d *Driver) Dial(addr string) (aio.Sock, error) {
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	if d.dead {
		return aio.NoSock, fsError("dial", addr, aio.ErrClosed)
	}
	s, err := d.w.connect(addr, d.side)
	if err != nil {
		return aio.NoSock, fsError("dial", addr, err)
	}
	return s.id, nil
}

// connect makes a connection to one of the listeners on addr.
func (w *World) connect(addr string, on side) (*sock, error) {
	host, port, err := splitAddr(addr)
	if err != nil {
		return nil, err
	}
	if host == "" {
		host = "127.0.0.1"
	}
	var fit []*sock
	for _, l := range w.net.listeners {
		if l.port == port && clash(l.host, host) {
			fit = append(fit, l)
		}
	}
	if len(fit) == 0 {
		return nil, syscall.ECONNREFUSED
	}
	l := fit[w.rng.Below(int64(len(fit)))]
	if l.pending.Len() >= backlog {
		return nil, syscall.ETIMEDOUT
	}
	near := w.newSock(on, "127.0.0.1", w.net.freePort())
	far := w.newSock(l.side, host, port)
	near.peer, far.peer = far, near
	w.at(w.draw(w.opt.Latency.Net), event{kind: evConnect, sock: l, other: far})
	return near, nil
}

// PeerAddr is the address of the other end.
func (d *Driver) PeerAddr(id aio.Sock) string {
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	s := d.w.sock(id)
	if s == nil || s.peer == nil {
		return ""
	}
	return s.peer.addr()
}

// arrived hands a new connection to the listener l.
func (l *sock) arrived(far *sock) {
	if l.closed || l.shut {
		far.die()
		return
	}
	l.pending.Push(far.id)
	l.feedAccept()
}

// feedAccept completes the armed accept with the connections that wait.
func (l *sock) feedAccept() {
	for l.accept.d != nil && l.pending.Len() > 0 {
		l.accept.d.finish(l.accept.slot, result{sock: l.pending.Take(), more: true})
	}
	if l.accept.d != nil && l.shut {
		l.accept.end(result{sock: aio.NoSock, err: l.fail("accept", syscall.EINVAL)})
	}
}

// end completes the operation for good.
func (a *armed) end(r result) {
	d, slot := a.d, a.slot
	*a = armed{}
	d.finish(slot, r)
}

// fail is an error of an operation on s.
func (s *sock) fail(what string, err error) error { return sockError(what, s.id, err) }

func sockError(what string, id aio.Sock, err error) error {
	return &aio.Error{Op: what, What: "socket " + strconv.Itoa(int(id)), Off: -1, Err: err}
}
