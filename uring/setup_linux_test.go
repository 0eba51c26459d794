package uring

import (
	"errors"
	"path/filepath"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/internal/invariant"
	"github.com/pawelgaczynski/giouring"
	"golang.org/x/sys/unix"
)

// small is enough for most tests.
var small = aio.Options{Entries: 16, ArenaBytes: 4 << 20, RecvBuffers: 8, RecvBufferBytes: 4096, Files: 16, Helpers: 2}

// open makes a driver on this test's goroutine, which it locks to its thread. It
// is closed at the end of the test.
func open(t testing.TB, o aio.Options, c Config) *Driver {
	t.Helper()
	runtime.LockOSThread()
	d, err := New(o, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("closing the driver: %v", err)
		}
		runtime.UnlockOSThread()
	})
	return d
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newFile makes a file of size bytes and opens it for direct I/O.
func newFile(t testing.TB, d *Driver, size int64) aio.File {
	t.Helper()
	f, _, err := aio.OpenFile(d, filepath.Join(t.TempDir(), "f"), aio.OpenWrite|aio.OpenCreate|aio.OpenDirect)
	check(t, err)
	if size > 0 {
		check(t, aio.DoFile(d, &aio.FileOp{Kind: aio.FileAllocate, File: f, Len: size}))
	}
	return f
}

// memory returns n bytes of I/O memory, each block of it different.
func memory(t testing.TB, d *Driver, n int) []byte {
	t.Helper()
	b, err := d.Alloc(n)
	check(t, err)
	for i := range b {
		b[i] = byte(i>>12) ^ byte(i) | 1
	}
	return b
}

// until polls until done. What never happens is found by the test's time limit.
func until(t testing.TB, d *Driver, done func() bool) {
	t.Helper()
	for !done() {
		_, err := d.Poll(10 * time.Millisecond)
		check(t, err)
	}
}

// log is an owner that counts completions of operations.
type log struct {
	n    int
	then func(op *aio.Op)
}

func (l *log) Complete(op *aio.Op) {
	l.n++
	if l.then != nil {
		l.then(op)
	}
}

// pair connects two sockets.
func pair(t testing.TB, d *Driver) (near, far aio.Sock) {
	t.Helper()
	l, addr, err := d.Listen("127.0.0.1:0", aio.ListenAlone)
	check(t, err)
	far = aio.NoSock
	o := &log{}
	o.then = func(op *aio.Op) {
		if op.Err == nil {
			far = op.NewSock
		}
	}
	accept := aio.Op{Kind: aio.KindAccept, Sock: l, Owner: o}
	d.Submit(&accept)
	near, err = d.Dial(addr)
	check(t, err)
	until(t, d, func() bool { return far != aio.NoSock })
	d.Cancel(&accept)
	until(t, d, func() bool { return !accept.InFlight() })
	check(t, unix.Close(int(l)))
	t.Cleanup(func() {
		_ = unix.Close(int(near))
		_ = unix.Close(int(far))
	})
	return near, far
}

// violates fails the test unless f breaks an invariant.
func violates(t *testing.T, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if _, ok := recover().(invariant.Violation); !ok {
			t.Error("no invariant was violated")
		}
	}()
	f()
}

// isError ends the test unless err is an *aio.Error that wraps cause.
func isError(t testing.TB, err, cause error) {
	t.Helper()
	var e *aio.Error
	if !errors.As(err, &e) || !errors.Is(err, cause) {
		t.Fatalf("want an *aio.Error that wraps %v, got %T %v", cause, err, err)
	}
}

// entries maps the submission entries themselves, so that a test can change one
// between Submit and Poll.
type entries struct {
	d   *Driver
	mem []byte
}

func mapEntries(t testing.TB, d *Driver) entries {
	t.Helper()
	const offset = 0x10000000 // IORING_OFF_SQES
	mem, err := unix.Mmap(d.ring.fd, offset, int(d.ring.setup.sqEntries)*sqeSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	check(t, err)
	t.Cleanup(func() { _ = unix.Munmap(mem) })
	return entries{d, mem}
}

// last is the entry that was filled last and not yet submitted.
func (e entries) last() *giouring.SubmissionQueueEntry {
	i := int(e.d.ring.tail-1) & (int(e.d.ring.setup.sqEntries) - 1)
	return (*giouring.SubmissionQueueEntry)(unsafe.Pointer(&e.mem[i*sqeSize]))
}

// answer makes the kernel answer the last entry with res and do nothing.
func (e entries) answer(res int32) {
	const injectResult = 1 // IORING_NOP_INJECT_RESULT
	*e.last() = giouring.SubmissionQueueEntry{
		OpCode: giouring.OpNop, OpcodeFlags: injectResult, Len: uint32(res), UserData: e.last().UserData,
	}
}

// needInjection skips the test on kernels that cannot give chosen answers.
func (e entries) needInjection(t testing.TB) {
	t.Helper()
	q := e.d.ring.sqe()
	q.UserData = ignoreData
	e.answer(-int32(unix.EIO))
	if _, err := e.d.ring.check(e.d.ring.enter(submitAndReap)); err != nil {
		t.Fatal(err)
	}
	var got [1]giouring.CompletionQueueEvent
	if n := e.d.ring.reap(got[:]); n != 1 || got[0].Res != -int32(unix.EIO) {
		t.Skip("the kernel has no NOP with a chosen result (Linux 6.10)")
	}
}

// A cache that is larger than the machine's memory is no matter of the limit of locked
// memory.
func TestMoreMemoryThanThereIsIsNoMatterOfLocking(t *testing.T) {
	o := small
	o.ArenaBytes = 1 << 50 // more than there are addresses
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	d, err := New(o, Config{})
	if err == nil {
		t.Fatal(errors.Join(errors.New("there is"), d.Close()))
	}
	if !errors.Is(err, aio.ErrMapping) || errors.Is(err, ErrLockedMemory) {
		t.Errorf("error %v", err)
	}
}
