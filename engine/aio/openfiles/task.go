package openfiles

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/internal/invariant"
)

// Task is a file operation or a job on its way to a helper and back. Until it is back
// only the helper touches it, and nobody the operation's results.
type Task struct {
	File *aio.FileOp
	Job  *aio.JobOp

	// Of is the file that the operation is about; when it opens one and has been run, it
	// is that.
	Of File
	// handle is the file's, or reserved for it.
	handle aio.File
}

// Job makes a task of a job.
func Job(op *aio.JobOp) Task {
	if op.InFlight || op.Owner == nil {
		invariant.Violated("openfiles: a submitted job has an owner and is not in flight")
	}
	op.InFlight, op.Err = true, nil
	return Task{Job: op, handle: aio.NoFile}
}

// Begin makes a task of a file operation. If its error is set then, it has ended, and
// is ended without having been run. A file that is to be closed has left the table.
func (t *Table) Begin(op *aio.FileOp) Task {
	if op.InFlight || op.Owner == nil {
		invariant.Violated("openfiles: a submitted file operation has an owner and is not in flight")
	}
	op.InFlight, op.Err, op.Size, op.Entries = true, nil, 0, nil
	if op.Kind != aio.FileWriteAtomic {
		op.Data = nil
	}
	k := Task{File: op, handle: aio.NoFile}
	switch op.Kind {
	case aio.FileOpen, aio.FileLock:
		op.File = aio.NoFile
		h, err := t.reserve()
		if err != nil {
			op.Err = &aio.Error{Op: "open", What: op.Path, Off: -1, Err: err}
			break
		}
		k.handle = h
	case aio.FileClose, aio.FileAllocate, aio.FileTruncate, aio.FileSync:
		f := t.Get(op.File)
		if f == nil {
			op.Err = &aio.Error{Op: "file operation", What: fmt.Sprintf("file %d", op.File), Off: -1, Err: syscall.EBADF}
			break
		}
		k.Of = *f
		if op.Kind != aio.FileClose {
			k.handle = op.File
			f.Flying++
			break
		}
		if f.Flying > 0 {
			invariant.Violated("openfiles: a file that is closed has nothing in flight")
		}
		t.release(op.File)
	}
	return k
}

// Run does the task, on a helper. It sets the operation's results, Err included.
func (k *Task) Run(fs aio.FS) {
	if k.Job != nil {
		k.Job.Err = k.Job.Job.Run(fs)
		return
	}
	op := k.File
	if aio.RunFileOp(fs, op) {
		return
	}
	f := k.Of.Open
	switch op.Kind {
	case aio.FileOpen:
		if f, op.Err = fs.Open(op.Path, op.Mode); op.Err != nil {
			return
		}
		if op.Size, op.Err = f.Size(); op.Err != nil {
			op.Err = errors.Join(op.Err, f.Close())
			return
		}
		k.Of = fileOf(f, op)
	case aio.FileLock:
		if f, op.Err = fs.Lock(op.Path, op.Path2); op.Err == nil {
			k.Of = fileOf(f, op)
		}
	case aio.FileClose:
		op.Err = errors.Join(op.Err, f.Close())
	case aio.FileAllocate:
		op.Err = f.Allocate(op.Off, op.Len)
	case aio.FileTruncate:
		op.Err = f.Truncate(op.Len)
	case aio.FileSync:
		op.Err = f.Sync()
	default:
		invariant.Violated("openfiles: a file operation has a kind")
	}
}

// Opened is the handle of the file that the task has opened, which is in the table when
// the task has ended; aio.NoFile if it has opened none.
func (k *Task) Opened() aio.File {
	if op := k.File; op != nil && op.Err == nil && (op.Kind == aio.FileOpen || op.Kind == aio.FileLock) {
		return k.handle
	}
	return aio.NoFile
}

// End ends a task, and tells its owner if it shall.
func (t *Table) End(k *Task, tell bool) {
	if k.Job != nil {
		k.Job.InFlight = false
		if tell {
			k.Job.Owner.CompleteJob(k.Job)
		}
		return
	}
	op := k.File
	switch {
	case k.handle == aio.NoFile:
	case op.Kind != aio.FileOpen && op.Kind != aio.FileLock:
		t.all[k.handle].Flying--
	case op.Err != nil:
		t.release(k.handle)
	default:
		t.all[k.handle] = k.Of
		op.File = k.handle
	}
	op.InFlight = false
	if tell {
		op.Owner.CompleteFile(op)
	}
}
