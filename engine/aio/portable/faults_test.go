package portable

import (
	"bytes"
	"errors"
	"slices"
	"syscall"
	"testing"

	"github.com/mqd-broker/mqd/engine/aio"
	"golang.org/x/sys/unix"
)

const block = aio.BlockSize

func TestAShortWriteGoesOnWithTheRestAndItsFlags(t *testing.T) {
	k := newFaulty()
	d := open(t, Config{calls: k})
	for _, c := range []struct {
		name  string
		mode  aio.OpenMode
		limit int
		want  []request
	}{
		{"at a block", aio.OpenDirect, 2 * block, []request{{"write", 0, 4 * block, true}, {"write", 2 * block, 2 * block, true}}},
		{"inside a block", aio.OpenDirect, block + 512, []request{{"write", 0, 4 * block, true}, {"write", block, 3 * block, true}}},
		{"inside the first block", aio.OpenDirect, 512, []request{{"write", 0, 4 * block, true}, {"write", 0, 4 * block, true}}},
		{"without direct I/O", 0, 2*block + 4096, []request{{"write", 0, 4 * block, true}, {"write", 3 * block, block, true}}},
	} {
		f := newFile(t, d, c.mode)
		b := memory(t, d, 4*block)
		k.next(answer{limit: c.limit})
		op := aio.Op{Kind: aio.KindWrite, File: f, Buf: b, Flags: aio.FlagDSYNC}
		check(t, aio.Do(d, &op))
		if op.N != len(b) || !slices.Equal(k.requests(), c.want) {
			t.Fatalf("%s: %d bytes by %v, expected %v", c.name, op.N, k.requests(), c.want)
		}
		if !bytes.Equal(readBack(t, d, f, len(b)), b) {
			t.Fatalf("%s: the file does not hold what was written", c.name)
		}
	}
}

func TestAWriteWithoutProgressIsAnError(t *testing.T) {
	k := newFaulty()
	d := open(t, Config{calls: k})
	f := newFile(t, d, aio.OpenDirect)
	k.next(answer{nought: true})
	isError(t, aio.WriteAt(d, f, memory(t, d, block), 0, 0), aio.ErrShort)
	if len(k.requests()) != 1 {
		t.Fatalf("tried again: %v", k.requests())
	}
	// One that never gets over a block is given up as well.
	never := make([]answer, maxRetries+1)
	for i := range never {
		never[i] = answer{limit: 512}
	}
	k.next(never...)
	isError(t, aio.WriteAt(d, f, memory(t, d, block), 0, 0), aio.ErrShort)
	if len(k.requests()) != maxRetries+1 {
		t.Fatalf("%d calls, expected %d", len(k.requests()), maxRetries+1)
	}
}

func TestASplitReadGoesOnToTheEndOfTheFile(t *testing.T) {
	k := newFaulty()
	d := open(t, Config{calls: k})
	f := newFile(t, d, aio.OpenDirect)
	b := memory(t, d, 3*block)
	check(t, aio.WriteAt(d, f, b, 0, 0))
	k.next(answer{limit: block}, answer{errno: unix.EINTR})
	op := aio.Op{Kind: aio.KindRead, File: f, Buf: memory(t, d, 8*block)}
	check(t, aio.Do(d, &op))
	if !bytes.Equal(op.Buf[:op.N], b) {
		t.Fatalf("read %d bytes of %d, or others", op.N, len(b))
	}
}

func TestWhatTheKernelHadNoMeansForIsTriedAgain(t *testing.T) {
	k := newFaulty()
	d := open(t, Config{calls: k})
	f := newFile(t, d, aio.OpenDirect)
	b := memory(t, d, block)
	times := func(n int, errno syscall.Errno) []answer { return slices.Repeat([]answer{{errno: errno}}, n) }
	for _, errno := range []syscall.Errno{unix.EAGAIN, unix.ENOMEM} {
		k.next(times(maxRetries, errno)...)
		check(t, aio.WriteAt(d, f, b, 0, 0))
		k.next(times(maxRetries+1, errno)...)
		isError(t, aio.WriteAt(d, f, b, 0, 0), errno)
		k.next(times(maxRetries+1, errno)...)
		_, err := aio.ReadAt(d, f, b, 0)
		isError(t, err, errno)
	}
	k.next(times(10*maxRetries, unix.EINTR)...)
	check(t, aio.WriteAt(d, f, b, 0, aio.FlagDSYNC))
}

func TestAFailedFlushIsNotRepeated(t *testing.T) {
	k := newFaulty()
	d := open(t, Config{calls: k})
	f := newFile(t, d, aio.OpenDirect)
	for _, errno := range []syscall.Errno{unix.EIO, unix.ENOSPC, unix.EAGAIN, unix.EINTR, unix.ENOMEM} {
		k.next(answer{errno: errno})
		isError(t, aio.Fdatasync(d, f), errno)
		if len(k.requests()) != 1 {
			t.Fatalf("%v: the flush was tried %d times", errno, len(k.requests()))
		}
	}
}

func TestAnErrorNamesFileAndPlace(t *testing.T) {
	k := newFaulty()
	d := open(t, Config{calls: k})
	path := t.TempDir() + "/named"
	f, _, err := aio.OpenFile(d, path, aio.OpenWrite|aio.OpenCreate|aio.OpenDirect)
	check(t, err)
	k.next(answer{limit: block}, answer{errno: unix.EIO})
	op := aio.Op{Kind: aio.KindWrite, File: f, Buf: memory(t, d, 3*block), Off: 8 * block}
	err = aio.Do(d, &op)
	isError(t, err, unix.EIO)
	var e *aio.Error
	errors.As(err, &e)
	if e.Op != "write" || e.What != path || e.Off != 9*block || op.N != block {
		t.Fatalf("%+v after %d bytes, expected a write of %s at %d", *e, op.N, path, 9*block)
	}
}

