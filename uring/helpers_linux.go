package uring

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/openfiles"
	"github.com/mqd-broker/mqd/engine/fifo"
)

// pool is the bounded set of helpers. The loop never waits for it: its lock is
// held for the length of a push or a swap.
type pool struct {
	fs   aio.FS
	wake func()

	mu    sync.Mutex
	some  sync.Cond
	todo  fifo.Queue[openfiles.Task]
	ended []openfiles.Task
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

func (p *pool) push(t openfiles.Task) {
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

		t.Run(p.fs)

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
		p.ended[i] = openfiles.Task{}
	}
	p.ended = p.ended[:0]
	p.finished.Store(0)
	p.mu.Unlock()
}

// SubmitFile queues op for the helpers. See aio.Driver.
func (d *Driver) SubmitFile(op *aio.FileOp) {
	t := d.files.Begin(op)
	d.begin()
	if op.Err != nil {
		d.finished.Push(t)
		return
	}
	if op.Kind == aio.FileClose {
		// If the ring does not let go of the file, it is closed all the same, and
		// the operation fails.
		if err := d.ring.setFile(int(op.File), -1); err != nil {
			op.Err = &aio.Error{Op: "close", What: t.Of.Path, Off: -1, Err: err}
		}
	}
	d.pool.push(t)
}

// SubmitJob queues a job for the helpers. See aio.Driver.
func (d *Driver) SubmitJob(op *aio.JobOp) {
	t := openfiles.Job(op)
	d.begin()
	d.pool.push(t)
}

// deliverTask ends a task on the loop, which is the thread that owns the ring. Every
// file is registered with it, at the place of its handle. Lock files are too, although
// nothing is read or written through them: the kernel keeps registered files, and so the
// lock, until everything that the ring had in flight has ended. A write of a process that
// has been killed can then not land on what the next process has written.
func (d *Driver) deliverTask(t openfiles.Task) {
	d.inFlight--
	if h := t.Opened(); h != aio.NoFile {
		if err := d.ring.setFile(int(h), t.Of.Fd); err != nil {
			err = &aio.Error{Op: "open", What: t.Of.Path, Off: -1, Err: err}
			t.File.Err = errors.Join(err, t.Of.Open.Close())
		}
	}
	d.files.End(&t, !d.closing)
}
