// Package filepool keeps the files of segments open that are in use, and as many of the
// others as may be: the one unused for longest is closed.
package filepool

import (
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/order"
)

// Owner is the segment of a file.
type Owner interface {
	// Path names the file.
	Path() string
	// Busy reports whether the open file is in use.
	Busy() bool
}

// Waiter is told when a file is open.
type Waiter interface {
	FileOpen(err error)
}

// File is the file of a segment, which may be open.
type File struct {
	Handle    aio.File // aio.NoFile: it is closed
	Allocated int64    // bytes
	created   bool     // it exists
	opening   *opening
	owner     Owner
	lru       order.Node[*File] // by use
}

// Closed returns a file that is not open, and reports whether it exists.
func Closed(exists bool, allocated int64) File {
	return File{Handle: aio.NoFile, created: exists, Allocated: allocated}
}

// Opening reports whether the file is being opened.
func (f *File) Opening() bool { return f.opening != nil }

// opening is an open in progress, with those who wait for it.
type opening struct {
	pool    *Pool
	file    *File
	op      aio.FileOp
	waiters []Waiter
}

// Pool has the open files of a shard.
type Pool struct {
	driver aio.Driver
	most   int
	opens  int               // in progress
	files  order.List[*File] // open ones, the one unused for longest first
	use    uint64
}

// New returns a pool that closes what is not in use before there are more than most files.
func New(d aio.Driver, most int) Pool { return Pool{driver: d, most: most} }

// Len is the number of open files.
func (p *Pool) Len() int { return p.files.Len() }

// Opening is the number of files that are being opened.
func (p *Pool) Opening() int { return p.opens }

// Open opens the file of o, makes it if it has never been there, and tells w: at once if it
// is open.
func (p *Pool) Open(f *File, o Owner, w Waiter) {
	if f.Handle != aio.NoFile {
		p.files.Remove(&f.lru)
		p.used(f)
		w.FileOpen(nil)
		return
	}
	if f.opening != nil {
		f.opening.waiters = append(f.opening.waiters, w)
		return
	}
	p.trim()
	f.owner, f.lru.Owner = o, f
	f.opening = &opening{pool: p, file: f, waiters: []Waiter{w}}
	p.opens++
	mode := aio.OpenWrite | aio.OpenDirect
	if !f.created {
		mode |= aio.OpenCreate
	}
	f.opening.op = aio.FileOp{Kind: aio.FileOpen, Path: o.Path(), Mode: mode, Owner: f.opening}
	p.driver.SubmitFile(&f.opening.op)
}

// CompleteFile enters the open file and tells those who wait.
func (o *opening) CompleteFile(op *aio.FileOp) {
	f := o.file
	o.pool.opens--
	f.opening = nil
	if op.Err == nil {
		f.Handle, f.created = op.File, true
		f.Allocated = max(f.Allocated, op.Size)
		o.pool.used(f)
	}
	for _, w := range o.waiters {
		w.FileOpen(op.Err)
	}
}

// used makes an open file the most recently used.
func (p *Pool) used(f *File) {
	p.use++
	p.files.Add(&f.lru, p.use)
}

// trim closes files that nobody uses until there is room for one more.
func (p *Pool) trim() {
	for n := p.files.First(); n != nil && p.files.Len() >= p.most; {
		f := n.Owner
		n = n.Next()
		if !f.owner.Busy() {
			p.Close(f)
		}
	}
}

// Close closes a file that nobody uses, if it is open.
func (p *Pool) Close(f *File) {
	if f.Handle == aio.NoFile {
		return
	}
	p.files.Remove(&f.lru)
	op := &aio.FileOp{Kind: aio.FileClose, File: f.Handle, Owner: ignored{}}
	f.Handle = aio.NoFile
	p.driver.SubmitFile(op)
}

// ignored ignores the outcome of closing a file: whatever had to be durable has been
// flushed before.
type ignored struct{}

func (ignored) CompleteFile(*aio.FileOp) {}
