package uring

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
	"golang.org/x/sys/unix"
)

func TestConnectionsHaveTheOptionsOfABroker(t *testing.T) {
	d := open(t, small, Config{})
	near, far := pair(t, d)
	for name, s := range map[string]aio.Sock{"dialled": near, "accepted": far} {
		for _, o := range []struct {
			level, name, want int
		}{
			{unix.IPPROTO_TCP, unix.TCP_NODELAY, 1},
			{unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
			{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 30},
			{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 10},
			{unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 3},
			{unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, 30_000},
		} {
			if got, err := unix.GetsockoptInt(int(s), o.level, o.name); err != nil || got != o.want {
				t.Errorf("%s socket: option %d of level %d is %d, expected %d (%v)", name, o.name, o.level, got, o.want, err)
			}
		}
		if flags, err := unix.FcntlInt(uintptr(s), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("%s socket is inherited by child processes", name)
		}
		if flags, err := unix.FcntlInt(uintptr(s), unix.F_GETFL, 0); err != nil || flags&unix.O_NONBLOCK != 0 {
			t.Errorf("%s socket does not block: the ring would not wait on it", name)
		}
	}
}

// take receives until n bytes have come or the receive has ended.
func take(t *testing.T, d *Driver, recv *aio.Op, n int) []byte {
	t.Helper()
	var got []byte
	recv.Owner = &log{then: func(op *aio.Op) {
		if len(op.Data) > 0 {
			got = append(got, op.Data...)
			d.ReleaseBuf(op.BufID)
		}
	}}
	if !recv.InFlight() {
		d.Submit(recv)
	}
	until(t, d, func() bool { return len(got) >= n || !recv.InFlight() })
	return got
}

func TestAnEmptyPoolEndsAReceive(t *testing.T) {
	d := open(t, small, Config{})
	near, far := pair(t, d)
	b := memory(t, d, 10*4096)
	var kept []aio.BufID
	var got []byte
	recv := aio.Op{Kind: aio.KindRecv, Sock: far, Owner: &log{then: func(op *aio.Op) {
		if len(op.Data) > 0 {
			got = append(got, op.Data...)
			kept = append(kept, op.BufID)
		}
	}}}
	d.Submit(&recv)
	check(t, aio.Do(d, &aio.Op{Kind: aio.KindSend, Sock: near, Vec: [][]byte{b}}))
	until(t, d, func() bool { return !recv.InFlight() })
	isError(t, recv.Err, aio.ErrNoBuffers)
	if len(kept) != small.RecvBuffers || d.FreeBufs() != 0 {
		t.Fatalf("%d buffers kept, %d home, of %d", len(kept), d.FreeBufs(), small.RecvBuffers)
	}
	for _, id := range kept {
		d.ReleaseBuf(id)
	}
	got = append(got, take(t, d, &recv, len(b)-len(got))...)
	if !bytes.Equal(got, b) {
		t.Fatalf("%d bytes came, or others", len(got))
	}
	violates(t, func() { d.ReleaseBuf(kept[0]) })
	violates(t, func() { d.ReleaseBuf(aio.BufID(small.RecvBuffers)) })
	if d.FreeBufs() != small.RecvBuffers {
		t.Fatalf("%d buffers are home", d.FreeBufs())
	}
}

func TestAShortSendGoesOnWithTheRest(t *testing.T) {
	d := open(t, small, Config{})
	e := mapEntries(t, d)
	near, far := pair(t, d)
	recv := aio.Op{Kind: aio.KindRecv, Sock: far}
	b := memory(t, d, 9000)

	one := aio.Op{Kind: aio.KindSend, Sock: near, Vec: [][]byte{b}, Owner: &log{}}
	d.Submit(&one)
	e.last().Len = 10
	if got := take(t, d, &recv, len(b)); !bytes.Equal(got, b) {
		t.Fatalf("one piece: %d bytes came, or others", len(got))
	}
	until(t, d, func() bool { return !one.InFlight() })

	many := aio.Op{Kind: aio.KindSend, Sock: near, Vec: [][]byte{b[:1000], b[1000:1001], b[1001:7000], b[7000:]}, Owner: &log{}}
	d.Submit(&many)
	m := d.messages.at(many.Drv.Slot)
	m.hdr.SetIovlen(3)
	m.iov[2].SetLen(5)
	if got := take(t, d, &recv, len(b)); !bytes.Equal(got, b) {
		t.Fatalf("four pieces: %d bytes came, or others", len(got))
	}
	until(t, d, func() bool { return !many.InFlight() })
	for _, op := range []*aio.Op{&one, &many} {
		if op.Err != nil || op.N != len(b) {
			t.Fatalf("sent %d, %v", op.N, op.Err)
		}
	}
	if n := d.Stats().Continued; n != 2 {
		t.Fatalf("continued %d times, expected 2", n)
	}
}

// TestACancelledSendEnds: the kernel reports a send that it has sent a part of
// as a short one, whose rest must not follow.
func TestACancelledSendEnds(t *testing.T) {
	d := open(t, small, Config{})
	near, _ := pair(t, d)
	b := memory(t, d, 1<<20)
	o := &log{}
	op := aio.Op{Kind: aio.KindSend, Sock: near, Owner: o}
	for range aio.MaxVec {
		op.Vec = append(op.Vec, b)
	}
	d.Submit(&op)
	for range 50 {
		_, err := d.Poll(0)
		check(t, err)
	}
	d.Cancel(&op)
	d.Cancel(&op)
	until(t, d, func() bool { return !op.InFlight() })
	isError(t, op.Err, aio.ErrCanceled)
	if op.N >= aio.MaxVec<<20 || o.n != 1 {
		t.Fatalf("sent %d, %d completions", op.N, o.n)
	}
	d.Cancel(&op) // it has ended: nothing happens
	_, err := d.Poll(time.Millisecond)
	check(t, err)
}

func TestEveryFormOfAddressIsUnderstood(t *testing.T) {
	d := open(t, small, Config{})
	for _, c := range []struct{ listen, dial string }{
		{"127.0.0.1:0", "127.0.0.1:"}, {"localhost:0", "localhost:"}, {":0", "127.0.0.1:"}, {":0", ":"}, {"[::1]:0", "[::1]:"}, {"[::]:0", "[::1]:"},
	} {
		l, addr, err := d.Listen(c.listen, aio.ListenAlone)
		if err != nil {
			if strings.Contains(c.listen, "::") {
				t.Logf("no IPv6 here: %v", err)
				continue
			}
			t.Fatal(err)
		}
		s, err := d.Dial(c.dial + addr[strings.LastIndexByte(addr, ':')+1:])
		if err != nil {
			t.Errorf("listening on %q (%s), dialling %q: %v", c.listen, addr, c.dial, err)
		} else if peer := d.PeerAddr(s); !strings.HasSuffix(peer, addr[strings.LastIndexByte(addr, ':'):]) {
			t.Errorf("the peer of a connection to %s is %s", addr, peer)
		}
		_ = unix.Close(int(s))
		check(t, unix.Close(int(l)))
	}
	for _, bad := range []string{"", "127.0.0.1", "127.0.0.1:99999", "[::1:80"} {
		if _, _, err := d.Listen(bad, aio.ListenAlone); err == nil {
			t.Errorf("listening on %q succeeded", bad)
		}
		if _, err := d.Dial(bad); err == nil {
			t.Errorf("dialling %q succeeded", bad)
		}
	}
	l, addr, err := d.Listen("127.0.0.1:0", aio.ListenAlone)
	check(t, err)
	check(t, unix.Close(int(l)))
	_, err = d.Dial(addr)
	isError(t, err, unix.ECONNREFUSED)
	if d.PeerAddr(aio.NoSock) != "" {
		t.Error("no socket has a peer")
	}
}

func TestMemoryThatMayMoveIsRefused(t *testing.T) {
	d := open(t, small, Config{})
	near, _ := pair(t, d)
	f := newFile(t, d, 4096)
	heap := make([]byte, 8192)
	own := memory(t, d, 4096)
	for _, op := range []*aio.Op{
		{Kind: aio.KindWrite, File: f, Buf: heap},
		{Kind: aio.KindRead, File: f, Buf: heap},
		{Kind: aio.KindSend, Sock: near, Vec: [][]byte{own, heap}},
		{Kind: aio.KindSend, Sock: near, Vec: make([][]byte, aio.MaxVec+1)},
		{Kind: aio.KindNone},
	} {
		op.Owner = &log{}
		violates(t, func() { d.Submit(op) })
		d.inFlight--
	}
}

func TestAShardSendsAndWritesAnothersMemory(t *testing.T) {
	d, other := open(t, small, Config{}), open(t, small, Config{})
	near, far := pair(t, d)
	b := memory(t, other, 8192)
	send := aio.Op{Kind: aio.KindSend, Sock: near, Vec: [][]byte{b[:5000], b[5000:]}, Owner: &log{}}
	d.Submit(&send)
	recv := aio.Op{Kind: aio.KindRecv, Sock: far}
	if got := take(t, d, &recv, len(b)); !bytes.Equal(got, b) {
		t.Fatalf("%d bytes came, or others", len(got))
	}
	f := newFile(t, d, 0)
	check(t, aio.WriteAt(d, f, b, 0, 0))
	if !bytes.Equal(readBack(t, d, f, len(b)), b) {
		t.Fatal("the file does not hold what was written")
	}
	if other.arena.close(); isLent(b) {
		t.Fatal("memory that is gone can still be lent")
	}
	other.arena, _ = newArena(4096, maxPiece)
}

// TestSocketOperationsOutliveWhatIsNoFailure: EAGAIN that leaks out of the
// kernel, a connection that its peer gave up in the queue.
func TestSocketOperationsOutliveWhatIsNoFailure(t *testing.T) {
	d := open(t, small, Config{})
	e := mapEntries(t, d)
	e.needInjection(t)
	near, far := pair(t, d)
	b := memory(t, d, 100)
	for _, errno := range []unix.Errno{unix.EAGAIN, unix.EINTR, unix.ENOMEM} {
		recv := aio.Op{Kind: aio.KindRecv, Sock: far, Owner: &log{}}
		d.Submit(&recv)
		e.answer(-int32(errno))
		send := aio.Op{Kind: aio.KindSend, Sock: near, Vec: [][]byte{b}, Owner: &log{}}
		d.Submit(&send)
		e.answer(-int32(errno))
		if got := take(t, d, &recv, len(b)); !bytes.Equal(got, b) {
			t.Fatalf("%v: %d bytes came, %v", errno, len(got), recv.Err)
		}
		until(t, d, func() bool { return !send.InFlight() })
		check(t, send.Err)
		d.Cancel(&recv)
		until(t, d, func() bool { return !recv.InFlight() })
	}
	l, addr, err := d.Listen("127.0.0.1:0", aio.ListenAlone)
	check(t, err)
	o := &log{}
	accept := aio.Op{Kind: aio.KindAccept, Sock: l, Owner: o}
	d.Submit(&accept)
	e.answer(-int32(unix.ECONNABORTED))
	s, err := d.Dial(addr)
	check(t, err)
	until(t, d, func() bool { return o.n > 0 })
	if accept.Err != nil || accept.NewSock == aio.NoSock || !accept.More {
		t.Fatalf("accept: socket %d, more %v, %v", accept.NewSock, accept.More, accept.Err)
	}
	for _, fd := range []aio.Sock{s, accept.NewSock, l} {
		check(t, unix.Close(int(fd)))
	}
}

func TestAnAcceptWithoutDescriptorsEndsAndGoesOnLater(t *testing.T) {
	d := open(t, small, Config{})
	l, addr, err := d.Listen("127.0.0.1:0", aio.ListenAlone)
	check(t, err)
	to, err := netip.ParseAddrPort(addr)
	check(t, err)
	o := &log{}
	client, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0) // the lowest free descriptor
	check(t, err)
	var old unix.Rlimit
	check(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	next, err := unix.Dup(client)
	check(t, err)
	check(t, unix.Close(next))
	check(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(next), Max: old.Max}))
	accept := aio.Op{Kind: aio.KindAccept, Sock: l, Owner: o}
	d.Submit(&accept) // from here on the kernel knows the limit
	_, err = d.Poll(0)
	cerr := unix.Connect(client, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()})
	until(t, d, func() bool { return o.n > 0 })
	check(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &old))
	check(t, err)
	check(t, cerr)
	isError(t, accept.Err, unix.EMFILE)
	if accept.More || accept.InFlight() || accept.NewSock != aio.NoSock {
		t.Fatalf("accept failed and is armed: %+v", accept)
	}
	again := aio.Op{Kind: aio.KindAccept, Sock: l, Owner: o}
	d.Submit(&again)
	second, err := d.Dial(addr)
	check(t, err)
	until(t, d, func() bool { return o.n > 1 })
	if again.Err != nil || again.NewSock == aio.NoSock {
		t.Fatalf("accept after descriptors are free: %v", again.Err)
	}
	for _, fd := range []int{client, int(second), int(l), int(again.NewSock)} {
		check(t, unix.Close(fd))
	}
}
