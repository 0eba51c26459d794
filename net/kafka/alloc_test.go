package kafka_test

import (
	"testing"

	"github.com/mqd-broker/mqd/engine/aio"
)

// pump is a client that allocates nothing: it sends the same bytes again and counts
// what comes back.
type pump struct {
	r          *rig
	send, recv aio.Op
	got        int
}

// Complete implements aio.Owner.
func (p *pump) Complete(op *aio.Op) {
	if op.Kind != aio.KindRecv || len(op.Data) == 0 {
		return
	}
	p.got += len(op.Data)
	p.r.far.ReleaseBuf(op.BufID)
	if !op.More {
		p.r.far.Submit(op)
	}
}

// round sends what there is to send and waits until n bytes have come back.
func (p *pump) round(n int) {
	p.got = 0
	p.r.far.Submit(&p.send)
	for p.got < n || p.send.InFlight() {
		if p.r.turn() == 0 {
			p.r.w.Step()
		}
	}
}

func newPump(r *rig, stream []byte) *pump {
	c := r.dial()
	r.far.Cancel(&c.recv)
	r.until("receive cancelled", func() bool { return !c.recv.InFlight() })
	p := &pump{r: r}
	mem := must(r.far.Alloc(len(stream)))
	copy(mem, stream)
	p.send = aio.Op{Kind: aio.KindSend, Sock: c.sock, Owner: p, Vec: [][]byte{mem}}
	p.recv = aio.Op{Kind: aio.KindRecv, Sock: c.sock, Owner: p}
	r.far.Submit(&p.recv)
	return p
}

// size is that of the answer to a request, its length included.
func (c *client) size(stream []byte) int {
	c.r.t.Helper()
	c.write(stream)
	c.r.until("an answer", func() bool { return len(c.frames) > 0 })
	n := 4 + len(c.frames[0])
	c.frames = nil
	return n
}

func TestProduceAndFetchAllocateNothing(t *testing.T) {
	r := newRig(t, rigOptions{seed: 40, shards: 2})
	r.create("events", 2)
	c := r.dial()
	// Small, because the simulated disk allocates with the bytes that it holds.
	one := records(0, "a message of some bytes")
	wait := fetchOf("events", 0, 0)
	wait.MinBytes, wait.MaxBytes = 1, int32(4*len(one))
	for name, x := range map[string]struct {
		stream []byte
		rounds int
	}{
		"produce": {frame(9, 1, produceOf("events", 1, one, one)), 2500}, // until the journal has gone round
		"fetch":   {frame(12, 1, wait), 100},
	} {
		c.produced(9, c.ask(9, produceOf("events", 1, one, one)))
		back := c.size(x.stream)
		p := newPump(r, x.stream)
		for range x.rounds {
			p.round(back)
		}
		if n := testing.AllocsPerRun(300, func() { p.round(back) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
		r.far.Cancel(&p.recv)
		r.until("receive cancelled", func() bool { return !p.recv.InFlight() })
	}
	r.home()
}
