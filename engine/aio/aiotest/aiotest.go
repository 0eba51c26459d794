// Package aiotest is the conformance suite of the I/O port: what every driver
// does, written as tests. A driver's own test calls [Run].
package aiotest

import (
	"errors"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
)

// Time says what makes time pass for a driver.
type Time uint8

const (
	// Real: the machine's clock. Poll blocks and helpers are threads.
	Real Time = iota
	// Virtual: Poll itself. Nothing happens between two calls of it.
	Virtual
)

// Env is what a driver's package provides for one test.
type Env struct {
	// Dir is an empty directory for the test's files. The suite opens files
	// in it with OpenDirect.
	Dir string
	// Time says how time passes.
	Time Time
	// Open opens a driver. It is called on the goroutine, locked to its
	// thread, that will poll the driver. All drivers of an Env share sockets
	// and files.
	Open func(o aio.Options) (aio.Driver, error)
	// FailFlushes has all flushes of helpers fail from now on, or succeed if err is 0.
	FailFlushes func(err syscall.Errno)
}

// Factory makes the surroundings of one test.
type Factory func(t *testing.T) Env

// Run runs the suite on the drivers that f makes.
func Run(t *testing.T, f Factory) {
	for _, group := range []struct {
		name  string
		tests []test
	}{
		{"driver", driverTests},
		{"data", dataTests},
		{"files", fileTests},
		{"jobs", jobTests},
		{"failed flushes", flushTests},
		{"sockets", socketTests},
		{"loop", loopTests},
	} {
		t.Run(group.name, func(t *testing.T) {
			for _, c := range group.tests {
				t.Run(c.name, func(t *testing.T) { runOne(t, f, c) })
			}
		})
	}
}

// test is one property of drivers.
type test struct {
	name string
	run  func(r *rig)
}

// runOne runs a test on a goroutine that is locked to its thread, as a shard's
// is. Clean-up runs on the same goroutine.
func runOne(t *testing.T, f Factory, c test) {
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	c.run(&rig{T: t, env: f(t)})
}

// rig is a test in progress.
type rig struct {
	*testing.T
	env     Env
	drivers []aio.Driver
}

// small is enough for most tests.
var small = aio.Options{Entries: 64, ArenaBytes: 8 << 20, RecvBuffers: 16, RecvBufferBytes: 16 << 10}

// open opens a driver that is closed at the end of the test.
func (r *rig) open(o aio.Options) aio.Driver {
	r.Helper()
	d, err := r.env.Open(o)
	if err != nil {
		r.Fatalf("opening a driver: %v", err)
	}
	r.drivers = append(r.drivers, d)
	r.Cleanup(func() {
		if err := d.Close(); err != nil {
			r.Errorf("closing the driver: %v", err)
		}
	})
	return d
}

// path is the path of a file of this test.
func (r *rig) path(name string) string { return r.env.Dir + "/" + name }

// check ends the test when err is not nil.
func (r *rig) check(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// fails ends the test unless err is an *aio.Error that wraps cause (if any).
func (r *rig) fails(err, cause error) {
	r.Helper()
	var e *aio.Error
	switch {
	case err == nil:
		r.Fatalf("no error, expected %v", cause)
	case !errors.As(err, &e):
		r.Fatalf("error of type %T (%v), expected *aio.Error", err, err)
	case cause != nil && !errors.Is(err, cause):
		r.Fatalf("error %q, expected one that wraps %q", err, cause)
	}
}

// turn polls every driver once.
func (r *rig) turn() {
	r.Helper()
	wait := 20 * time.Millisecond
	if len(r.drivers) > 1 {
		wait = 100 * time.Microsecond
	}
	for _, d := range r.drivers {
		if _, err := d.Poll(wait); err != nil {
			r.Fatalf("Poll: %v", err)
		}
	}
}

// until turns until done. What never happens is found by the test's time limit;
// in virtual time, where turns cost nothing, by their number.
func (r *rig) until(what string, done func() bool) {
	r.Helper()
	for turns := 0; !done(); turns++ {
		if r.env.Time == Virtual && turns > 1_000_000 {
			r.Fatalf("%s does not happen", what)
		}
		r.turn()
	}
}

// memory returns n bytes from d filled with a pattern that seed names.
func (r *rig) memory(d aio.Driver, n int, seed byte) []byte {
	r.Helper()
	b, err := d.Alloc(n)
	r.check(err)
	fill(b, seed)
	return b
}

// fill writes a pattern that has no short period.
func fill(b []byte, seed byte) {
	for i := range b {
		b[i] = pattern(int64(i), seed)
	}
}

func pattern(pos int64, seed byte) byte {
	x := uint64(pos)*0x9e3779b97f4a7c15 + uint64(seed)*0xbf58476d1ce4e5b9
	return byte(x >> 56)
}

// owner records completions.
type owner struct {
	ops   []*aio.Op
	files int
	jobs  int
	then  func(op *aio.Op)
}

func (o *owner) Complete(op *aio.Op) {
	o.ops = append(o.ops, op)
	if o.then != nil {
		o.then(op)
	}
}

func (o *owner) CompleteFile(*aio.FileOp) { o.files++ }
func (o *owner) CompleteJob(*aio.JobOp)   { o.jobs++ }

// do performs op on d and returns its error.
func (r *rig) do(d aio.Driver, op *aio.Op) error {
	r.Helper()
	o := owner{}
	op.Owner = &o
	d.Submit(op)
	if len(o.ops) != 0 {
		r.Fatal("an operation completed inside Submit")
	}
	r.until("the completion", func() bool { return len(o.ops) > 0 })
	return op.Err
}

// file performs op on d and returns its error.
func (r *rig) file(d aio.Driver, op *aio.FileOp) error {
	r.Helper()
	o := owner{}
	op.Owner = &o
	d.SubmitFile(op)
	if o.files != 0 {
		r.Fatal("a file operation completed inside SubmitFile")
	}
	r.until("the completion", func() bool { return o.files > 0 })
	return op.Err
}

// openFile opens name in the test's directory.
func (r *rig) openFile(d aio.Driver, name string, mode aio.OpenMode) aio.File {
	r.Helper()
	op := aio.FileOp{Kind: aio.FileOpen, Path: r.path(name), Mode: mode}
	r.check(r.file(d, &op))
	return op.File
}

// newFile creates a file of size bytes and opens it for direct writes.
func (r *rig) newFile(d aio.Driver, name string, size int64) aio.File {
	r.Helper()
	f := r.openFile(d, name, aio.OpenWrite|aio.OpenCreate|aio.OpenDirect)
	if size > 0 {
		r.check(r.file(d, &aio.FileOp{Kind: aio.FileAllocate, File: f, Len: size}))
	}
	return f
}

// content reads a whole file through the helpers.
func (r *rig) content(d aio.Driver, name string) []byte {
	r.Helper()
	op := aio.FileOp{Kind: aio.FileRead, Path: r.path(name), Len: 64 << 20}
	r.check(r.file(d, &op))
	return op.Data
}

// writeFile makes a file with the content data.
func (r *rig) writeFile(d aio.Driver, name string, data []byte) {
	r.Helper()
	r.check(r.file(d, &aio.FileOp{Kind: aio.FileWriteAtomic, Path: r.path(name), Data: data}))
}
