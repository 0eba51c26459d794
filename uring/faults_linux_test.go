package uring

import (
	"bytes"
	"runtime"
	"slices"
	"testing"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/pawelgaczynski/giouring"
	"golang.org/x/sys/unix"
)

// readBack reads n bytes of f.
func readBack(t testing.TB, d *Driver, f aio.File, n int) []byte {
	t.Helper()
	b, err := d.Alloc(n)
	check(t, err)
	got, err := aio.ReadAt(d, f, b, 0)
	check(t, err)
	return b[:got]
}

func TestAShortWriteGoesOnWithTheRest(t *testing.T) {
	d := open(t, small, Config{})
	e := mapEntries(t, d)
	for _, c := range []struct {
		name string
		mode aio.OpenMode
		len  uint32 // what the first entry is cut to
	}{
		{"at a block", aio.OpenDirect, 8192},
		{"inside a block", aio.OpenDirect, 4096 + 512},
		{"buffered, anywhere", 0, 4097},
	} {
		f, _, err := aio.OpenFile(d, t.TempDir()+"/f", aio.OpenWrite|aio.OpenCreate|c.mode)
		check(t, err)
		b := memory(t, d, 4*aio.BlockSize)
		op := aio.Op{Kind: aio.KindWrite, File: f, Buf: b, Flags: aio.FlagDSYNC, Owner: &log{}}
		d.Submit(&op)
		e.last().Len = c.len
		before := d.Stats().Continued
		until(t, d, func() bool { return !op.InFlight() })
		if op.Err != nil || op.N != len(b) {
			t.Fatalf("%s: wrote %d bytes, %v", c.name, op.N, op.Err)
		}
		if d.Stats().Continued != before+1 {
			t.Fatalf("%s: the write was not continued once", c.name)
		}
		if !bytes.Equal(readBack(t, d, f, len(b)), b) {
			t.Fatalf("%s: the file does not hold what was written", c.name)
		}
	}
}

func TestARestKeepsTheFlagsOfItsWrite(t *testing.T) {
	d := open(t, small, Config{})
	e := mapEntries(t, d)
	e.needInjection(t)
	f := newFile(t, d, 0)
	op := aio.Op{Kind: aio.KindWrite, File: f, Off: 4096, Buf: memory(t, d, 3*aio.BlockSize), Flags: aio.FlagDSYNC, Owner: &log{}}
	d.Submit(&op)
	e.answer(aio.BlockSize)
	tail := d.ring.tail
	for d.ring.tail == tail {
		_, err := d.Poll(0)
		check(t, err)
	}
	rest := *e.last()
	want := giouring.SubmissionQueueEntry{
		OpCode: giouring.OpWriteFixed, Flags: giouring.SqeFixedFile, Fd: int32(f), Off: 2 * aio.BlockSize,
		Addr: uint64(addressOf(op.Buf)) + aio.BlockSize, Len: 2 * aio.BlockSize,
		OpcodeFlags: unix.RWF_DSYNC, UserData: rest.UserData,
	}
	if rest != want {
		t.Fatalf("the rest is\n%+v, expected\n%+v", rest, want)
	}
	until(t, d, func() bool { return !op.InFlight() })
	check(t, op.Err)
}

func TestAWriteWithoutProgressIsAnError(t *testing.T) {
	d := open(t, small, Config{})
	e := mapEntries(t, d)
	e.needInjection(t)
	op := aio.Op{Kind: aio.KindWrite, File: newFile(t, d, 0), Buf: memory(t, d, 4096), Owner: &log{}}
	d.Submit(&op)
	e.answer(0)
	until(t, d, func() bool { return !op.InFlight() })
	isError(t, op.Err, aio.ErrShort)
}

