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
	next    *opening
}

// openSegment opens an existing segment file, or tells w at once if it is open.
// The number of open files is bounded: the one unused for longest is closed.
func (s *Store) openSegment(p *Partition, seg *segfile, w segmentOpener) {
	if seg.file != aio.NoFile {
		s.touchFile(seg)
		w.segmentOpen(nil)
		return
	}
	for o := s.opens; o != nil; o = o.next {
		if o.seg == seg {
			o.waiters = append(o.waiters, w)
			return
		}
	}
	s.trimFiles()
	o := &opening{s: s, p: p, seg: seg, waiters: []segmentOpener{w}, next: s.opens}
	s.opens = o
	seg.opening = true
	mode := aio.OpenWrite | aio.OpenDirect
	if !seg.created {
		mode |= aio.OpenCreate
	}
	o.op = aio.FileOp{Kind: aio.FileOpen, Path: p.logPath(seg), Mode: mode, Owner: o}
	s.drv.SubmitFile(&o.op)
}

// CompleteFile enters the open file and tells those who wait.
func (o *opening) CompleteFile(op *aio.FileOp) {
	for at := &o.s.opens; *at != nil; at = &(*at).next {
		if *at == o {
			*at = o.next
			break
		}
	}
	o.seg.opening = false
	if op.Err == nil {
		o.seg.file = op.File
		o.seg.created = true
		o.seg.allocated = max(o.seg.allocated, op.Size)
		o.s.linkFile(o.seg)
	}
	for _, w := range o.waiters {
		w.segmentOpen(op.Err)
	}
}

// linkFile enters seg as the most recently used open file.
func (s *Store) linkFile(seg *segfile) {
	s.openFiles++
	s.pushFile(seg)
}

func (s *Store) pushFile(seg *segfile) {
	seg.lruPrev, seg.lruNext = s.fileNewest, nil
	if s.fileNewest != nil {
		s.fileNewest.lruNext = seg
	} else {
		s.fileOldest = seg
	}
	s.fileNewest = seg
}

func (s *Store) unlinkFile(seg *segfile) {
	if seg.lruPrev != nil {
		seg.lruPrev.lruNext = seg.lruNext
	} else {
		s.fileOldest = seg.lruNext
	}
	if seg.lruNext != nil {
		seg.lruNext.lruPrev = seg.lruPrev
	} else {
		s.fileNewest = seg.lruPrev
	}
	seg.lruPrev, seg.lruNext = nil, nil
}

func (s *Store) touchFile(seg *segfile) {
	if s.fileNewest != seg {
		s.unlinkFile(seg)
		s.pushFile(seg)
	}
}

// trimFiles closes files that nobody uses until there is room for one more.
func (s *Store) trimFiles() {
	for seg := s.fileOldest; seg != nil && s.openFiles >= s.opts.OpenFiles; {
		next := seg.lruNext
		if seg.reads == 0 && !seg.writing {
			s.closeFile(seg)
		}
		seg = next
	}
}

func (s *Store) closeFile(seg *segfile) {
	s.unlinkFile(seg)
	s.openFiles--
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
