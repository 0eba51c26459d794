package native

import (
	"fmt"

	"github.com/mqd-broker/mqd/net/wire"
)

// slowAnswer is an answer that is too long to be encoded on the loop. While it is
// made its connection is not read, so that a connection has one at a time.
type slowAnswer struct {
	p     *peer
	size  int // estimated
	build func() []byte
	out   []byte
}

const (
	// maxQuick is the estimated size, in bytes, up to which an answer is encoded
	// on the loop.
	maxQuick = 16 << 10
	// maxAnswer is the estimated size, in bytes, above which no answer is made.
	// Clients take no longer frame.
	maxAnswer = 64 << 20
)

// reserve sets memory aside for an answer of an estimated size, or refuses the
// request. What it has accepted must be answered by answer. A request may name a
// topic any number of times, so that what it asks for bounds nothing.
func (p *peer) reserve(h wire.Header, size int) bool {
	s := p.srv
	if size <= maxQuick {
		return true
	}
	if size > maxAnswer {
		p.refuse(h, wire.CodeFrameTooLarge, fmt.Sprintf("the answer would have some %d bytes, the limit is %d: ask for less", size, maxAnswer))
		p.c.Finish()
		return false
	}
	used := s.slowBytes + s.conns.Spilled()
	if used > 0 && used+size > s.opts.MaxSlowBytes {
		p.refuse(h, wire.CodeBackpressure, "long answers wait for peers that do not read")
		return false
	}
	s.slowBytes += size
	return true
}

// answer sends what build encodes and ends a request that has begun. size is what
// was reserved. build is called on the loop or on a helper.
func (p *peer) answer(size int, build func() []byte) {
	if size <= maxQuick {
		p.c.Write(build())
		p.done(0)
		return
	}
	p.busy++
	p.c.Pause()
	p.srv.conns.Offload(&slowAnswer{p: p, size: size, build: build})
}

// Run encodes the answer.
func (a *slowAnswer) Run() { a.out = a.build() }

// Finished sends it.
func (a *slowAnswer) Finished() {
	p := a.p
	p.srv.slowBytes -= a.size
	p.c.Write(a.out)
	p.busy--
	p.goOn()
	p.done(0)
}
