package aiotest

import (
	"strings"

	"github.com/mqd-broker/mqd/engine/aio"
)

var socketTests = []test{
	{"listening alone and sharing a port", listens},
	{"dialling a port that nobody listens on is an error", func(r *rig) {
		d := r.open(small)
		l, addr := r.listen(d, aio.ListenAlone)
		r.check(r.do(d, &aio.Op{Kind: aio.KindCloseSock, Sock: l}))
		if s, err := d.Dial(addr); err == nil {
			r.Fatalf("dialled a closed port: socket %d", s)
		}
	}},
	{"accept stays armed", acceptsMany},
	{"cancel ends an accept", cancelsAccept},
	{"small messages come back", func(r *rig) { r.echo(small, 300, 100) }},
	{"large messages come back", func(r *rig) { r.echo(small, 20, 300_000) }},
	{"messages pass through a pool that runs out", func(r *rig) {
		o := small
		o.RecvBuffers, o.RecvBufferBytes = 2, 4096
		r.echo(o, 10, 100_000)
	}},
	{"an empty pool ends a receive, and buffers come home", poolRunsOut},
	{"a gather send keeps its order", gathers},
	{"a receive buffer can be sent", sendsReceived},
	{"the end of the stream", endsOfStream},
	{"cancel ends a receive and loses nothing", cancelsRecv},
	{"cancel of an operation that is not in flight does nothing", func(r *rig) {
		d := r.open(small)
		op := aio.Op{Kind: aio.KindRecv, Sock: 1}
		d.Cancel(&op)
		_, err := d.Poll(0)
		r.check(err)
	}},
	{"shutdown ends a send that waits", shutsDown},
	{"shutdown ends an armed receive", func(r *rig) {
		d := r.open(small)
		near, _ := r.pair(d, d)
		o := owner{}
		op := aio.Op{Kind: aio.KindRecv, Sock: near, Owner: &o}
		d.Submit(&op)
		r.settle(d)
		r.check(r.do(d, &aio.Op{Kind: aio.KindShutdown, Sock: near}))
		r.until("the end", func() bool { return !op.InFlight() })
		if op.Err != nil || len(op.Data) != 0 || op.More {
			r.Fatalf("the receive ended with %d bytes, %v", len(op.Data), op.Err)
		}
	}},
	{"sending to a closed peer fails in the end", sendsToClosed},
	{"a socket moves between drivers", handsOver},
	{"a bad socket is an error", func(r *rig) {
		d := r.open(small)
		near, _ := r.pair(d, d)
		r.check(r.do(d, &aio.Op{Kind: aio.KindCloseSock, Sock: near}))
		b := r.memory(d, 10, 1)
		for _, s := range []aio.Sock{near, aio.NoSock} {
			r.fails(r.do(d, &aio.Op{Kind: aio.KindRecv, Sock: s}), nil)
			r.fails(r.do(d, &aio.Op{Kind: aio.KindSend, Sock: s, Vec: [][]byte{b}}), nil)
			r.fails(r.do(d, &aio.Op{Kind: aio.KindAccept, Sock: s}), nil)
		}
	}},
}

// listen listens on a free port of the loopback.
func (r *rig) listen(d aio.Driver, mode aio.ListenMode) (aio.Sock, string) {
	r.Helper()
	s, addr, err := d.Listen("127.0.0.1:0", mode)
	r.check(err)
	if !strings.HasPrefix(addr, "127.0.0.1:") || strings.HasSuffix(addr, ":0") {
		r.Fatalf("bound to %q", addr)
	}
	return s, addr
}

// pair connects two sockets: near was dialled on d, far accepted on e.
func (r *rig) pair(d, e aio.Driver) (near, far aio.Sock) {
	r.Helper()
	l, addr := r.listen(e, aio.ListenAlone)
	o := owner{}
	op := aio.Op{Kind: aio.KindAccept, Sock: l, Owner: &o}
	far = aio.NoSock
	o.then = func(op *aio.Op) {
		if op.Err == nil {
			far = op.NewSock
		}
	}
	e.Submit(&op)
	near, err := d.Dial(addr)
	r.check(err)
	r.until("the connection", func() bool { return far != aio.NoSock })
	r.cancel(e, &op)
	r.check(r.do(e, &aio.Op{Kind: aio.KindCloseSock, Sock: l}))
	return near, far
}

// cancel cancels op and waits for its end.
func (r *rig) cancel(d aio.Driver, op *aio.Op) {
	r.Helper()
	d.Cancel(op)
	r.until("the end of a cancelled operation", func() bool { return !op.InFlight() })
	if op.Err != nil {
		r.fails(op.Err, aio.ErrCanceled)
	}
}

// settle gives what has been submitted time to be armed.
func (r *rig) settle(d aio.Driver) {
	r.Helper()
	for range 100 {
		_, err := d.Poll(0)
		r.check(err)
	}
}

func listens(r *rig) {
	d, e := r.open(small), r.open(small)
	_, alone := r.listen(d, aio.ListenAlone)
	for _, mode := range []aio.ListenMode{aio.ListenAlone, aio.ListenShared} {
		_, _, err := e.Listen(alone, mode)
		r.fails(err, nil)
	}
	_, shared := r.listen(d, aio.ListenShared)
	_, again, err := e.Listen(shared, aio.ListenShared)
	r.check(err)
	if again != shared {
		r.Fatalf("sharing %s bound to %s", shared, again)
	}
	_, _, err = e.Listen(shared, aio.ListenAlone)
	r.fails(err, nil)
	_, _, err = e.Listen("no address", aio.ListenAlone)
	r.fails(err, nil)
}

