package portable

import (
	"syscall"
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/openfiles"
	"golang.org/x/sys/unix"
)

const (
	// maxRetries is how often a transfer is tried again that the kernel had no
	// means for.
	maxRetries = 8
	// firstBackoff is the wait before the first retry; it doubles each time.
	firstBackoff = 50 * time.Microsecond
)

// perform does a task on a worker's thread.
func (d *Driver) perform(t *task) {
	switch {
	case t.op == nil:
		t.slow.Run(d.fs)
	case t.kind == aio.KindRead:
		t.read(d.sys)
	case t.kind == aio.KindWrite:
		t.write(d.sys)
	default:
		t.flush(d.sys)
	}
}

// rest is what the next call is asked to transfer.
func (t *task) rest() []byte {
	rest := t.buf[t.n:]
	return rest[:min(len(rest), maxTransfer)]
}

// read fills the buffer, up to the end of the file.
func (t *task) read(sys calls) {
	tries := 0
	for t.n < len(t.buf) {
		n, errno := sys.pread(t.fd, t.rest(), t.off+int64(t.n))
		if errno != 0 {
			if !t.again(errno, &tries) {
				return
			}
			continue
		}
		t.n += n
		tries = 0
		// A direct read ends unaligned only at the end of the file; to go on
		// from there would be refused.
		if n == 0 || t.direct && n%aio.BlockSize != 0 {
			return
		}
	}
}

// write writes the buffer. A direct write that stopped inside a block is repeated
// from the start of that block: the same bytes again. Where the kernel, or what stands
// for one, has no durable writes, a flush follows.
func (t *task) write(sys calls) {
	tries, flush := 0, false
	for t.n < len(t.buf) {
		n, errno := sys.pwrite(t.fd, t.rest(), t.off+int64(t.n), t.durable)
		at := t.n + n
		if t.direct && at < len(t.buf) {
			at &^= aio.BlockSize - 1
		}
		switch {
		case t.durable && (errno == unix.EOPNOTSUPP || errno == unix.ENOSYS):
			t.durable, flush = false, true
		case errno != 0:
			if !t.again(errno, &tries) {
				return
			}
		case n == 0:
			t.err = aio.ErrShort
			return
		case at > t.n:
			t.n = at
			tries = 0
		case !t.again(unix.EAGAIN, &tries):
			t.err = aio.ErrShort
			return
		}
	}
	if flush {
		t.flush(sys)
	}
}

// flush makes the file durable. It is never repeated: after a failed one the kernel
// may report success for data that it has dropped.
func (t *task) flush(sys calls) {
	if errno := sys.fdatasync(t.fd); errno != 0 {
		t.err = errno
	}
}

// again reports whether a call that failed is to be made once more. If not, its
// error is the task's.
func (t *task) again(errno syscall.Errno, tries *int) bool {
	switch errno {
	case unix.EINTR:
		return true // a signal came before anything was done
	case unix.EAGAIN, unix.ENOMEM:
		if *tries < maxRetries {
			<-time.NewTimer(firstBackoff << *tries).C
			*tries++
			return true
		}
	}
	t.err = errno
	return false
}

// submitData hands a read, a write or a flush to a worker.
func (d *Driver) submitData(op *aio.Op) {
	f := d.files.Get(op.File)
	if f == nil {
		d.finishLater(op, d.opError(op, unix.EBADF))
		return
	}
	if op.Kind != aio.KindFdatasync {
		// Alignment is checked here and not left to the kernel, which would let
		// 512 bytes pass on one disk and refuse them on the next.
		const mask = aio.BlockSize - 1
		switch {
		case op.Off < 0 || f.Aligned && (op.Off&mask != 0 || !aligned(op.Buf)):
			d.finishLater(op, d.opError(op, unix.EINVAL))
			return
		case len(op.Buf) == 0 && op.Kind == aio.KindWrite:
			d.finishLater(op, d.opError(op, aio.ErrShort))
			return
		case len(op.Buf) == 0:
			d.finishLater(op, nil)
			return
		}
	}
	f.Flying++
	d.data.push(task{
		op: op, kind: op.Kind, durable: op.Flags&aio.FlagDSYNC != 0, direct: f.Direct,
		fd: f.Fd, buf: op.Buf, off: op.Off,
	})
}

// SubmitFile queues op for the helpers. See aio.Driver.
func (d *Driver) SubmitFile(op *aio.FileOp) {
	t := task{slow: d.files.Begin(op)}
	d.begin()
	if op.Err != nil {
		d.refused.Push(t)
		return
	}
	d.slow.push(t)
}

// SubmitJob queues a job for the helpers. See aio.Driver.
func (d *Driver) SubmitJob(op *aio.JobOp) {
	t := task{slow: openfiles.Job(op)}
	d.begin()
	d.slow.push(t)
}

// deliverTask ends a task on the loop.
func (d *Driver) deliverTask(t task) {
	op := t.op
	if op == nil {
		d.inFlight--
		d.files.End(&t.slow, !d.closing)
		return
	}
	op.Drv.Done, op.N = t.n, t.n
	if t.err != nil {
		op.Err = d.opError(op, t.err)
	}
	d.files.At(op.File).Flying--
	d.end(op)
}