func TestASplitReadGoesOnToTheEndOfTheFile(t *testing.T) {
	d := open(t, small, Config{})
	e := mapEntries(t, d)
	f := newFile(t, d, 0)
	b := memory(t, d, 3*aio.BlockSize)
	check(t, aio.WriteAt(d, f, b, 0, 0))
	op := aio.Op{Kind: aio.KindRead, File: f, Buf: memory(t, d, 8*aio.BlockSize), Owner: &log{}}
	d.Submit(&op)
	e.last().Len = aio.BlockSize
	until(t, d, func() bool { return !op.InFlight() })
	if op.Err != nil || op.N != len(b) || !bytes.Equal(op.Buf[:op.N], b) {
		t.Fatalf("read %d bytes, %v", op.N, op.Err)
	}
}

// answerEvery makes every entry of op end with errno, until it has completed.
func answerEvery(t testing.TB, d *Driver, e entries, op *aio.Op, errno unix.Errno) {
	t.Helper()
	d.Submit(op)
	e.answer(-int32(errno))
	for op.InFlight() {
		if len(d.waiting) > 0 {
			d.slots.tab[d.waiting[0]].due = 0
			d.resume()
			e.answer(-int32(errno))
		}
		_, err := d.Poll(0)
		check(t, err)
	}
}

func TestAnOperationThatTheKernelHadNoMeansForIsTriedAgain(t *testing.T) {
	d := open(t, small, Config{})
	e := mapEntries(t, d)
	e.needInjection(t)
	f := newFile(t, d, 0)
	for _, errno := range []unix.Errno{unix.EAGAIN, unix.EINTR, unix.ENOMEM} {
		b := memory(t, d, aio.BlockSize)
		b[0] = byte(errno)
		op := aio.Op{Kind: aio.KindWrite, File: f, Buf: b, Owner: &log{}}
		before := d.Stats().Retries
		d.Submit(&op)
		e.answer(-int32(errno))
		until(t, d, func() bool { return !op.InFlight() })
		if op.Err != nil || op.N != len(b) || d.Stats().Retries != before+1 {
			t.Fatalf("%v once: wrote %d, %v, %d retries", errno, op.N, op.Err, d.Stats().Retries-before)
		}
		if got := readBack(t, d, f, aio.BlockSize); !bytes.Equal(got, b) {
			t.Fatalf("%v once: the file does not hold what was written", errno)
		}
		before = d.Stats().Retries
		answerEvery(t, d, e, &op, errno)
		isError(t, op.Err, errno)
		if n := d.Stats().Retries - before; n != maxRetries {
			t.Fatalf("%v for ever: tried again %d times, expected %d", errno, n, maxRetries)
		}
	}
}

func TestAFlushIsNeverTriedAgain(t *testing.T) {
	d := open(t, small, Config{})
	e := mapEntries(t, d)
	e.needInjection(t)
	f := newFile(t, d, 0)
	for _, errno := range []unix.Errno{unix.EAGAIN, unix.EINTR, unix.ENOMEM, unix.EIO, unix.ENOSPC} {
		op := aio.Op{Kind: aio.KindFdatasync, File: f, Owner: &log{}}
		d.Submit(&op)
		e.answer(-int32(errno))
		until(t, d, func() bool { return !op.InFlight() })
		isError(t, op.Err, errno)
	}
	if n := d.Stats().Retries; n != 0 {
		t.Fatalf("%d retries", n)
	}
}

func TestAFailureOfTheDeviceIsPassedOnAtOnce(t *testing.T) {
	d := open(t, small, Config{})
	e := mapEntries(t, d)
	e.needInjection(t)
	f := newFile(t, d, 0)
	for _, kind := range []aio.Kind{aio.KindWrite, aio.KindRead} {
		op := aio.Op{Kind: kind, File: f, Off: 8192, Buf: memory(t, d, 4096), Owner: &log{}}
		d.Submit(&op)
		e.answer(-int32(unix.EIO))
		until(t, d, func() bool { return !op.InFlight() })
		isError(t, op.Err, unix.EIO)
		if e := op.Err.(*aio.Error); e.Off != 8192 || e.What != d.files.Get(f).Path {
			t.Fatalf("the error does not say where: %v", e)
		}
	}
	if n := d.Stats().Retries; n != 0 {
		t.Fatalf("%d retries", n)
	}
}

