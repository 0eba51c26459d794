package sim

import (
	"hash/crc32"
	"syscall"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/internal/invariant"
)

// splitPermille is how often, of 1000 receives, a Virtual world hands over only
// a part of what is there.
const splitPermille = 250

// sumVec is the checksum of the memory that a send names.
func sumVec(vec [][]byte) uint32 {
	crc := uint32(0)
	for _, b := range vec {
		crc = crc32.Update(crc, castagnoli, b)
	}
	return crc
}

// acceptSend checks a send at its submission.
func (d *Driver) acceptSend(s *slot) {
	if len(s.op.Vec) > aio.MaxVec {
		invariant.Violated("sim: a send has more than MaxVec pieces")
	}
	for _, b := range s.op.Vec {
		d.checkMemory(b)
	}
	s.crc = sumVec(s.op.Vec)
}

// performSock does the socket operation in slot id, whose time has come.
func (d *Driver) performSock(id uint32) {
	op := d.slots[id].op
	s := d.w.sock(op.Sock)
	if s == nil {
		d.finish(id, result{sock: aio.NoSock, err: sockError(sockOps[op.Kind], op.Sock, syscall.EBADF)})
		return
	}
	me := armed{d, id}
	switch op.Kind {
	case aio.KindAccept:
		if !s.listen {
			d.finish(id, result{sock: aio.NoSock, err: s.fail("accept", syscall.EINVAL)})
			return
		}
		s.accept.arm(me)
		s.feedAccept()
	case aio.KindRecv:
		if s.peer == nil {
			d.finish(id, result{err: s.fail("recv", syscall.ENOTCONN)})
			return
		}
		s.recv.arm(me)
		s.feedRecv()
	case aio.KindSend:
		if s.peer == nil {
			d.finish(id, result{err: s.fail("send", syscall.EPIPE)})
			return
		}
		s.send.arm(me)
		s.pump()
	case aio.KindShutdown:
		d.finish(id, result{err: s.shutdown()})
	case aio.KindCloseSock:
		if s.recv.d != nil || s.accept.d != nil || s.send.d != nil {
			invariant.Violated("sim: a socket was closed with operations in flight")
		}
		s.close()
		d.finish(id, result{})
	}
}

var sockOps = map[aio.Kind]string{
	aio.KindAccept: "accept", aio.KindRecv: "recv", aio.KindSend: "send",
	aio.KindShutdown: "shutdown", aio.KindCloseSock: "close",
}

// arm makes me the operation that waits; there is one of a kind at a time,
// because the kernel promises no order between two.
func (a *armed) arm(me armed) {
	if a.d != nil {
		invariant.Violated("sim: two operations of a kind are in flight on one socket")
	}
	*a = me
}

// feedRecv completes the armed receive with what has arrived.
func (s *sock) feedRecv() {
	for s.recv.d != nil && s.in.available() > 0 {
		d := s.recv.d
		id, buf, ok := d.pool.take(d)
		if !ok {
			s.recv.end(result{err: s.fail("recv", aio.ErrNoBuffers)})
			return
		}
		n := min(s.in.available(), len(buf))
		if s.w.opt.Mode == Virtual && n > 1 && s.w.rng.chance(splitPermille) {
			n = 1 + int(s.w.rng.Below(int64(n-1)))
		}
		s.in.take(buf[:n])
		d.pool.lent[id] = int32(n)
		d.finish(s.recv.slot, result{n: n, data: buf[:n:n], buf: id, more: true})
		s.peer.pump()
	}
	if s.recv.d == nil || s.in.available() > 0 {
		return
	}
	switch {
	case s.reset:
		s.recv.end(result{err: s.fail("recv", syscall.ECONNRESET)})
	case s.in.fin || s.shut:
		s.recv.end(result{})
	}
}

// pump moves bytes of the send in flight to the other end, as far as there is
// space; it completes the send when all have gone.
func (s *sock) pump() {
	if s.conn != nil {
		s.conn.cond.Broadcast()
	}
	if s.send.d == nil {
		return
	}
	d, id := s.send.d, s.send.slot
	op := d.slots[id].op
	if err := s.writable(); err != 0 {
		s.send.end(result{n: op.Drv.Done, err: s.fail("send", err)})
		return
	}
	sent, skip := 0, op.Drv.Done
	for _, b := range op.Vec {
		if skip >= len(b) {
			skip -= len(b)
			continue
		}
		n := s.put(b[skip:])
		sent += n
		if n < len(b)-skip {
			op.Drv.Done += sent
			return
		}
		skip = 0
	}
	op.Drv.Done += sent
	if sumVec(op.Vec) != d.slots[id].crc {
		invariant.Violated("sim: memory under a send was changed")
	}
	s.send.end(result{n: op.Drv.Done})
}

// writable is why nothing can be sent, or 0.
func (s *sock) writable() syscall.Errno {
	switch {
	case s.reset:
		return syscall.ECONNRESET
	case s.shut || s.closed:
		return syscall.EPIPE
	}
	return 0
}

