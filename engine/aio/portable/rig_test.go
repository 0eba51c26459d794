package portable

import (
	"errors"
	"sync"
	"syscall"
	"testing"

	"github.com/mqd-broker/mqd/engine/aio"
	"golang.org/x/sys/unix"
)

// small is enough for most tests.
var small = aio.Options{ArenaBytes: 8 << 20, RecvBuffers: 16, RecvBufferBytes: 16 << 10}

// open opens a driver that is closed with the test.
func open(t testing.TB, c Config) *Driver {
	t.Helper()
	d, err := New(small, c)
	check(t, err)
	t.Cleanup(func() { check(t, d.Close()) })
	return d
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// isError ends the test unless err is the port's and wraps cause.
func isError(t testing.TB, err, cause error) {
	t.Helper()
	var e *aio.Error
	if !errors.As(err, &e) || !errors.Is(err, cause) {
		t.Fatalf("error %v (%T), expected an *aio.Error that wraps %v", err, err, cause)
	}
}

// until polls until done.
func until(t testing.TB, d *Driver, done func() bool) {
	t.Helper()
	for !done() {
		_, err := d.Poll(closePoll)
		check(t, err)
	}
}

// memory is n bytes of I/O memory that are not all the same.
func memory(t testing.TB, d *Driver, n int) []byte {
	t.Helper()
	b, err := d.Alloc(n)
	check(t, err)
	for i := range b {
		b[i] = byte(i / 7)
	}
	return b
}

// newFile creates and opens a file.
func newFile(t testing.TB, d *Driver, mode aio.OpenMode) aio.File {
	t.Helper()
	f, _, err := aio.OpenFile(d, t.TempDir()+"/f", aio.OpenWrite|aio.OpenCreate|mode)
	check(t, err)
	return f
}

// readBack reads n bytes of f.
func readBack(t testing.TB, d *Driver, f aio.File, n int) []byte {
	t.Helper()
	b, err := d.Alloc(n)
	check(t, err)
	got, err := aio.ReadAt(d, f, b, 0)
	check(t, err)
	return b[:got]
}

// pair connects two sockets.
func pair(t testing.TB, d *Driver) (near, far aio.Sock) {
	t.Helper()
	l, addr, err := d.Listen("127.0.0.1:0", aio.ListenAlone)
	check(t, err)
	o := &log{}
	op := aio.Op{Kind: aio.KindAccept, Sock: l, Owner: o}
	d.Submit(&op)
	near, err = d.Dial(addr)
	check(t, err)
	until(t, d, func() bool { return o.n > 0 })
	check(t, op.Err)
	far = op.NewSock
	d.Cancel(&op)
	until(t, d, func() bool { return !op.InFlight() })
	for _, s := range []aio.Sock{near, far, l} {
		t.Cleanup(func() { _ = unix.Close(int(s)) }) // some are closed by tests
	}
	return near, far
}

// log counts completions.
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

// take receives until n bytes have come or the receive has ended.
func take(t testing.TB, d *Driver, s aio.Sock, n int) []byte {
	t.Helper()
	var got []byte
	op := aio.Op{Kind: aio.KindRecv, Sock: s, Owner: &log{then: func(op *aio.Op) {
		if len(op.Data) > 0 {
			got = append(got, op.Data...)
			d.ReleaseBuf(op.BufID)
		}
	}}}
	d.Submit(&op)
	until(t, d, func() bool { return len(got) >= n || !op.InFlight() })
	d.Cancel(&op)
	until(t, d, func() bool { return !op.InFlight() })
	return got
}

// request is a call that a test sees before the kernel.
type request struct {
	name    string
	off     int64
	len     int
	durable bool
}

// answer is what a test says instead of the kernel. The zero answer leaves a call
// alone.
type answer struct {
	limit  int // do only so many bytes
	errno  syscall.Errno
	nought bool // say that nothing was done
}

// faulty is the kernel with faults. Workers call it too.
type faulty struct {
	calls
	mu     sync.Mutex
	seen   []request
	script []answer // for the next calls
}

func newFaulty() *faulty { return &faulty{calls: newCalls(false)} }

func (f *faulty) say(r request) answer {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen = append(f.seen, r)
	if len(f.script) == 0 {
		return answer{}
	}
	a := f.script[0]
	f.script = f.script[1:]
	return a
}

// next sets what is said to the next calls, and forgets what was seen.
func (f *faulty) next(script ...answer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen, f.script = nil, script
}

func (f *faulty) requests() []request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen
}

func (a answer) data(b []byte, call func(b []byte) (int, syscall.Errno)) (int, syscall.Errno) {
	switch {
	case a.errno != 0:
		return -1, a.errno
	case a.nought:
		return 0, 0
	case a.limit > 0:
		b = b[:min(a.limit, len(b))]
	}
	return call(b)
}

func (f *faulty) pread(fd int, b []byte, off int64) (int, syscall.Errno) {
	return f.say(request{"read", off, len(b), false}).data(b, func(b []byte) (int, syscall.Errno) {
		return f.calls.pread(fd, b, off)
	})
}

func (f *faulty) pwrite(fd int, b []byte, off int64, durable bool) (int, syscall.Errno) {
	return f.say(request{"write", off, len(b), durable}).data(b, func(b []byte) (int, syscall.Errno) {
		// What stops inside a block is a buffered write's: the kernel refuses to
		// make such a direct one.
		if len(b)%aio.BlockSize != 0 {
			whole := len(b) &^ (aio.BlockSize - 1)
			if whole > 0 {
				if _, errno := f.calls.pwrite(fd, b[:whole], off, durable); errno != 0 {
					return -1, errno
				}
			}
			return len(b), 0
		}
		return f.calls.pwrite(fd, b, off, durable)
	})
}

func (f *faulty) fdatasync(fd int) syscall.Errno {
	if a := f.say(request{"fdatasync", 0, 0, false}); a.errno != 0 {
		return a.errno
	}
	return f.calls.fdatasync(fd)
}

func (f *faulty) accept(fd int) (int, syscall.Errno) {
	if a := f.say(request{"accept", 0, 0, false}); a.errno != 0 {
		return -1, a.errno
	}
	return f.calls.accept(fd)
}

func (f *faulty) recv(fd int, b []byte) (int, syscall.Errno) {
	return f.say(request{"recv", 0, len(b), false}).data(b, func(b []byte) (int, syscall.Errno) {
		return f.calls.recv(fd, b)
	})
}

func (f *faulty) send(fd int, vec [][]byte, skip int) (int, syscall.Errno) {
	a := f.say(request{"send", 0, len(vec), false})
	switch {
	case a.errno != 0:
		return -1, a.errno
	case a.nought:
		return 0, 0
	case a.limit > 0:
		for len(vec[0]) <= skip {
			skip -= len(vec[0])
			vec = vec[1:]
		}
		vec = [][]byte{vec[0][:min(len(vec[0]), skip+a.limit)]}
	}
	return f.calls.send(fd, vec, skip)
}
