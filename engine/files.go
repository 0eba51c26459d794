package engine

import (
	"path/filepath"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/segment"
)

// segmentOpener is told when a segment's file is open.
type segmentOpener interface {
	segmentOpen(err error)
}

// opening is an open in progress, with those who wait for it.
type opening struct {
	s       *Store
	p       *Partition
	seg     *segfile
	op      aio.FileOp
	waiters []segmentOpener
}

// openSegment opens an existing segment file, or tells w at once if it is open.
// The number of open files is bounded: the one unused for longest is closed.
func (s *Store) openSegment(p *Partition, seg *segfile, w segmentOpener) {
	if seg.file != aio.NoFile {
		s.touchFile(seg)
		w.segmentOpen(nil)
		return
	}
	if o := seg.opening; o != nil {
		o.waiters = append(o.waiters, w)
		return
	}
	s.trimFiles()
	o := &opening{s: s, p: p, seg: seg, waiters: []segmentOpener{w}}
	s.opens++
	seg.opening = o
	mode := aio.OpenWrite | aio.OpenDirect
	if !seg.created {
		mode |= aio.OpenCreate
	}
	o.op = aio.FileOp{Kind: aio.FileOpen, Path: p.logPath(seg), Mode: mode, Owner: o}
	s.drv.SubmitFile(&o.op)
}

// CompleteFile enters the open file and tells those who wait.
func (o *opening) CompleteFile(op *aio.FileOp) {
	o.s.opens--
	o.seg.opening = nil
	if op.Err == nil {
		o.seg.file = op.File
		o.seg.created = true
		o.seg.allocated = max(o.seg.allocated, op.Size)
		o.s.addFile(o.seg)
	}
	for _, w := range o.waiters {
		w.segmentOpen(op.Err)
	}
}

// touchFile makes an open file the most recently used.
func (s *Store) touchFile(seg *segfile) {
	s.files.Remove(&seg.lru)
	s.addFile(seg)
}

func (s *Store) addFile(seg *segfile) {
	s.fileUse++
	seg.lru.Owner = seg
	s.files.Add(&seg.lru, s.fileUse)
}

// trimFiles closes files that nobody uses until there is room for one more.
func (s *Store) trimFiles() {
	for n := s.files.First(); n != nil && s.files.Len() >= s.opts.OpenFiles; {
		seg := n.Owner
		n = n.Next()
		if seg.reads == 0 && !seg.writing {
			s.closeFile(seg)
		}
	}
}

func (s *Store) closeFile(seg *segfile) {
	s.files.Remove(&seg.lru)
	op := &aio.FileOp{Kind: aio.FileClose, File: seg.file, Owner: ignoreClose{}}
	seg.file = aio.NoFile
	s.drv.SubmitFile(op)
}

// ignoreClose ignores the outcome of closing a file: whatever had to be durable
// has been flushed before.
type ignoreClose struct{}

func (ignoreClose) CompleteFile(*aio.FileOp) {}

// logPath names a segment's file.
func (p *Partition) logPath(seg *segfile) string {
	return filepath.Join(p.dir, segment.LogName(seg.base))
}
