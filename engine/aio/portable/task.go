package portable

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/internal/invariant"
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
	case t.job != nil:
		t.job.Err = t.job.Job.Run(d.fs)
	case t.file != nil:
		t.runFile(d.fs)
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

// runFile does a file operation.
func (t *task) runFile(fs aio.FS) {
	op := t.file
	if aio.RunFileOp(fs, op) {
		return
	}
	switch op.Kind {
	case aio.FileOpen:
		if t.f, op.Err = fs.Open(op.Path, op.Mode); op.Err != nil {
			return
		}
		if op.Size, op.Err = t.f.Size(); op.Err != nil {
			op.Err = errors.Join(op.Err, t.f.Close())
		}
	case aio.FileLock:
		t.f, op.Err = fs.Lock(op.Path)
	case aio.FileClose:
		op.Err = t.f.Close()
	case aio.FileAllocate:
		op.Err = t.f.Allocate(op.Off, op.Len)
	case aio.FileTruncate:
		op.Err = t.f.Truncate(op.Len)
	case aio.FileSync:
		op.Err = t.f.Sync()
	default:
		invariant.Violated("portable: a file operation has a kind")
	}
}

// submitData hands a read, a write or a flush to a worker.
func (d *Driver) submitData(op *aio.Op) {
	f := d.files.get(op.File)
	if f == nil {
		d.finishLater(op, d.opError(op, unix.EBADF))
		return
	}
	if op.Kind != aio.KindFdatasync {
		// Alignment is checked here and not left to the kernel, which would let
		// 512 bytes pass on one disk and refuse them on the next.
		const mask = aio.BlockSize - 1
		switch {
		case op.Off < 0 || f.aligned && (op.Off&mask != 0 || !aligned(op.Buf)):
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
	f.flying++
	d.data.push(task{
		op: op, kind: op.Kind, durable: op.Flags&aio.FlagDSYNC != 0, direct: f.direct,
		fd: f.fd, buf: op.Buf, off: op.Off,
	})
}

// SubmitFile queues op for the helpers. See aio.Driver.
func (d *Driver) SubmitFile(op *aio.FileOp) {
	if op.InFlight || op.Owner == nil {
		invariant.Violated("portable: a submitted file operation has an owner and is not in flight")
	}
	op.InFlight, op.Err, op.Size, op.Entries = true, nil, 0, nil
	if op.Kind != aio.FileWriteAtomic {
		op.Data = nil
	}
	d.begin()
	t := task{file: op, handle: aio.NoFile}
	if op.Err = d.aim(&t); op.Err != nil {
		d.refused.Push(t)
		return
	}
	d.slow.push(t)
}

// aim gives a task the open file that it is about, or a handle for the one that it
// opens. On an error the task has neither.
func (d *Driver) aim(t *task) error {
	op := t.file
	switch op.Kind {
	case aio.FileOpen, aio.FileLock:
		op.File = aio.NoFile
		h, err := d.files.reserve()
		if err != nil {
			return &aio.Error{Op: "open", What: op.Path, Off: -1, Err: err}
		}
		t.handle = h
	case aio.FileClose, aio.FileAllocate, aio.FileTruncate, aio.FileSync:
		f := d.files.get(op.File)
		if f == nil {
			return &aio.Error{Op: "file operation", What: fmt.Sprintf("file %d", op.File), Off: -1, Err: unix.EBADF}
		}
		t.f = f.f
		if op.Kind == aio.FileClose {
			d.files.forget(op.File)
			return nil
		}
		t.handle = op.File
		f.flying++
	}
	return nil
}

// SubmitJob queues a job for the helpers. See aio.Driver.
func (d *Driver) SubmitJob(op *aio.JobOp) {
	if op.InFlight || op.Owner == nil {
		invariant.Violated("portable: a submitted job has an owner and is not in flight")
	}
	op.InFlight, op.Err = true, nil
	d.begin()
	d.slow.push(task{job: op})
}

// deliverTask ends a task on the loop.
func (d *Driver) deliverTask(t task) {
	switch {
	case t.job != nil:
		d.inFlight--
		t.job.InFlight = false
		if !d.closing {
			t.job.Owner.CompleteJob(t.job)
		}
	case t.file != nil:
		d.deliverFile(t)
	default:
		op := t.op
		op.Drv.Done, op.N = t.n, t.n
		if t.err != nil {
			op.Err = d.opError(op, t.err)
		}
		d.files.tab[op.File].flying--
		d.end(op)
	}
}

func (d *Driver) deliverFile(t task) {
	op := t.file
	switch {
	case t.handle == aio.NoFile:
	case op.Kind != aio.FileOpen && op.Kind != aio.FileLock:
		d.files.tab[t.handle].flying--
	case op.Err != nil:
		d.files.release(t.handle)
	default:
		d.files.put(t.handle, t.f, op)
		op.File = t.handle
	}
	d.inFlight--
	op.InFlight = false
	if !d.closing {
		op.Owner.CompleteFile(op)
	}
}