func TestARetryEndsWhenTheOperationIsCancelled(t *testing.T) {
	d := open(t, small, Config{})
	e := mapEntries(t, d)
	e.needInjection(t)
	o := &log{}
	near, _ := pair(t, d)
	op := aio.Op{Kind: aio.KindSend, Sock: near, Vec: [][]byte{memory(t, d, 100)}, Owner: o}
	d.Submit(&op)
	e.answer(-int32(unix.ENOMEM))
	for len(d.waiting) == 0 {
		_, err := d.Poll(0)
		check(t, err)
	}
	d.Cancel(&op)
	until(t, d, func() bool { return !op.InFlight() })
	isError(t, op.Err, aio.ErrCanceled)
	if o.n != 1 || d.InFlight() != 0 {
		t.Fatalf("%d completions, %d in flight", o.n, d.InFlight())
	}
}

func TestAFullSubmissionQueueLosesAndRepeatsNothing(t *testing.T) {
	o := small
	o.Entries = 64
	d := open(t, o, Config{SubmitEntries: 2})
	f := newFile(t, d, 0)
	b := memory(t, d, 64*aio.BlockSize)
	done := make([]int, 64)
	count := &log{then: func(op *aio.Op) { done[op.Tag]++ }}
	ops := make([]aio.Op, 64)
	for i := range ops {
		at := i * aio.BlockSize
		ops[i] = aio.Op{Kind: aio.KindWrite, File: f, Buf: b[at : at+aio.BlockSize], Off: int64(at), Owner: count, Tag: uint64(i)}
		d.Submit(&ops[i])
		if count.n > 0 {
			t.Fatal("a completion was delivered inside Submit")
		}
	}
	until(t, d, func() bool { return d.InFlight() == 0 })
	if i := slices.IndexFunc(done, func(n int) bool { return n != 1 }); i >= 0 {
		t.Fatalf("write %d completed %d times", i, done[i])
	}
	if !bytes.Equal(readBack(t, d, f, len(b)), b) {
		t.Fatal("the file does not hold what was written")
	}
	if d.Stats().QueueFull == 0 {
		t.Fatal("the submission queue of 2 was never full")
	}
}

// TestOperationsWaitWhileTheKernelTakesNone points the driver's enter at another,
// idle ring: the kernel then takes nothing of this one.
func TestOperationsWaitWhileTheKernelTakesNone(t *testing.T) {
	d := open(t, small, Config{SubmitEntries: 4})
	other := open(t, small, Config{})
	f := newFile(t, d, 0)
	near, far := pair(t, d)
	b := memory(t, d, 12*aio.BlockSize)
	o := &log{}
	recv := aio.Op{Kind: aio.KindRecv, Sock: far, Owner: &log{}}
	d.Submit(&recv)
	_, err := d.Poll(0)
	check(t, err)

	fd := d.ring.enterFD
	d.ring.enterFD = other.ring.enterFD
	ops := make([]aio.Op, 12)
	for i := range ops {
		at := i * aio.BlockSize
		ops[i] = aio.Op{Kind: aio.KindWrite, File: f, Buf: b[at : at+aio.BlockSize], Off: int64(at), Owner: o}
		d.Submit(&ops[i])
	}
	gone := aio.Op{Kind: aio.KindSend, Sock: near, Vec: [][]byte{b[:1]}, Owner: o}
	d.Submit(&gone)
	d.Cancel(&gone) // before the kernel has it
	d.Cancel(&recv) // while the kernel has it
	if n := d.backlog.Len(); n != 12+2-4 {
		t.Fatalf("%d operations wait, expected 10", n)
	}
	if _, err := d.Poll(0); err != nil {
		t.Fatal(err)
	}
	if o.n != 0 {
		t.Fatal("something completed that the kernel has not taken")
	}

	d.ring.enterFD = fd
	until(t, d, func() bool { return d.InFlight() == 0 })
	for i := range ops {
		check(t, ops[i].Err)
	}
	isError(t, gone.Err, aio.ErrCanceled)
	isError(t, recv.Err, aio.ErrCanceled)
	if o.n != len(ops)+1 || !bytes.Equal(readBack(t, d, f, len(b)), b) {
		t.Fatalf("%d completions, or the file does not hold what was written", o.n)
	}
}

