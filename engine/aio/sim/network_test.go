package sim_test

import (
	"bytes"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
)

// link is a connection between a server and a client of a virtual world.
type link struct {
	*testing.T
	w         *sim.World
	d, c      *sim.Driver
	near, far aio.Sock // the client's end, the server's end
}

func newLink(t *testing.T, o sim.Options) *link {
	t.Helper()
	w := sim.New(o)
	l := &link{T: t, w: w, d: w.Driver(aio.Options{}), c: w.ClientDriver(aio.Options{})}
	listener, addr, err := l.d.Listen("127.0.0.1:0", aio.ListenAlone)
	must(t, err)
	accept := &aio.Op{Kind: aio.KindAccept, Sock: listener, Owner: &log{}}
	l.d.Submit(accept)
	l.near, err = l.c.Dial(addr)
	must(t, err)
	l.until(func() bool { return accept.NewSock != aio.NoSock })
	l.far = accept.NewSock
	return l
}

// until polls both ends until done, for a bounded number of turns.
func (l *link) until(done func() bool) {
	l.Helper()
	for range 100_000 {
		if done() {
			return
		}
		l.turn()
	}
	l.Fatal("what is waited for does not happen")
}

func (l *link) turn() {
	l.Helper()
	for _, d := range []*sim.Driver{l.d, l.c} {
		_, err := d.Poll(time.Millisecond)
		must(l.T, err)
	}
}

func (l *link) submit(d *sim.Driver, op aio.Op) *aio.Op {
	op.Owner = &log{}
	d.Submit(&op)
	return &op
}

// do performs op on d.
func (l *link) do(d *sim.Driver, op aio.Op) error {
	l.Helper()
	p := l.submit(d, op)
	l.until(func() bool { return !p.InFlight() })
	return p.Err
}

// reader receives a stream and keeps the pieces.
type reader struct {
	d      *sim.Driver
	op     aio.Op
	pieces [][]byte
	ids    []aio.BufID
	ended  bool
	err    error
}

func read(d *sim.Driver, s aio.Sock) *reader {
	r := &reader{d: d}
	r.op = aio.Op{Kind: aio.KindRecv, Sock: s, Owner: r}
	d.Submit(&r.op)
	return r
}

func (r *reader) Complete(op *aio.Op) {
	if len(op.Data) > 0 {
		r.pieces, r.ids = append(r.pieces, op.Data), append(r.ids, op.BufID)
		return
	}
	r.ended, r.err = true, op.Err
}

func (r *reader) bytes() int { return len(bytes.Join(r.pieces, nil)) }

func TestSendCompletesWhenTheReceiverMakesRoom(t *testing.T) {
	l := newLink(t, sim.Options{Seed: 1, SocketBuffer: 16 << 10})
	b := block(t, l.c, 40_000, 7)
	send := l.submit(l.c, aio.Op{Kind: aio.KindSend, Sock: l.near, Vec: [][]byte{b[:10_000], b[10_000:]}})
	for range 200 {
		l.turn()
	}
	if !send.InFlight() {
		t.Fatalf("a socket of 16 KiB took %d bytes that nobody receives", send.N)
	}
	r := read(l.d, l.far)
	l.until(func() bool { return r.bytes() == len(b) && !send.InFlight() })
	must(t, send.Err)
	if !bytes.Equal(bytes.Join(r.pieces, nil), b) {
		t.Fatal("other bytes arrived")
	}
}

func TestStreamIsSplitFromTheSeed(t *testing.T) {
	shapes := map[int]bool{}
	for seed := range uint64(10) {
		l := newLink(t, sim.Options{Seed: seed})
		r := read(l.d, l.far)
		b := block(t, l.c, 1000, 7)
		for range 10 {
			must(t, l.do(l.c, aio.Op{Kind: aio.KindSend, Sock: l.near, Vec: [][]byte{b}}))
		}
		l.until(func() bool { return r.bytes() == 10_000 })
		shapes[len(r.pieces)] = true
	}
	if len(shapes) < 3 {
		t.Fatalf("10 seeds split a stream into %v pieces", shapes)
	}
}

func TestReleasedReceiveBufferIsPoisoned(t *testing.T) {
	l := newLink(t, sim.Options{Seed: 1})
	r := read(l.d, l.far)
	must(t, l.do(l.c, aio.Op{Kind: aio.KindSend, Sock: l.near, Vec: [][]byte{block(t, l.c, 100, 7)}}))
	l.until(func() bool { return r.bytes() == 100 })
	l.d.ReleaseBuf(r.ids[0])
	if !bytes.Equal(r.pieces[0], fill(0xDB, len(r.pieces[0]))) {
		t.Fatalf("a released buffer holds % x", r.pieces[0])
	}
	violates(t, func() { l.d.ReleaseBuf(r.ids[0]) })
}

func TestHalfCloseLeavesTheOtherDirectionOpen(t *testing.T) {
	l := newLink(t, sim.Options{Seed: 1})
	in, back := read(l.d, l.far), read(l.c, l.near)
	must(t, l.do(l.c, aio.Op{Kind: aio.KindSend, Sock: l.near, Vec: [][]byte{block(t, l.c, 1000, 7)}}))
	l.w.CloseWrite(l.near)
	l.until(func() bool { return in.ended })
	if in.err != nil || in.bytes() != 1000 {
		t.Fatalf("the half-closed stream ended with %v after %d bytes", in.err, in.bytes())
	}
	must(t, l.do(l.d, aio.Op{Kind: aio.KindSend, Sock: l.far, Vec: [][]byte{block(t, l.d, 500, 8)}}))
	l.until(func() bool { return back.bytes() == 500 })
}

