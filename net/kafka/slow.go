package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mqd-broker/mqd/net/waitlist"
)

const (
	// maxQuick is the estimated size, in bytes, up to which an answer is made on the
	// loop.
	maxQuick = 16 << 10
	// maxAnswer is the estimated size, in bytes, above which no answer is made.
	maxAnswer = 64 << 20
)

// slowAnswer is an answer that is too long to be made on the loop. Its connection is
// not read meanwhile, so that each has one at a time.
type slowAnswer struct {
	p           *peer
	correlation int32
	size        int // estimated
	build       func() kmsg.Response
	out         []byte
	at          waitlist.Node[slowAnswer] // in Server.slow
}

// answer sends what build makes and ends a request that has begun alone. size is an
// estimate in bytes. build is called on the loop or on a helper.
func (p *peer) answer(correlation int32, size int, build func() kmsg.Response) {
	switch {
	case p.c.Over():
		p.done(0, 0)
	case size <= maxQuick:
		p.reply(correlation, build())
		p.done(0, 0)
	case size > maxAnswer:
		p.refuse(errAnswer(size))
		p.done(0, 0)
	default:
		a := &slowAnswer{p: p, correlation: correlation, size: size, build: build}
		p.srv.slow.Push(&a.at, a)
		p.srv.nextSlow()
	}
}

// nextSlow gives waiting answers to helpers, as far as there is memory for them.
func (s *Server) nextSlow() {
	for s.slow.Len() > 0 {
		a := s.slow.First()
		used := s.slowBytes + s.conns.Spilled()
		if s.slowBytes > 0 && used+a.size > s.opts.MaxSlowBytes {
			return
		}
		s.slow.Pop()
		s.slowBytes += a.size
		s.conns.Offload(a)
	}
}

// Run encodes the answer.
func (a *slowAnswer) Run() { a.out = appendResponse(nil, a.correlation, a.build()) }

// Finished sends it.
func (a *slowAnswer) Finished() {
	p := a.p
	s := p.srv
	s.slowBytes -= a.size
	p.c.Write(a.out)
	p.done(0, 0)
	s.nextSlow()
}

// sweep asks the broker about many things, some at a time, and lets the loop do
// something else now and then.
type sweep struct {
	p     *peer
	n     int         // things
	ask   func(i int) // its answer calls answered, once
	done  func()      // all are answered; called once
	next  int
	open  int
	turn  int // asked since the last turn
	busy  bool
	ended bool
}

const (
	// sweepOpen is how many are asked about at a time, and sweepTurn how many before
	// the loop goes on with something else.
	sweepOpen = 64
	sweepTurn = 256
)

func (w *sweep) step() {
	if w.busy {
		return // an answer has come inside the call that asked
	}
	w.busy = true
	for w.open < sweepOpen && w.turn < sweepTurn && w.next < w.n {
		i := w.next
		w.next++
		w.open++
		w.turn++
		w.ask(i)
	}
	w.busy = false
	switch {
	case w.open > 0 || w.ended:
	case w.next < w.n:
		w.turn = 0
		w.p.srv.conns.Offload(w)
	default:
		w.ended = true
		w.done()
	}
}

func (w *sweep) answered() {
	w.open--
	w.step()
}

// Run gives the loop time for something else.
func (w *sweep) Run() {}

// Finished goes on.
func (w *sweep) Finished() { w.step() }