func TestCompletionsBeyondTheQueueArriveAndAreCounted(t *testing.T) {
	o := small
	o.Entries = 128
	d := open(t, o, Config{SubmitEntries: 8, CompletionEntries: 16})
	path := t.TempDir() + "/f"
	check(t, aio.DoFile(d, &aio.FileOp{Kind: aio.FileWriteAtomic, Path: path, Data: make([]byte, 100)}))
	f, _, err := aio.OpenFile(d, path, 0)
	check(t, err)
	b := memory(t, d, 80)
	o2 := &log{}
	ops := make([]aio.Op, 80)
	for i := range ops {
		ops[i] = aio.Op{Kind: aio.KindRead, File: f, Buf: b[i : i+1], Off: int64(i), Owner: o2}
		d.Submit(&ops[i])
	}
	until(t, d, func() bool { return o2.n == len(ops) })
	for i := range ops {
		if ops[i].Err != nil || ops[i].N != 1 {
			t.Fatalf("read %d: %d bytes, %v", i, ops[i].N, ops[i].Err)
		}
	}
	if d.Stats().Overflows == 0 {
		t.Fatal("80 completions fitted into a queue of 16")
	}
}

func TestAnswersOfEnterAreSorted(t *testing.T) {
	r := open(t, small, Config{}).ring
	for errno, want := range map[unix.Errno]bool{
		0: false, unix.EINTR: false, unix.ETIME: false,
		unix.EBUSY: true, unix.EAGAIN: true, unix.ENOMEM: true,
	} {
		if again, err := r.check(errno); again != want || err != nil {
			t.Errorf("%v: %v, %v", errno, again, err)
		}
	}
	if _, err := r.check(unix.EBADF); err == nil {
		t.Error("EBADF is no error")
	}
}

func TestAnotherThreadMayNotPoll(t *testing.T) {
	d := open(t, small, Config{})
	d.Submit(&aio.Op{Kind: aio.KindRead, File: newFile(t, d, 4096), Buf: memory(t, d, 4096), Owner: &log{}})
	done := make(chan bool)
	go func() {
		defer close(done)
		runtime.LockOSThread() // this test's own thread is locked, so it is another
		violates(t, func() { _, _ = d.Poll(0) })
	}()
	<-done
	d.polling = false
}

func TestABrokenRingIsReported(t *testing.T) {
	d := open(t, small, Config{})
	fd, flags := d.ring.enterFD, d.ring.enterFlags
	d.ring.enterFD, d.ring.enterFlags = 0x7fffffff, 0
	if _, err := d.Poll(1e6); err == nil {
		t.Error("a Poll on a descriptor that is none succeeded")
	}
	d.ring.enterFD, d.ring.enterFlags = fd, flags
}

func TestAStaleCompletionIsABug(t *testing.T) {
	d := open(t, small, Config{})
	for _, data := range []uint64{0, 7, 1 << 32, 5<<32 | 3} {
		violates(t, func() { d.complete(giouring.CompletionQueueEvent{UserData: data}) })
	}
}

func TestGenerationsLeaveTheMarkOfCancellationsFree(t *testing.T) {
	s := newSlots(1)
	s.tab[0].gen = genMask
	for range 3 {
		i := s.take(&aio.Op{})
		if s.userData(i)&cancelMark != 0 {
			t.Fatalf("user data %x carries the mark", s.userData(i))
		}
		s.release(i)
	}
}
