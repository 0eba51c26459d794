package aiotest

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"syscall"

	"github.com/mqd-broker/mqd/engine/aio"
)

// Flushes is a filesystem whose flushes fail when a test wants it.
type Flushes struct {
	aio.FS
	err atomic.Uint32 // an errno, 0: they do not fail
}

// Fail has all flushes from now on fail with err, or succeed if it is 0.
func (f *Flushes) Fail(err syscall.Errno) { f.err.Store(uint32(err)) }

func (f *Flushes) flush(op, what string, really func() error) error {
	if err := syscall.Errno(f.err.Load()); err != 0 {
		return &aio.Error{Op: op, What: what, Off: -1, Err: err}
	}
	return really()
}

// SyncDir implements aio.FS.
func (f *Flushes) SyncDir(path string) error {
	return f.flush("syncdir", path, func() error { return f.FS.SyncDir(path) })
}

// Open implements aio.FS.
func (f *Flushes) Open(path string, mode aio.OpenMode) (aio.FSFile, error) {
	file, err := f.FS.Open(path, mode)
	if err != nil {
		return nil, err
	}
	return flushedFile{file, f, path}, nil
}

type flushedFile struct {
	aio.FSFile
	of   *Flushes
	path string
}

func (f flushedFile) Sync() error        { return f.of.flush("fsync", f.path, f.FSFile.Sync) }
func (f flushedFile) Unwrap() aio.FSFile { return f.FSFile }

// flushing is one way in which a helper flushes something.
type flushing struct {
	name   string
	submit func(r *rig, d aio.Driver, o *flushOwner, begin func())
}

// flushOwner looks at the flag when it is told.
type flushOwner struct {
	failed *atomic.Bool
	told   bool
	noted  bool // when it was told
	err    error
	file   aio.FileOp
	job    aio.JobOp
}

func (o *flushOwner) CompleteFile(op *aio.FileOp) { o.end(op.Err) }
func (o *flushOwner) CompleteJob(op *aio.JobOp)   { o.end(op.Err) }
func (o *flushOwner) end(err error)               { o.told, o.err, o.noted = true, err, o.failed.Load() }

func fileFlush(name string, op func(r *rig, d aio.Driver) aio.FileOp) flushing {
	return flushing{name, func(r *rig, d aio.Driver, o *flushOwner, begin func()) {
		o.file = op(r, d) // what it needs is there before flushes fail
		o.file.Owner = o
		begin()
		d.SubmitFile(&o.file)
	}}
}

// jobFlush is a job; it looks itself at what its flush has left behind.
func jobFlush(name string, run func(r *rig, fs aio.FS) error) flushing {
	return flushing{name, func(r *rig, d aio.Driver, o *flushOwner, begin func()) {
		o.job = aio.JobOp{Owner: o, Job: job(func(fs aio.FS) error {
			err := run(r, fs)
			if errors.Is(err, syscall.EIO) && !o.failed.Load() {
				return errors.New("a job has heard of a failed flush that is not noted yet")
			}
			return err
		})}
		begin()
		d.SubmitJob(&o.job)
	}}
}

var flushings = []flushing{
	fileFlush("of a file", func(r *rig, d aio.Driver) aio.FileOp {
		return aio.FileOp{Kind: aio.FileSync, File: r.newFile(d, "f", aio.BlockSize)}
	}),
	fileFlush("of a directory", func(r *rig, _ aio.Driver) aio.FileOp {
		return aio.FileOp{Kind: aio.FileSyncDir, Path: r.env.Dir}
	}),
	fileFlush("of an atomic write", func(r *rig, _ aio.Driver) aio.FileOp {
		return aio.FileOp{Kind: aio.FileWriteAtomic, Path: r.path("a"), Data: []byte("x")}
	}),
	fileFlush("of a new directory", func(r *rig, _ aio.Driver) aio.FileOp {
		return aio.FileOp{Kind: aio.FileMkdirAll, Path: r.path("d")}
	}),
	jobFlush("of a directory by a job", func(r *rig, fs aio.FS) error {
		return fs.SyncDir(r.env.Dir)
	}),
	jobFlush("of a file by a job", func(r *rig, fs aio.FS) error {
		f, err := fs.Open(r.path("j"), aio.OpenWrite|aio.OpenCreate)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	}),
}

// flushTests: between the failure of a flush on a helper and the loop's hearing of it
// somebody could acknowledge what another flush has seemed to make durable. So the flag is
// there before anybody is told. What else ends in errors does not set it.
var flushTests = append(noted(), []test{
	{"that nobody looks at", func(r *rig) {
		d := r.open(small)
		r.env.FailFlushes(syscall.EIO)
		r.fails(r.file(d, &aio.FileOp{Kind: aio.FileSyncDir, Path: r.env.Dir}), syscall.EIO)
	}},
	{"of what is not there", func(r *rig) {
		var failed atomic.Bool
		o := small
		o.FlushFailed = &failed
		d := r.open(o)
		r.fails(r.file(d, &aio.FileOp{Kind: aio.FileSyncDir, Path: r.path("missing")}), syscall.ENOENT)
		if failed.Load() {
			r.Error("a directory that is missing was noted as a failed flush")
		}
	}},
}...)

// noted has a test for every way to flush and every end of it.
func noted() (list []test) {
	for _, f := range flushings {
		for _, err := range []syscall.Errno{0, syscall.ENOSPC, syscall.EIO} {
			list = append(list, test{fmt.Sprintf("%s: %v", f.name, errOf(err)), func(r *rig) { f.run(r, err, err == syscall.EIO) }})
		}
	}
	return list
}

func (f flushing) run(r *rig, err syscall.Errno, note bool) {
	var failed atomic.Bool
	o := small
	o.FlushFailed = &failed
	d := r.open(o)
	own := flushOwner{failed: &failed}
	f.submit(r, d, &own, func() { r.env.FailFlushes(err) })
	// Helpers that are threads do not need the loop: it must not be the loop that notes it.
	for note && r.env.Time == Real && !failed.Load() {
		runtime.Gosched()
	}
	r.until("the completion", func() bool { return own.told })
	if !errors.Is(own.err, errOf(err)) || own.noted != note {
		r.Fatalf("flushes end with %v: error %v, noted %v", errOf(err), own.err, own.noted)
	}
}

func errOf(e syscall.Errno) error {
	if e == 0 {
		return nil
	}
	return e
}