// A kernel without RWF_DSYNC gets a write and a flush, whose failure is the write's.
func TestADurableWriteWithoutDSYNCIsFlushed(t *testing.T) {
	k := newFaulty()
	d := open(t, Config{calls: k})
	f := newFile(t, d, aio.OpenDirect)
	b := memory(t, d, 2*block)
	want := []request{{"write", 0, 2 * block, true}, {"write", 0, 2 * block, false}, {"fdatasync", 0, 0, false}}
	for _, errno := range []syscall.Errno{unix.EOPNOTSUPP, unix.ENOSYS} {
		k.next(answer{errno: errno})
		check(t, aio.WriteAt(d, f, b, 0, aio.FlagDSYNC))
		if !slices.Equal(k.requests(), want) {
			t.Fatalf("%v: %v, expected %v", errno, k.requests(), want)
		}
	}
	k.next(answer{errno: unix.EOPNOTSUPP}, answer{}, answer{errno: unix.EIO})
	isError(t, aio.WriteAt(d, f, b, 0, aio.FlagDSYNC), unix.EIO)
	k.next(answer{errno: unix.EOPNOTSUPP})
	isError(t, aio.WriteAt(d, f, b, 0, 0), unix.EOPNOTSUPP)
}

func TestASendGoesOnAfterWhatIsNoFailure(t *testing.T) {
	k := newFaulty()
	d := open(t, Config{calls: k})
	near, far := pair(t, d)
	b := memory(t, d, 9000)
	k.next(answer{limit: 10}, answer{errno: unix.EINTR}, answer{errno: unix.EAGAIN}, answer{limit: 995}, answer{limit: 1}, answer{limit: 5})
	o := &log{}
	op := aio.Op{Kind: aio.KindSend, Sock: near, Vec: [][]byte{b[:1000], nil, b[1000:1001], b[1001:7000], b[7000:]}, Owner: o}
	d.Submit(&op)
	until(t, d, func() bool { return o.n > 0 })
	check(t, op.Err)
	if got := take(t, d, far, len(b)); op.N != len(b) || !bytes.Equal(got, b) {
		t.Fatalf("sent %d, received %d bytes, or others", op.N, len(got))
	}
	k.next(answer{limit: 100}, answer{errno: unix.EPIPE})
	err := aio.Do(d, &op)
	isError(t, err, unix.EPIPE)
	if op.N != 100 {
		t.Fatalf("%d bytes were sent before the error, expected 100", op.N)
	}
}

func TestAReceiveOutlivesSignalsAndEndsByAReset(t *testing.T) {
	k := newFaulty()
	d := open(t, Config{calls: k})
	near, far := pair(t, d)
	check(t, aio.Do(d, &aio.Op{Kind: aio.KindSend, Sock: near, Vec: [][]byte{memory(t, d, 300)}}))
	k.next(answer{errno: unix.EINTR}, answer{errno: unix.EINTR})
	if got := take(t, d, far, 300); len(got) != 300 {
		t.Fatalf("%d bytes, expected 300", len(got))
	}
	check(t, unix.SetsockoptLinger(int(near), unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}))
	check(t, aio.Do(d, &aio.Op{Kind: aio.KindCloseSock, Sock: near}))
	op := aio.Op{Kind: aio.KindRecv, Sock: far}
	isError(t, aio.Do(d, &op), unix.ECONNRESET)
	if op.More || d.FreeBufs() != small.RecvBuffers {
		t.Fatalf("after a reset: armed %v, %d buffers are home", op.More, d.FreeBufs())
	}
}

func TestAnAcceptOutlivesPeersThatGaveUp(t *testing.T) {
	k := newFaulty()
	d := open(t, Config{calls: k})
	l, addr, err := d.Listen("127.0.0.1:0", aio.ListenAlone)
	check(t, err)
	o := &log{}
	op := aio.Op{Kind: aio.KindAccept, Sock: l, Owner: o}
	k.next(answer{errno: unix.ECONNABORTED}, answer{errno: unix.EINTR})
	d.Submit(&op)
	s, err := d.Dial(addr)
	check(t, err)
	until(t, d, func() bool { return o.n > 0 })
	if op.Err != nil || op.NewSock == aio.NoSock || !op.More {
		t.Fatalf("accept: socket %d, more %v, %v", op.NewSock, op.More, op.Err)
	}
	for _, fd := range []aio.Sock{s, op.NewSock, l} {
		check(t, unix.Close(int(fd)))
	}
}

func TestAnAcceptWithoutDescriptorsEndsAndGoesOnLater(t *testing.T) {
	k := newFaulty()
	d := open(t, Config{calls: k})
	l, addr, err := d.Listen("127.0.0.1:0", aio.ListenAlone)
	check(t, err)
	s, err := d.Dial(addr)
	check(t, err)
	for _, errno := range []syscall.Errno{unix.EMFILE, unix.ENFILE, unix.ENOMEM} {
		k.next(answer{errno: errno})
		op := aio.Op{Kind: aio.KindAccept, Sock: l}
		isError(t, aio.Do(d, &op), errno)
		if op.More || op.InFlight() || op.NewSock != aio.NoSock {
			t.Fatalf("%v: accept failed and is armed: %+v", errno, op)
		}
	}
	op := aio.Op{Kind: aio.KindAccept, Sock: l}
	check(t, aio.Do(d, &op))
	for _, fd := range []aio.Sock{s, op.NewSock, l} {
		check(t, unix.Close(int(fd)))
	}
}