func TestResetFailsBothEnds(t *testing.T) {
	l := newLink(t, sim.Options{Seed: 1})
	in, back := read(l.d, l.far), read(l.c, l.near)
	l.w.Reset(l.far)
	l.until(func() bool { return in.ended && back.ended })
	if !errors.Is(in.err, syscall.ECONNRESET) || !errors.Is(back.err, syscall.ECONNRESET) {
		t.Fatalf("the ends of a reset connection: %v, %v", in.err, back.err)
	}
	err := l.do(l.d, aio.Op{Kind: aio.KindSend, Sock: l.far, Vec: [][]byte{block(t, l.d, 10, 1)}})
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("sending on a reset connection: %v", err)
	}
	must(t, l.do(l.d, aio.Op{Kind: aio.KindCloseSock, Sock: l.far}))
}

func TestCloseWithUnreadBytesIsAReset(t *testing.T) {
	l := newLink(t, sim.Options{Seed: 1})
	back := read(l.c, l.near)
	must(t, l.do(l.c, aio.Op{Kind: aio.KindSend, Sock: l.near, Vec: [][]byte{block(t, l.c, 10, 1)}}))
	must(t, l.do(l.d, aio.Op{Kind: aio.KindCloseSock, Sock: l.far}))
	l.until(func() bool { return back.ended })
	if !errors.Is(back.err, syscall.ECONNRESET) {
		t.Fatalf("the peer of a socket that was closed with unread bytes: %v", back.err)
	}
}

func TestCloseFreesASenderThatWaits(t *testing.T) {
	l := newLink(t, sim.Options{Seed: 1, SocketBuffer: 4096})
	send := l.submit(l.c, aio.Op{Kind: aio.KindSend, Sock: l.near, Vec: [][]byte{block(t, l.c, 50_000, 1)}})
	for range 100 {
		l.turn()
	}
	must(t, l.do(l.d, aio.Op{Kind: aio.KindCloseSock, Sock: l.far}))
	l.until(func() bool { return !send.InFlight() })
	err := l.do(l.c, aio.Op{Kind: aio.KindRecv, Sock: l.near})
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("receiving after the peer threw bytes away: %v", err)
	}
}

func TestCancelledSendSaysWhatHasGone(t *testing.T) {
	l := newLink(t, sim.Options{Seed: 1, SocketBuffer: 4096})
	send := l.submit(l.c, aio.Op{Kind: aio.KindSend, Sock: l.near, Vec: [][]byte{block(t, l.c, 50_000, 1)}})
	for range 100 {
		l.turn()
	}
	l.c.Cancel(send)
	l.until(func() bool { return !send.InFlight() })
	if !errors.Is(send.Err, aio.ErrCanceled) || send.N != 4096 {
		t.Fatalf("a cancelled send: %v after %d bytes", send.Err, send.N)
	}
	in := read(l.d, l.far)
	l.until(func() bool { return in.bytes() == 4096 })
}

func TestOneOperationOfAKindPerSocket(t *testing.T) {
	l := newLink(t, sim.Options{Seed: 1})
	read(l.d, l.far)
	read(l.d, l.far)
	violates(t, func() { l.until(func() bool { return false }) })
}

func TestSocketIsNotClosedUnderAnOperation(t *testing.T) {
	l := newLink(t, sim.Options{Seed: 1})
	read(l.d, l.far)
	l.turn()
	l.submit(l.d, aio.Op{Kind: aio.KindCloseSock, Sock: l.far})
	violates(t, func() { l.until(func() bool { return false }) })
}

func TestConnectionsToASharedPortAreSpread(t *testing.T) {
	w := sim.New(sim.Options{Seed: 1})
	a, b := w.Driver(aio.Options{}), w.Driver(aio.Options{})
	la, addr, err := a.Listen(":0", aio.ListenShared)
	must(t, err)
	lb, _, err := b.Listen(addr, aio.ListenShared)
	must(t, err)
	oa, ob := &log{}, &log{}
	a.Submit(&aio.Op{Kind: aio.KindAccept, Sock: la, Owner: oa})
	b.Submit(&aio.Op{Kind: aio.KindAccept, Sock: lb, Owner: ob})
	for range 40 {
		_, err := a.Dial("localhost:" + addr[len("0.0.0.0:"):])
		must(t, err)
	}
	for len(oa.ops)+len(ob.ops) < 40 {
		for _, d := range []*sim.Driver{a, b} {
			_, err := d.Poll(time.Millisecond)
			must(t, err)
		}
	}
	if len(oa.ops) < 8 || len(ob.ops) < 8 {
		t.Fatalf("one listener got %d connections, the other %d", len(oa.ops), len(ob.ops))
	}
}

func TestListenerThatEndsBreaksConnectionsNobodyAccepted(t *testing.T) {
	for _, kind := range []aio.Kind{aio.KindShutdown, aio.KindCloseSock} {
		w := sim.New(sim.Options{Seed: 1})
		l := &link{T: t, w: w, d: w.Driver(aio.Options{}), c: w.ClientDriver(aio.Options{})}
		s, addr, err := l.d.Listen("127.0.0.1:7", aio.ListenAlone)
		must(t, err)
		early, err := l.c.Dial(addr)
		must(t, err)
		l.turn()
		late, err := l.c.Dial(addr)
		must(t, err)
		must(t, l.do(l.d, aio.Op{Kind: kind, Sock: s}))
		if err := l.do(l.d, aio.Op{Kind: aio.KindAccept, Sock: s}); err == nil {
			t.Fatal("accepted on a listener that has ended")
		}
		for _, c := range []aio.Sock{early, late} {
			in := read(l.c, c)
			l.until(func() bool { return in.ended })
			if !errors.Is(in.err, syscall.ECONNRESET) {
				t.Fatalf("a connection that nobody accepted ended with %v", in.err)
			}
		}
	}
}
