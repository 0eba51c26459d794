package conn

import (
	"time"

	"github.com/mqd-broker/mqd/engine/shard"
)

const (
	// watchEvery is how often every connection's deadlines are looked at, and
	// so how late a timeout may come.
	watchEvery = time.Second
	// watchSlice is the number of connections looked at in one go, and
	// watchPause the time until the next.
	watchSlice = 256
	watchPause = time.Millisecond
	// shedGrace is how long a frame or a send may take in any case while
	// other connections wait for the memory that it keeps.
	shedGrace = time.Second
)

// watch looks at the deadlines of all connections once a second, a slice at a
// time. That a timeout may come a second late lets frames go by without touching
// a timer.
type watch struct {
	timer shard.Timer
	next  *Conn // where the walk goes on
	began int64 // when it began
	// shedFrames and shedSends are how many connections may still be ended in
	// this walk because others wait for the memory that they keep: as many as
	// waited when it began.
	shedFrames, shedSends, shedLends int
}

// Fire looks at a slice.
func (s *Server) Fire(_ *shard.Timer, now int64) {
	w := &s.watch
	if w.next == nil {
		w.next, w.began = s.all.head, now
		w.shedFrames, w.shedSends, w.shedLends = s.slabs.waiters(), s.noSend.n, 0
		if s.opts.Waiting != nil {
			w.shedLends = s.opts.Waiting()
		}
	}
	for range watchSlice {
		c := w.next
		if c == nil {
			break
		}
		w.next = c.links[inAll].next
		c.check(now)
	}
	switch {
	case w.next != nil:
		s.loop.Arm(&w.timer, now+int64(watchPause))
	case s.all.n > 0:
		s.loop.Arm(&w.timer, max(w.began+int64(watchEvery), now+int64(watchPause)))
	}
}

// check ends the connection if one of its deadlines has passed.
func (c *Conn) check(now int64) {
	o := &c.door.opts
	if v := c.out.sending; v != nil && c.sendOverdue(v, now-v.since) {
		c.fail(ReasonSlowReader)
		return
	}
	if c.out.empty() && now-c.active > int64(watchEvery) {
		c.out.trim()
	}
	switch {
	case c.phase == phaseFinishing:
		if c.linger == lingerBriefly && now-c.lingers > int64(o.LingerTimeout) {
			c.linger = lingerNot
			c.srv.dirty.push(c)
		}
	case c.phase != phaseOpen:
	case !c.established && now-c.opened > int64(o.HandshakeTimeout):
		c.fail(ReasonHandshake)
	case c.pauses&pausedFrame != 0 && now-c.pausedAt > int64(o.FrameTimeout):
		c.fail(ReasonOverload)
	case c.pauses != 0:
	case c.asm.started() && c.frameOverdue(now-c.asm.since):
		c.fail(ReasonSlowFrame)
	case c.holds == 0 && c.frames == 0 && c.out.empty() && now-c.active > int64(o.IdleTimeout):
		c.fail(ReasonIdle)
	}
}

// sendOverdue reports whether the send in flight has taken too long. While others
// wait for send memory, or for memory that was lent, peers that do not read give
// way.
func (c *Conn) sendOverdue(v *sending, took int64) bool {
	w := &c.srv.watch
	if took > int64(shedGrace) && c.out.bufs > 0 && w.shedSends > 0 {
		w.shedSends--
		return true
	}
	if took > int64(shedGrace) && v.lent && w.shedLends > 0 {
		w.shedLends--
		return true
	}
	return took > int64(c.door.opts.WriteTimeout)
}

// frameOverdue reports whether the frame that has begun takes too long. While
// others wait for frame memory, what has come must have come at the least rate:
// peers that dribble give way.
func (c *Conn) frameOverdue(took int64) bool {
	o := &c.door.opts
	at := func(bytes int) int64 { return int64(bytes) * int64(time.Second) / int64(o.MinFrameRate) }
	if w := &c.srv.watch; took > int64(shedGrace)+at(c.asm.n) && c.asm.slab != nil && w.shedFrames > 0 {
		w.shedFrames--
		return true
	}
	return took > max(int64(o.FrameTimeout), at(c.asm.size))
}
