package conn

import "github.com/mqd-broker/mqd/engine/aio"

// ending is how far the end of a connection has come.
type ending uint8

const (
	endingNot ending = iota
	endingShutdown
	endingClose
	endingDone
)

// tryFinish tells the protocol that a finishing connection gets no more frames,
// and ends it when nothing is left to do.
func (c *Conn) tryFinish() {
	if !c.told {
		c.told = true
		c.dropInput()
		c.lingers = c.srv.loop.Now()
		c.door.proto.Ended(c)
		c.flush()
	}
	busy := c.holds > 0 || c.frames > 0 || !c.out.empty()
	if !busy && (c.linger == lingerNot || c.eof) {
		c.end()
	}
}

// end makes the connection over: the protocol is told, and everything is given
// back but what operations in flight still use.
func (c *Conn) end() {
	s := c.srv
	c.phase = phaseOver
	s.count.local[Closed]++
	s.count.local[closedFor+Counter(c.why)]++
	c.dropInput()
	c.leave(inNoSend)
	c.dropOutput()
	c.door.proto.Closed(c, c.why)
}

// wind brings a connection that is over to the end: operations in flight are
// told to come back, the socket is closed, and when the last reference has come
// home the Conn is used again.
func (c *Conn) wind() {
	s := c.srv
	if c.ctl.InFlight() {
		return
	}
	inFlight := c.recv.InFlight() || c.out.sending != nil
	switch {
	case c.ending == endingNot && c.why == ReasonMoved:
		c.ending = endingDone
	case c.ending == endingNot && inFlight:
		c.ending = endingShutdown
		c.control(aio.KindShutdown)
		if c.recv.InFlight() {
			s.drv.Cancel(&c.recv)
		}
		if c.out.sending != nil {
			s.drv.Cancel(&c.out.sending.op)
		}
		return
	case c.ending < endingClose:
		if !inFlight {
			c.ending = endingClose
			c.control(aio.KindCloseSock)
		}
		return
	case c.ending == endingClose:
		c.ending = endingDone
		s.census.leave(c.bucket)
	}
	if c.holds == 0 && c.frames == 0 && c.held == 0 {
		s.retire(c)
	}
}

func (c *Conn) control(kind aio.Kind) {
	c.ctl.Kind, c.ctl.Sock, c.ctl.Owner = kind, c.sock, c
	c.srv.drv.Submit(&c.ctl)
}

// maybeOver looks at a connection again from which something has come home, once
// that is all it waits for.
func (c *Conn) maybeOver() {
	if c.phase >= phaseFinishing {
		c.srv.dirty.push(c)
	}
}