// put sends what there is space for. What is sent to a closed end is lost, and
// answered by a reset.
func (s *sock) put(b []byte) int {
	to := s.peer
	if to.closed || to.reset {
		s.w.at(s.w.draw(s.w.opt.Latency.Net), event{kind: evReset, sock: s})
		return len(b)
	}
	n := to.in.put(b)
	if n > 0 {
		s.w.travel(to, event{kind: evArrive, sock: to, pos: to.in.end})
	}
	return n
}

// travel makes e happen at the other end, never before what was sent earlier.
func (w *World) travel(to *sock, e event) {
	delay := w.draw(w.opt.Latency.Net)
	delay = max(delay, to.in.last-w.Now())
	to.in.last = w.Now() + delay
	w.at(delay, e)
}

// arrive makes the bytes up to pos available.
func (s *sock) arrive(pos uint64) {
	if s.closed || s.reset {
		return
	}
	s.in.here = max(s.in.here, pos)
	s.wakeReader()
}

func (s *sock) wakeReader() {
	if s.conn != nil {
		s.conn.cond.Broadcast()
		return
	}
	s.feedRecv()
}

// finArrived ends the stream.
func (s *sock) finArrived() {
	s.in.fin = true
	s.wakeReader()
}

// resetArrived breaks the connection at this end. What has arrived can still be
// received.
func (s *sock) resetArrived() {
	if s.closed || s.reset {
		return
	}
	s.reset = true
	s.pump()
	s.wakeReader()
}

// shutdown ends both directions.
func (s *sock) shutdown() error {
	if s.reset {
		return s.fail("shutdown", syscall.ENOTCONN)
	}
	if s.shut {
		return nil
	}
	s.shut = true
	if s.listen {
		s.w.unlisten(s)
		s.refuse()
		s.feedAccept()
		return nil
	}
	s.endOut()
	s.pump()
	s.feedRecv()
	return nil
}

// endOut tells the other end that nothing follows.
func (s *sock) endOut() {
	if !s.peer.closed {
		s.w.travel(s.peer, event{kind: evFin, sock: s.peer})
	}
}

// close gives the socket up. Bytes that nobody received make it a reset, as in
// TCP.
func (s *sock) close() {
	if s.closed {
		return
	}
	s.closed = true
	s.w.net.socks[s.id] = nil
	switch {
	case s.listen:
		s.w.unlisten(s)
		s.refuse()
	case s.reset || s.peer.closed:
	case s.in.end > s.in.start:
		s.w.travel(s.peer, event{kind: evReset, sock: s.peer})
	case !s.shut:
		s.endOut()
	}
	s.gone()
}

// refuse ends the connections that nobody has accepted.
func (s *sock) refuse() {
	for s.pending.Len() > 0 {
		if p := s.w.sock(s.pending.Take()); p != nil {
			p.die()
		}
	}
}

// gone lets whoever sends to a closed socket know.
func (s *sock) gone() {
	s.in.free()
	if s.peer != nil && !s.peer.closed {
		s.peer.pump()
	}
}

// die is close by the end of the process: the other end sees a reset.
func (s *sock) die() {
	if s.peer != nil && !s.peer.closed && !s.closed {
		s.w.travel(s.peer, event{kind: evReset, sock: s.peer})
		s.closed = true
		s.w.net.socks[s.id] = nil
		s.gone()
		return
	}
	s.close()
}

func (w *World) unlisten(s *sock) {
	for i, l := range w.net.listeners {
		if l == s {
			w.net.listeners = append(w.net.listeners[:i], w.net.listeners[i+1:]...)
			return
		}
	}
}

// Cancel asks for an early end of a socket operation.
func (d *Driver) Cancel(op *aio.Op) {
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	if d.dead || !op.InFlight() {
		return
	}
	if op.Drv.Slot == noSlot {
		for range d.waiting.Len() {
			if o := d.waiting.Take(); o != op {
				d.waiting.Push(o)
			}
		}
		d.ready.Push(completion{op: op, slot: noSlot, res: canceled(op, 0)})
		d.kick()
		return
	}
	s := &d.slots[op.Drv.Slot]
	d.w.at(d.w.draw(d.w.opt.Latency.Call), event{kind: evCancel, d: d, slot: op.Drv.Slot, gen: s.gen})
}

// cancel ends the operation in slot id, if it is of a kind that can be.
func (d *Driver) cancel(id uint32) {
	op := d.slots[id].op
	s := d.w.sock(op.Sock)
	var at *armed
	switch op.Kind {
	case aio.KindAccept, aio.KindRecv, aio.KindSend:
		if s != nil {
			at = map[aio.Kind]*armed{aio.KindAccept: &s.accept, aio.KindRecv: &s.recv, aio.KindSend: &s.send}[op.Kind]
		}
	default:
		return
	}
	if at != nil && *at == (armed{d, id}) {
		*at = armed{}
	}
	d.finish(id, canceled(op, op.Drv.Done))
}

func canceled(op *aio.Op, n int) result {
	return result{n: n, sock: aio.NoSock, err: sockError(sockOps[op.Kind], op.Sock, aio.ErrCanceled)}
}

// disarm forgets the operations of a dead driver.
func (w *World) disarm(d *Driver) {
	for _, s := range w.net.socks {
		if s == nil {
			continue
		}
		for _, a := range []*armed{&s.accept, &s.recv, &s.send} {
			if a.d == d {
				*a = armed{}
			}
		}
	}
}
