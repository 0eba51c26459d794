package uring

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/fifo"
	"github.com/mqd-broker/mqd/internal/invariant"
	"golang.org/x/sys/unix"
)

// task is a file operation or a job on its way to a helper and back.
type task struct {
	file   *aio.FileOp
	job    *aio.JobOp
	f      aio.FSFile // the open file that the operation is about
	handle aio.File   // of f, or reserved for it
}

// run performs the task on a helper.
func (t *task) run(fs aio.FS) {
	if t.job != nil {
		t.job.Err = t.job.Job.Run(fs)
		return
	}
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
		op.Err = errors.Join(op.Err, t.f.Close())
	case aio.FileAllocate:
		op.Err = t.f.Allocate(op.Off, op.Len)
	case aio.FileTruncate:
		op.Err = t.f.Truncate(op.Len)
	case aio.FileSync:
		op.Err = t.f.Sync()
	default:
		invariant.Violated("uring: a file operation has a kind")
	}
}

// pool is the bounded set of helpers. The loop never waits for it: its lock is
// held for the length of a push or a swap.
type pool struct {
	fs   aio.FS
	wake func()

	mu    sync.Mutex
	some  sync.Cond
	todo  fifo.Queue[task]
	ended []task
	stop  bool
	wg    sync.WaitGroup
	// finished is len(ended), to be looked at without the lock.
	finished atomic.Int32
}

func newPool(fs aio.FS, helpers int, wake func()) *pool {
	p := &pool{fs: fs, wake: wake}
	p.some.L = &p.mu
	for range helpers {
		p.wg.Add(1)
		go p.help()
	}
	return p
}

func (p *pool) push(t task) {
	p.mu.Lock()
	p.todo.Push(t)
	p.mu.Unlock()
	p.some.Signal()
}

func (p *pool) help() {
	defer p.wg.Done()
	for {
		p.mu.Lock()
		for p.todo.Len() == 0 && !p.stop {
			p.some.Wait()
		}
		if p.todo.Len() == 0 {
			p.mu.Unlock()
			return
		}
		t := p.todo.Take()
		p.mu.Unlock()

		t.run(p.fs)

		p.mu.Lock()
		p.ended = append(p.ended, t)
		p.finished.Store(int32(len(p.ended)))
		p.mu.Unlock()
		p.wake()
	}
}

// close ends the helpers after what they have to do.
func (p *pool) close() {
	p.mu.Lock()
	p.stop = true
	p.mu.Unlock()
	p.some.Broadcast()
	p.wg.Wait()
}

// collect takes what helpers have finished.
func (d *Driver) collect() {
	p := d.pool
	if p.finished.Load() == 0 {
		return
	}
	p.mu.Lock()
	for i, t := range p.ended {
		d.finished.Push(t)
		p.ended[i] = task{}
	}
	p.ended = p.ended[:0]
	p.finished.Store(0)
	p.mu.Unlock()
}

// SubmitFile queues op for the helpers. See aio.Driver.
func (d *Driver) SubmitFile(op *aio.FileOp) {
	if op.InFlight || op.Owner == nil {
		invariant.Violated("uring: a submitted file operation has an owner and is not in flight")
	}
	op.InFlight, op.Err, op.Size, op.Entries = true, nil, 0, nil
	if op.Kind != aio.FileWriteAtomic {
		op.Data = nil
	}
	d.begin()
	t := task{file: op, handle: aio.NoFile}
	if op.Err = d.aim(&t); op.Err != nil {
		d.finished.Push(t)
		return
	}
	d.pool.push(t)
}

// aim gives a task the open file that it is about, or a handle for the one that
// it opens. On an error the task has neither.
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
		if op.Kind == aio.FileClose {
			// If the ring does not let go of the file, it is closed all
			// the same, and the operation fails.
			t.f, op.Err = d.takeFile(op.File)
			return nil
		}
		t.f, t.handle = f.f, op.File
		f.flying++
	}
	return nil
}

// SubmitJob queues a job for the helpers. See aio.Driver.
func (d *Driver) SubmitJob(op *aio.JobOp) {
	if op.InFlight || op.Owner == nil {
		invariant.Violated("uring: a submitted job has an owner and is not in flight")
	}
	op.InFlight, op.Err = true, nil
	d.begin()
	d.pool.push(task{job: op})
}

// deliverTask ends a task on the loop.
func (d *Driver) deliverTask(t task) {
	d.inFlight--
	if t.job != nil {
		t.job.InFlight = false
		if !d.closing {
			t.job.Owner.CompleteJob(t.job)
		}
		return
	}
	op := t.file
	switch {
	case t.handle == aio.NoFile:
	case op.Kind == aio.FileOpen || op.Kind == aio.FileLock:
		d.adopt(t)
	default:
		d.files.tab[t.handle].flying--
	}
	op.InFlight = false
	if !d.closing {
		op.Owner.CompleteFile(op)
	}
}

// adopt gives an opened file its handle, on the thread that owns the ring.
func (d *Driver) adopt(t task) {
	op := t.file
	if op.Err == nil {
		op.Err = d.putFile(t.handle, t.f, op)
		if op.Err == nil {
			op.File = t.handle
			return
		}
		op.Err = errors.Join(op.Err, t.f.Close())
	}
	d.files.release(t.handle)
}
