package aiotest

import (
	"bytes"
	"errors"
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
)

// receiver receives a stream: it copies what comes, gives the buffers home and
// arms the receive again when the pool ran out.
type receiver struct {
	r     *rig
	d     aio.Driver
	op    aio.Op
	data  []byte
	keep  []aio.BufID // buffers that are not given home yet
	hold  bool        // keep buffers
	stop  bool        // do not arm again
	dry   int         // how often the pool was empty
	ended bool
	err   error
	at    int64 // when the newest bytes came, or the receive was armed
}

// receive arms a receive on s.
func (r *rig) receive(d aio.Driver, s aio.Sock) *receiver {
	in := &receiver{r: r, d: d, at: d.Clock().Now()}
	in.op = aio.Op{Kind: aio.KindRecv, Sock: s, Owner: in}
	d.Submit(&in.op)
	return in
}

// Complete takes a piece of the stream.
func (in *receiver) Complete(op *aio.Op) {
	switch {
	case errors.Is(op.Err, aio.ErrNoBuffers):
		in.dry++
		if op.More {
			in.r.Error("a receive without buffers is still armed")
		}
		if !in.hold && !in.stop {
			in.d.Submit(op)
		}
	case op.Err != nil:
		in.ended, in.err = true, op.Err
	case len(op.Data) == 0:
		in.ended = true
	default:
		if op.N != len(op.Data) {
			in.r.Errorf("N is %d for %d bytes", op.N, len(op.Data))
		}
		if now := in.d.Clock().Now(); op.At < in.at || op.At > now {
			in.r.Errorf("bytes came at %d, expected %d to %d", op.At, in.at, now)
		}
		in.at = op.At
		in.data = append(in.data, op.Data...)
		if in.hold {
			in.keep = append(in.keep, op.BufID)
		} else {
			in.d.ReleaseBuf(op.BufID)
		}
		if !op.More && !in.stop {
			in.d.Submit(op)
		}
	}
}

// home gives the kept buffers home.
func (in *receiver) home() {
	for _, id := range in.keep {
		in.d.ReleaseBuf(id)
	}
	in.keep = nil
}

// echo sends count messages of size bytes through a connection, of which the
// other end sends back what it receives.
func (r *rig) echo(o aio.Options, count, size int) {
	d := r.open(o)
	near, far := r.pair(d, d)
	e := &echoer{r: r, d: d, buf: r.memory(d, 64<<10, 0)}
	e.in = aio.Op{Kind: aio.KindRecv, Sock: far, Owner: e}
	e.out = aio.Op{Kind: aio.KindSend, Sock: far, Owner: e}
	d.Submit(&e.in)
	back := r.receive(d, near)
	b := r.memory(d, size, 1)
	for i := range count {
		fill(b, byte(i))
		r.check(r.do(d, &aio.Op{Kind: aio.KindSend, Sock: near, Vec: [][]byte{b}}))
		r.until("the echo", func() bool { return len(back.data) == size })
		if !bytes.Equal(back.data, b) {
			r.Fatalf("message %d came back changed", i)
		}
		back.data = back.data[:0]
	}
	r.check(r.do(d, &aio.Op{Kind: aio.KindShutdown, Sock: near}))
	r.until("the ends", func() bool { return back.ended && e.ended })
	if free := d.FreeBufs(); free != o.RecvBuffers {
		r.Fatalf("%d of %d receive buffers are home", free, o.RecvBuffers)
	}
	if d.InFlight() != 0 {
		r.Fatalf("%d operations in flight at the end", d.InFlight())
	}
}

// echoer sends back what it receives, in order, through a queue of its own.
type echoer struct {
	r       *rig
	d       aio.Driver
	in, out aio.Op
	queue   []byte
	buf     []byte
	ended   bool
}

func (e *echoer) Complete(op *aio.Op) {
	switch {
	case op == &e.out:
		e.r.check(op.Err)
	case errors.Is(op.Err, aio.ErrNoBuffers):
		e.d.Submit(op)
	case op.Err != nil:
		e.r.Errorf("echo: %v", op.Err)
		e.ended = true
	case len(op.Data) == 0:
		e.ended = true
	default:
		e.queue = append(e.queue, op.Data...)
		e.d.ReleaseBuf(op.BufID)
		if !op.More {
			e.d.Submit(op)
		}
	}
	if n := len(e.queue); n > 0 && !e.out.InFlight() {
		n = copy(e.buf, e.queue)
		e.queue = append(e.queue[:0], e.queue[n:]...)
		e.out.Vec = [][]byte{e.buf[:n]}
		e.d.Submit(&e.out)
	}
}

