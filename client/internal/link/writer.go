package link

import (
	"fmt"
	"net"
	"time"

	"github.com/mqd-broker/mqd/net/wire"
)

const (
	// roundRequests is how many requests one turn takes from the queue.
	roundRequests = 64

	// stageSize is how many bytes of frames are copied together for one write.
	// More than that is written with a gather list.
	stageSize = 64 << 10

	// roundBytes is when a write begins although more frames could be encoded.
	roundBytes = 256 << 10
)

// outbox holds the requests that are being written. Encoded frames that are
// small together are copied into one piece; that costs less than a gather list.
type outbox struct {
	reqs  []Request
	corrs []uint32
	next  int // first request whose frame is not written completely
	coded int // first request that is not encoded

	ends  []int // of encoded frames, in bytes of this write
	total int   // bytes of this write
	done  int   // bytes of it that are written
	stage []byte
	iov   [][]byte
	bufs  net.Buffers
}

func (o *outbox) empty() bool { return o.next == len(o.reqs) }

// take moves requests from the link's queue into the empty outbox and gives
// them correlation ids. The link's lock is held.
func (o *outbox) take(l *Link) {
	n := min(len(l.queue), roundRequests)
	clear(o.reqs)
	o.reqs = append(o.reqs[:0], l.queue[:n]...)
	rest := copy(l.queue, l.queue[n:])
	clear(l.queue[rest:])
	l.queue = l.queue[:rest]
	o.corrs = o.corrs[:0]
	for _, r := range o.reqs {
		l.corr++
		for l.waiting[l.corr] != nil {
			l.corr++
		}
		o.corrs = append(o.corrs, l.corr)
		if r.Answered() {
			l.waiting[l.corr] = r
		}
	}
	o.next, o.coded, o.total, o.done = 0, 0, 0, 0
	o.ends = o.ends[:0]
}

// encode prepares the next write if the last one is complete.
func (o *outbox) encode(limit int) {
	if o.done < o.total {
		return
	}
	o.total, o.done = 0, 0
	o.ends = o.ends[:0]
	o.iov = o.iov[:0]
	for o.coded < len(o.reqs) && o.total < limit {
		f := o.reqs[o.coded].Encode(o.corrs[o.coded])
		o.coded++
		o.total += len(f)
		o.ends = append(o.ends, o.total)
		o.iov = append(o.iov, f)
	}
	o.stage = o.stage[:0]
	if o.total > stageSize {
		o.bufs = net.Buffers(o.iov)
		return
	}
	for _, f := range o.iov {
		o.stage = append(o.stage, f...)
	}
}

// staged is what is left to write when it lies in one piece, else nil.
func (o *outbox) staged() []byte {
	if o.total > stageSize {
		return nil
	}
	return o.stage[o.done:]
}

// advance counts n bytes as written.
func (o *outbox) advance(l *Link, n int) {
	o.done += n
	first := o.coded - len(o.ends)
	frames := uint64(0)
	for o.next < o.coded && o.ends[o.next-first] <= o.done {
		o.reqs[o.next].Written()
		o.next++
		frames++
	}
	c := &l.cfg.Counters
	c.Writes.Add(1)
	c.BytesSent.Add(uint64(n))
	c.FramesSent.Add(frames)
}

// rest returns the requests whose frames were not written completely.
func (o *outbox) rest() ([]Request, []uint32) { return o.reqs[o.next:], o.corrs[o.next:] }

// Flush writes what is queued on the caller's goroutine as far as that needs no
// waiting, and leaves everything else to the write loop. It saves the way over
// another goroutine where latency counts.
func (l *Link) Flush() {
	l.mu.Lock()
	s := l.sess
	if len(l.queue) == 0 || s == nil || l.writing {
		// Without a connection, run sends the queue when there is one. Whoever
		// writes now looks at the queue again before it stops.
		l.mu.Unlock()
		return
	}
	if s.raw == nil || !s.out.empty() || s.err != nil {
		l.mu.Unlock()
		l.Kick()
		return
	}
	l.writing = true
	s.out.take(l)
	l.mu.Unlock()

	s.out.encode(stageSize)
	var err error
	if p := s.out.staged(); p != nil {
		var n int
		n, err = s.raw.try(p)
		s.out.advance(l, n)
	}
	if err != nil {
		s.kill(fmt.Errorf("%w: %w", ErrDisconnected, err))
	}
	l.mu.Lock()
	l.writing = false
	more := len(l.queue) > 0 || !s.out.empty() || s.err != nil
	l.mu.Unlock()
	if more {
		l.Kick()
	}
}

// writeLoop writes what is queued until the session dies, and pings when
// nothing comes. When it returns nobody writes any more.
func (s *Session) writeLoop() {
	l := s.l
	beat := time.NewTicker(max(s.idle/3, time.Millisecond))
	defer beat.Stop()
	heart := heartbeat{}
	for {
		l.mu.Lock()
		if s.err != nil && !l.writing {
			l.mu.Unlock()
			return
		}
		if l.writing || len(l.queue) == 0 && s.out.empty() || s.err != nil {
			dead := s.dead
			if s.err != nil {
				dead = nil // a flush is ending and kicks
			}
			l.mu.Unlock()
			select {
			case <-l.wake:
			case <-dead:
			case <-beat.C:
				heart.beat(s)
			}
			continue
		}
		l.writing = true
		if s.out.empty() {
			s.out.take(l)
		}
		l.mu.Unlock()
		err := s.writeOut()
		l.mu.Lock()
		l.writing = false
		l.mu.Unlock()
		if err != nil {
			s.kill(fmt.Errorf("%w: %w", ErrDisconnected, err))
		}
	}
}

// writeOut writes the outbox to its end. A broker that takes nothing for its
// own idle timeout is gone.
func (s *Session) writeOut() error {
	o := &s.out
	if err := s.nc.SetWriteDeadline(time.Now().Add(s.idle)); err != nil {
		return err
	}
	for !o.empty() {
		o.encode(roundBytes)
		var n int
		var err error
		if p := o.staged(); p != nil {
			n, err = s.nc.Write(p)
		} else {
			var n64 int64
			n64, err = o.bufs.WriteTo(s.nc)
			n = int(n64)
		}
		o.advance(s.l, n)
		if err != nil {
			return err
		}
	}
	// A deadline that passes later would fail the next flush.
	return s.nc.SetWriteDeadline(time.Time{})
}

// heartbeat finds connections on which nothing comes any more.
type heartbeat struct {
	received uint64
	pinged   bool
}

// beat pings if nothing has come since the last beat, and ends the session if
// nothing has come since a ping either.
func (h *heartbeat) beat(s *Session) {
	got := s.received.Load()
	switch {
	case got != h.received:
		h.received, h.pinged = got, false
	case h.pinged:
		s.kill(fmt.Errorf("%w: the broker does not answer", ErrDisconnected))
	default:
		h.pinged = true
		s.l.Enqueue(new(ping))
	}
}

// ping is a request that only keeps the connection alive. A lost one needs
// nobody's care: a new connection needs no ping.
type ping struct{ frame [wire.HeaderSize]byte }

func (p *ping) Op() wire.Op    { return wire.OpPing }
func (p *ping) Answered() bool { return true }
func (p *ping) Encode(corr uint32) []byte {
	return wire.AppendPingRequest(p.frame[:0], corr)
}
func (p *ping) Written()         {}
func (p *ping) Fail(error, bool) {}
func (p *ping) Deliver(_ *Link, f *Frame) error {
	if f.IsError() {
		return nil
	}
	return wire.DecodePing(f.Body)
}
