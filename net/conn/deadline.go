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
	// shedGrace is how long a frame may take in any case while other
	// connections wait for the memory that it keeps.
	shedGrace = time.Second
)

// watch looks at the deadlines of all connections once a second, a slice at a
// time. That a timeout may come a second late lets frames go by without touching
// a timer.
type watch struct {
	timer shard.Timer
	next  *Conn // where the walk goes on
	began int64 // when it began
}

// Fire looks at a slice.
func (s *Server) Fire(_ *shard.Timer, now int64) {
	w := &s.watch
	if w.next == nil {
		w.next, w.began = s.all.head, now
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
	if v := c.out.sending; v != nil && now-v.since > int64(o.WriteTimeout) {
		c.fail(ReasonSlowReader)
		return
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
	case c.asm.started() && now-c.asm.since > c.frameTime():
		c.fail(ReasonSlowFrame)
	case c.holds == 0 && c.frames == 0 && c.out.empty() && now-c.active > int64(o.IdleTimeout):
		c.fail(ReasonIdle)
	}
}

// frameTime is how long the frame that has begun may take. While others wait for
// frame memory, what has come so far must have come at the least rate: peers that
// dribble give way to peers that send.
func (c *Conn) frameTime() int64 {
	o := &c.door.opts
	if c.asm.slab != nil && c.srv.slabs.waited() {
		return int64(shedGrace) + int64(c.asm.n)*int64(time.Second)/int64(o.MinFrameRate)
	}
	bySize := int64(c.asm.size) * int64(time.Second) / int64(o.MinFrameRate)
	return max(int64(o.FrameTimeout), bySize)
}
