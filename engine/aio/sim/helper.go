package sim

import (
	"errors"
	"fmt"
	"sync"
	"syscall"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/fifo"
	"github.com/mqd-broker/mqd/internal/invariant"
)

// helpers are a driver's helper threads and the work that waits for one.
type helpers struct {
	waiting fifo.Queue[*helper]
	running []*helper
	done    sync.WaitGroup // RealTime: goroutines
}

// helper is one file operation or job.
//
// In a Virtual world it is a coroutine: it runs only while an event of the world
// waits for it, from one filesystem call to the next. When its driver dies, every
// later call of it fails with ErrClosed and changes nothing.
type helper struct {
	d       *Driver
	file    *aio.FileOp
	job     *aio.JobOp
	next    subject    // the call that it is about to make
	co      *coroutine // Virtual: from its first step to its last
	refused bool       // the driver is dead
}

// SubmitFile queues op for the helpers.
func (d *Driver) SubmitFile(op *aio.FileOp) {
	if op.InFlight || op.Owner == nil {
		invariant.Violated("sim: a file operation has an owner and is submitted once")
	}
	op.InFlight = true
	op.Err, op.Size, op.Entries = nil, 0, nil
	if op.Kind == aio.FileOpen || op.Kind == aio.FileLock {
		op.File = aio.NoFile
	}
	if op.Kind != aio.FileWriteAtomic {
		op.Data = nil
	}
	d.help(&helper{d: d, file: op})
}

// SubmitJob queues a job for the helpers.
func (d *Driver) SubmitJob(op *aio.JobOp) {
	if op.InFlight || op.Owner == nil {
		invariant.Violated("sim: a job has an owner and is submitted once")
	}
	op.InFlight, op.Err = true, nil
	d.help(&helper{d: d, job: op})
}

func (d *Driver) help(h *helper) {
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	if d.dead {
		return
	}
	d.inFlight++
	d.helpers.waiting.Push(h)
	d.employ()
}

// employ starts waiting work while a helper is free.
func (d *Driver) employ() {
	p := &d.helpers
	for p.waiting.Len() > 0 && len(p.running) < d.opt.Helpers {
		h := p.waiting.Take()
		p.running = append(p.running, h)
		if d.w.opt.Mode == RealTime {
			p.done.Add(1)
			go func() {
				defer p.done.Done()
				h.work()
				h.finish()
			}()
			continue
		}
		d.w.at(d.w.draw(d.w.opt.Latency.Step), event{kind: evHelper, d: d, help: h})
	}
}

// turn lets a coroutine run to its next step or to its end. The mutex is not
// held.
func (h *helper) turn() {
	if h.co == nil {
		h.co = h.d.w.opt.Memory.employ(h.work)
	}
	if h.co.resume() {
		h.d.w.opt.Memory.dismiss(h.co)
		h.finish()
		return
	}
	w := h.d.w
	w.mu.Lock()
	w.at(w.draw(w.opt.Latency.Step), event{kind: evHelper, d: h.d, help: h})
	w.mu.Unlock()
}

// park waits for the helper's next step; false when its driver is dead.
func (h *helper) park() bool {
	if h.co != nil {
		h.co.park()
	}
	return !h.refused
}

// finish queues the completion and gives the helper's place away.
func (h *helper) finish() {
	d := h.d
	d.w.mu.Lock()
	defer d.w.mu.Unlock()
	p := &d.helpers
	for i, o := range p.running {
		if o == h {
			p.running = append(p.running[:i], p.running[i+1:]...)
			break
		}
	}
	if d.dead {
		return
	}
	c := completion{file: h.file, job: h.job}
	if h.file != nil {
		c.res.err = h.file.Err
	} else {
		c.res.err = h.job.Err
	}
	d.ready.Push(c)
	d.kick()
	d.employ()
}

// kill ends the coroutines of a dead driver. The mutex is held by the caller and
// released meanwhile.
func (p *helpers) kill() {
	p.waiting = fifo.Queue[*helper]{}
	for _, h := range p.running {
		if h.co != nil {
			h.d.w.mu.Unlock()
			h.drain()
			h.d.w.mu.Lock()
		}
	}
	if len(p.running) > 0 && p.running[0].d.w.opt.Mode == Virtual {
		p.running = nil
	}
}

// drain refuses every step until the coroutine gives up.
func (h *helper) drain() {
	h.refused = true
	for !h.co.resume() {
	}
	h.d.w.opt.Memory.dismiss(h.co)
}

// wait waits for goroutines of a RealTime world.
func (p *helpers) wait() { p.done.Wait() }

// work is the helper's work, on its own goroutine.
func (h *helper) work() {
	fs := &fsys{w: h.d.w, d: h.d, help: h}
	all := aio.Watched(fs, h.d.opt.FlushFailed)
	if h.job != nil {
		h.job.Err = h.job.Job.Run(all)
		return
	}
	if !aio.RunFileOp(all, h.file) {
		h.file.Err = h.onHandle(fs, h.file)
	}
}

// onHandle does the file operations that need the table of open files.
func (h *helper) onHandle(fs *fsys, op *aio.FileOp) error {
	switch op.Kind {
	case aio.FileOpen:
		return h.openFile(fs, op)
	case aio.FileLock:
		f, err := fs.lock(op.Path, op.Path2)
		if err == nil {
			op.File, err = h.d.install(f)
		}
		return err
	case aio.FileClose:
		f := h.d.remove(op.File)
		if f == nil {
			return badFile("close", op)
		}
		return f.on(fs).Close()
	}
	h.d.w.mu.Lock()
	f := h.d.handle(op.File)
	h.d.w.mu.Unlock()
	if f == nil {
		return badFile("file operation", op)
	}
	switch op.Kind {
	case aio.FileAllocate:
		return f.on(fs).Allocate(op.Off, op.Len)
	case aio.FileTruncate:
		return f.on(fs).Truncate(op.Len)
	case aio.FileSync:
		err := f.on(fs).Sync()
		aio.NoteFlush(h.d.opt.FlushFailed, err)
		return err
	}
	return &aio.Error{Op: "submit", What: "file operation", Off: -1, Err: syscall.EINVAL}
}

func (h *helper) openFile(fs *fsys, op *aio.FileOp) error {
	f, err := fs.open(op.Path, op.Mode)
	if err != nil {
		return err
	}
	if op.File, err = h.d.install(f); err != nil {
		return fsError("open", op.Path, err)
	}
	op.Size, err = f.on(fs).Size()
	return err
}

// on is the same open file, used by another helper's steps.
func (h *handle) on(fs *fsys) *handle {
	c := *h
	c.fs = fs
	return &c
}

func badFile(what string, op *aio.FileOp) error {
	return &aio.Error{Op: what, What: fmt.Sprintf("file %d", op.File), Off: -1, Err: syscall.EBADF}
}

func isErrno(err error, e syscall.Errno) bool { return errors.Is(err, e) }