func acceptsMany(r *rig) {
	const n = 20
	d := r.open(small)
	l, addr := r.listen(d, aio.ListenAlone)
	o, socks := owner{}, map[aio.Sock]bool{}
	o.then = func(op *aio.Op) {
		if op.Err != nil || !op.More || !op.InFlight() {
			r.Errorf("accept: %v, more %v, in flight %v", op.Err, op.More, op.InFlight())
		}
		socks[op.NewSock] = true
	}
	op := aio.Op{Kind: aio.KindAccept, Sock: l, Owner: &o}
	d.Submit(&op)
	for range n {
		s, err := d.Dial(addr)
		r.check(err)
		socks[s] = true
		if got := d.PeerAddr(s); got != addr {
			r.Fatalf("the peer of a connection to %s is %q", addr, got)
		}
	}
	r.until("all connections", func() bool { return len(o.ops) >= n })
	if len(socks) != 2*n {
		r.Fatalf("%d different sockets, expected %d", len(socks), 2*n)
	}
	for s := range socks {
		if got := d.PeerAddr(s); !strings.HasPrefix(got, "127.0.0.1:") {
			r.Fatalf("the peer of a loopback connection is %q", got)
		}
	}
}

func cancelsAccept(r *rig) {
	d := r.open(small)
	l, addr := r.listen(d, aio.ListenAlone)
	for range 3 {
		o := owner{}
		op := aio.Op{Kind: aio.KindAccept, Sock: l, Owner: &o}
		d.Submit(&op)
		r.settle(d)
		d.Cancel(&op)
		r.until("the end", func() bool { return !op.InFlight() })
		r.fails(op.Err, aio.ErrCanceled)
		if op.NewSock != aio.NoSock {
			r.Fatalf("a cancelled accept names socket %d", op.NewSock)
		}
	}
	o := owner{}
	op := aio.Op{Kind: aio.KindAccept, Sock: l, Owner: &o}
	d.Submit(&op)
	_, err := d.Dial(addr)
	r.check(err)
	r.until("a connection", func() bool { return len(o.ops) > 0 })
	r.check(op.Err)
}

func endsOfStream(r *rig) {
	for _, kind := range []aio.Kind{aio.KindCloseSock, aio.KindShutdown} {
		d := r.open(small)
		near, far := r.pair(d, d)
		b := r.memory(d, 1000, 4)
		in := r.receive(d, far)
		r.check(r.do(d, &aio.Op{Kind: aio.KindSend, Sock: near, Vec: [][]byte{b}}))
		r.check(r.do(d, &aio.Op{Kind: kind, Sock: near}))
		r.until("the end of the stream", func() bool { return in.ended })
		if in.err != nil || string(in.data) != string(b) {
			r.Fatalf("the stream ended with %v after %d bytes", in.err, len(in.data))
		}
		if in.op.More || in.op.InFlight() {
			r.Fatal("a receive is armed at the end of the stream")
		}
	}
}

func cancelsRecv(r *rig) {
	d := r.open(small)
	near, far := r.pair(d, d)
	var all []byte
	for i := range 10 {
		in := r.receive(d, far)
		b := r.memory(d, 5000, byte(i))
		r.check(r.do(d, &aio.Op{Kind: aio.KindSend, Sock: near, Vec: [][]byte{b}}))
		in.stop = true
		d.Cancel(&in.op)
		r.until("the end of the receive", func() bool { return !in.op.InFlight() })
		if in.err != nil {
			r.fails(in.err, aio.ErrCanceled)
		}
		all = append(all, in.data...)
	}
	in := r.receive(d, far)
	r.until("the rest", func() bool { return len(all)+len(in.data) == 50_000 })
	all = append(all, in.data...)
	for i, v := range all {
		if v != pattern(int64(i%5000), byte(i/5000)) {
			r.Fatalf("byte %d of the stream was lost or changed by a cancel", i)
		}
	}
	d.Cancel(&in.op)
	in.stop = true
	r.until("the end of the receive", func() bool { return !in.op.InFlight() })
	r.fails(in.err, aio.ErrCanceled)
	r.check(r.do(d, &aio.Op{Kind: aio.KindCloseSock, Sock: far}))
}

func handsOver(r *rig) {
	d, e := r.open(small), r.open(small)
	near, far := r.pair(d, d)
	b := r.memory(d, 3000, 1)
	in := r.receive(d, far)
	r.check(r.do(d, &aio.Op{Kind: aio.KindSend, Sock: near, Vec: [][]byte{b}}))
	r.until("the first bytes", func() bool { return len(in.data) == 3000 })
	in.stop = true
	r.cancel(d, &in.op)

	moved := r.receive(e, far)
	r.check(r.do(d, &aio.Op{Kind: aio.KindSend, Sock: near, Vec: [][]byte{b}}))
	r.until("bytes on the other driver", func() bool { return len(moved.data) == 3000 })
	if string(moved.data) != string(b) {
		r.Fatal("other bytes arrived on the other driver")
	}
	back := r.receive(d, near)
	c := r.memory(e, 2000, 2)
	r.check(r.do(e, &aio.Op{Kind: aio.KindSend, Sock: far, Vec: [][]byte{c}}))
	r.until("the answer", func() bool { return len(back.data) == 2000 })
	if string(back.data) != string(c) {
		r.Fatal("other bytes came back")
	}
	if e.PeerAddr(far) != d.PeerAddr(far) || e.PeerAddr(far) == "" {
		r.Fatalf("the peer is %q on one driver and %q on the other", d.PeerAddr(far), e.PeerAddr(far))
	}
}