func poolRunsOut(r *rig) {
	o := small
	o.RecvBuffers, o.RecvBufferBytes = 4, 4096
	d := r.open(o)
	if d.FreeBufs() != 4 {
		r.Fatalf("%d of 4 receive buffers are home at the start", d.FreeBufs())
	}
	near, far := r.pair(d, d)
	in := r.receive(d, far)
	in.hold = true
	b := r.memory(d, 50_000, 6)
	sent := owner{}
	send := aio.Op{Kind: aio.KindSend, Sock: near, Vec: [][]byte{b}, Owner: &sent}
	d.Submit(&send)
	for len(in.data) < len(b) {
		had := in.dry
		r.until("an empty pool or the end", func() bool { return in.dry > had || len(in.data) == len(b) })
		if free := d.FreeBufs(); free != 4-len(in.keep) {
			r.Fatalf("%d receive buffers are home while %d of 4 are kept", free, len(in.keep))
		}
		if !in.op.InFlight() {
			in.home()
			d.Submit(&in.op)
		}
	}
	r.until("the end of the send", func() bool { return len(sent.ops) == 1 })
	if send.Err != nil || send.N != len(b) || !bytes.Equal(in.data, b) {
		r.Fatalf("sent %d bytes, %v; %d arrived, or others", send.N, send.Err, len(in.data))
	}
	if in.dry == 0 {
		r.Fatal("4 buffers of 4 KiB held 50000 bytes")
	}
	in.home()
	if d.FreeBufs() != 4 {
		r.Fatalf("%d of 4 receive buffers are home at the end", d.FreeBufs())
	}
}

func gathers(r *rig) {
	d := r.open(small)
	near, far := r.pair(d, d)
	in := r.receive(d, far)
	var want []byte
	for _, pieces := range []int{1, 2, 17, aio.MaxVec} {
		op := aio.Op{Kind: aio.KindSend, Sock: near}
		size := 0
		for i := range pieces {
			b := r.memory(d, 1+i*131%9000, byte(pieces+i))
			op.Vec = append(op.Vec, b)
			want = append(want, b...)
			size += len(b)
		}
		r.check(r.do(d, &op))
		if op.N != size {
			r.Fatalf("sent %d of %d bytes", op.N, size)
		}
		r.until("all bytes", func() bool { return len(in.data) == len(want) })
		if !bytes.Equal(in.data, want) {
			r.Fatalf("%d pieces arrived in another order, or changed", pieces)
		}
	}
}

func sendsReceived(r *rig) {
	d := r.open(small)
	near, far := r.pair(d, d)
	back := r.receive(d, near)
	o, sends := owner{}, 0
	var send aio.Op
	o.then = func(op *aio.Op) {
		switch {
		case op.Err != nil:
			r.Errorf("operation %d: %v", op.Tag, op.Err)
		case op == &send:
			d.ReleaseBuf(aio.BufID(op.Tag))
			sends++
		case len(op.Data) > 0:
			send = aio.Op{Kind: aio.KindSend, Sock: far, Vec: [][]byte{op.Data}, Owner: &o, Tag: uint64(op.BufID)}
			d.Submit(&send)
		}
	}
	recv := aio.Op{Kind: aio.KindRecv, Sock: far, Owner: &o}
	d.Submit(&recv)
	for i := range 50 {
		b := r.memory(d, 1, byte(i)) // one byte cannot arrive in two pieces
		r.check(r.do(d, &aio.Op{Kind: aio.KindSend, Sock: near, Vec: [][]byte{b}}))
		r.until("the echo", func() bool { return len(back.data) == i+1 && sends == i+1 })
		if back.data[i] != b[0] {
			r.Fatalf("byte %d came back as %d, expected %d", i, back.data[i], b[0])
		}
	}
	if d.FreeBufs() != small.RecvBuffers {
		r.Fatalf("%d receive buffers are home", d.FreeBufs())
	}
}

// flood is a send that no socket buffer takes whole.
func (r *rig) flood(d aio.Driver, s aio.Sock, o *owner) *aio.Op {
	piece := r.memory(d, 1<<20, 1)
	op := &aio.Op{Kind: aio.KindSend, Sock: s, Owner: o}
	for range aio.MaxVec {
		op.Vec = append(op.Vec, piece)
	}
	d.Submit(op)
	return op
}

func shutsDown(r *rig) {
	d := r.open(small)
	near, far := r.pair(d, d)
	o := owner{}
	op := r.flood(d, near, &o)
	for range 100 {
		_, err := d.Poll(time.Millisecond)
		r.check(err)
	}
	if !op.InFlight() {
		r.Fatalf("64 MiB were sent to a peer that does not receive: %d bytes, %v", op.N, op.Err)
	}
	r.check(r.do(d, &aio.Op{Kind: aio.KindShutdown, Sock: near}))
	r.until("the end of the send", func() bool { return !op.InFlight() })
	r.fails(op.Err, nil)
	if op.N >= aio.MaxVec<<20 {
		r.Fatalf("a send that failed has sent %d bytes", op.N)
	}
	in := r.receive(d, far)
	r.until("the end of the stream", func() bool { return in.ended })
	for i, v := range in.data {
		if v != pattern(int64(i%(1<<20)), 1) {
			r.Fatalf("byte %d of what was sent arrived changed", i)
		}
	}
}

func sendsToClosed(r *rig) {
	d := r.open(small)
	near, far := r.pair(d, d)
	r.check(r.do(d, &aio.Op{Kind: aio.KindCloseSock, Sock: far}))
	b := r.memory(d, 1000, 1)
	var err error
	r.until("an error", func() bool {
		err = r.do(d, &aio.Op{Kind: aio.KindSend, Sock: near, Vec: [][]byte{b}})
		return err != nil
	})
	r.fails(err, nil)
}
