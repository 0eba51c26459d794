package native_test

import (
	"testing"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/net/wire"
)

// pump is a client that allocates nothing: it sends the same bytes again and
// counts what comes back.
type pump struct {
	r          *rig
	send, recv aio.Op
	got        int
}

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

func (p *pump) stop() {
	p.r.far.Cancel(&p.recv)
	p.r.until("receive cancelled", func() bool { return !p.recv.InFlight() })
}

// newPump says hello and prepares to send stream.
func newPump(r *rig, stream []byte) *pump {
	c := r.dial()
	c.stopReading()
	p := &pump{r: r}
	mem := must(r.far.Alloc(len(stream)))
	copy(mem, stream)
	p.send = aio.Op{Kind: aio.KindSend, Sock: c.sock, Owner: p, Vec: [][]byte{mem}}
	p.recv = aio.Op{Kind: aio.KindRecv, Sock: c.sock, Owner: p}
	r.far.Submit(&p.recv)
	return p
}

func TestProduceAndFetchAllocateNothing(t *testing.T) {
	r := newRig(t, rigOptions{seed: 90, shards: 2, journal: 4 << 20, chunks: 16 << 20})
	c := r.dial()
	for _, class := range []string{"memory", "written", "flushed"} {
		id := c.create(class, 2, wire.Config{Key: "durability", Value: class})
		// Small, because the simulated disk allocates with the bytes that it holds.
		batch := records(0, values(1, 20, 1)...)
		var produce, fetch []byte
		for i := range 8 {
			produce = wire.AppendProduceRequest(produce, uint32(i), &wire.ProduceRequest{Topic: id, Partition: int32(i % 2), Batch: batch})
			fetch = wire.AppendFetchRequest(fetch, uint32(i), &wire.FetchRequest{Topic: id, Partition: int32(i % 2), MaxBytes: uint32(2 * len(batch))})
		}
		for name, x := range map[string]struct {
			stream []byte
			back   int
		}{
			"produce": {produce, 8 * wire.ProduceResponseSize},
			"fetch":   {fetch, 8 * (wire.FetchResponseHeaderSize + 2*len(batch))},
		} {
			for range 10 {
				c.mustProduce(id, batch)
				c.wait(c.beginProduce(wire.ProduceRequest{Topic: id, Partition: 1, Batch: batch}))
			}
			p := newPump(r, x.stream)
			for range 2500 { // until the journal has gone round
				p.round(x.back)
			}
			if n := testing.AllocsPerRun(300, func() { p.round(x.back) }); n != 0 {
				t.Errorf("%s, class %s: %v allocations for 8 requests", name, class, n)
			}
			p.stop()
			if p.got != x.back {
				t.Errorf("%s, class %s: %d bytes came back, want %d", name, class, p.got, x.back)
			}
		}
	}
	r.home()
}
