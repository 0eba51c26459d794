package mqdtest

import (
	"bufio"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mqd-broker/mqd/net/wire"
)

// network is what tests have said of the way to the broker.
type network struct {
	lost    atomic.Int64 // acknowledgements that are still to be lost
	latency atomic.Int64 // of answers, in nanoseconds
}

// loses reports whether a frame is an acknowledgement that is to be lost.
func (n *network) loses(frame []byte) bool {
	h, err := wire.ParseHeader(frame, uint32(len(frame)))
	if err != nil || h.Op != wire.OpProduce || n.lost.Load() <= 0 {
		return false
	}
	r, err := wire.DecodeProduceResponse(frame[wire.HeaderSize:])
	return err == nil && r.Code == wire.CodeNone && n.lost.Add(-1) >= 0
}

// relay stands between clients and a broker: it listens where the broker seems to, so that
// programs under test meet the faults of the network whoever dials for them.
type relay struct {
	listener net.Listener // nil: connections are pipes
	dial     func() (net.Conn, error)
	net      *network
	ending   chan struct{}
	work     sync.WaitGroup

	mu     sync.Mutex
	conns  map[net.Conn]struct{} // nil when no more are taken
	closed bool                  // nor by connect
}

// newRelay listens at an address for a broker that dial reaches.
func newRelay(addr string, dial func() (net.Conn, error), n *network) (*relay, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	r := newPipes(dial, n)
	r.listener = l
	r.work.Go(r.accept)
	return r, nil
}

// newPipes makes a relay whose connections come from connect.
func newPipes(dial func() (net.Conn, error), n *network) *relay {
	return &relay{dial: dial, net: n, ending: make(chan struct{}), conns: map[net.Conn]struct{}{}}
}

// connect makes a connection to the broker, a pipe; nil when no more are taken.
func (r *relay) connect() net.Conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.conns == nil || r.closed {
		return nil
	}
	mine, near := net.Pipe()
	r.work.Go(func() { r.serve(near) })
	return mine
}

// close takes no more connections.
func (r *relay) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	if r.listener != nil {
		_ = r.listener.Close()
	}
}

// end returns when all connections have ended, which the broker has to end; there will be
// no more. Answers that are late arrive now.
func (r *relay) end() {
	r.close()
	close(r.ending)
	r.work.Wait()
}

// cut ends all connections.
func (r *relay) cut() {
	r.mu.Lock()
	for c := range r.conns {
		_ = c.Close()
	}
	r.conns = nil
	r.mu.Unlock()
	r.end()
}

func (r *relay) accept() {
	for {
		near, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.work.Go(func() { r.serve(near) })
	}
}

// track keeps a connection for cut.
func (r *relay) track(c net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.conns == nil {
		return false
	}
	r.conns[c] = struct{}{}
	return true
}

func (r *relay) forget(c net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, c)
	_ = c.Close()
}

// serve carries bytes both ways until one side ends. What the broker has sent by then still
// arrives.
func (r *relay) serve(near net.Conn) {
	defer r.forget(near)
	if !r.track(near) {
		return
	}
	far, err := r.dial()
	if err != nil {
		return // nobody is there
	}
	defer r.forget(far)
	if !r.track(far) {
		return
	}
	answers := make(chan answer, 64)
	var both sync.WaitGroup
	both.Go(func() {
		_, _ = io.Copy(far, near)
		_ = far.Close()
	})
	both.Go(func() {
		r.read(far, answers)
		close(answers)
	})
	r.deliver(near, answers)
	_ = near.Close()
	_ = far.Close()
	for range answers {
	}
	both.Wait()
}

// answer is a frame of the broker, and when it may arrive.
type answer struct {
	frame []byte
	due   time.Time
}

// read takes the broker's frames apart, up to the end or an acknowledgement that is lost.
func (r *relay) read(far net.Conn, to chan<- answer) {
	src := bufio.NewReaderSize(far, 64<<10)
	for {
		head, err := src.Peek(wire.HeaderSize)
		if err != nil {
			return
		}
		h, err := wire.ParseHeader(head, maxFrame)
		if err != nil {
			return
		}
		frame := make([]byte, h.FrameSize())
		if _, err := io.ReadFull(src, frame); err != nil {
			return
		}
		if r.net.loses(frame) {
			return
		}
		to <- answer{frame, time.Now().Add(time.Duration(r.net.latency.Load()))}
	}
}

// maxFrame bounds a frame of the broker, in bytes.
const maxFrame = 128 << 20

// deliver writes answers when they are due, or the relay ends, until there are none or nobody
// takes them.
func (r *relay) deliver(near net.Conn, answers <-chan answer) {
	wait := time.NewTimer(0)
	defer wait.Stop()
	for a := range answers {
		if d := time.Until(a.due); d > 0 {
			wait.Reset(d)
			select {
			case <-wait.C:
			case <-r.ending:
			}
		}
		if _, err := near.Write(a.frame); err != nil {
			return
		}
	}
}
