package recovery

import (
	"path/filepath"
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/layout"
)

// maxOpenFiles bounds the segment files that are open at a time, so that the number of
// partitions does not matter to the driver's table of files.
const maxOpenFiles = 256

// groupWait bounds a turn of waiting for a group; it costs only a turn.
const groupWait = 50 * time.Millisecond

// group is a number of file operations under way at the same time.
type group struct {
	busy int
	err  error
}

// CompleteFile notes the end of one.
func (g *group) CompleteFile(op *aio.FileOp) {
	g.busy--
	if g.err == nil {
		g.err = op.Err
	}
}

// doAll performs operations on all helpers at once, and waits for them. The error is that
// of the first that failed.
func (r *recovery) doAll(ops []aio.FileOp) error {
	g, err := r.tryAll(ops)
	if err != nil {
		return err
	}
	return g.err
}

// tryAll is doAll for operations that may fail.
func (r *recovery) tryAll(ops []aio.FileOp) (*group, error) {
	g := &group{busy: len(ops)}
	for i := range ops {
		ops[i].Owner = g
		r.d.SubmitFile(&ops[i])
	}
	for g.busy > 0 {
		if _, err := r.d.Poll(groupWait); err != nil {
			return g, err
		}
	}
	return g, nil
}

// closeFiles makes the open segment files durable and closes them.
func (r *recovery) closeFiles() error {
	if err := r.writer.settle(); err != nil {
		return err
	}
	files := r.complete
	for _, p := range r.sorted() {
		if p.open {
			files = append(files, p.file)
			p.open = false
		}
	}
	var sync, shut []aio.FileOp
	for _, f := range files {
		sync = append(sync, aio.FileOp{Kind: aio.FileSync, File: f})
		shut = append(shut, aio.FileOp{Kind: aio.FileClose, File: f})
	}
	r.complete, r.openFiles = nil, 0
	if err := r.doAll(sync); err != nil {
		return err
	}
	return r.doAll(shut)
}

// syncDirs makes the entries of all partitions durable that have new ones, and those
// of their topics, and of all topics: an earlier process may have made some and died
// before it came to that.
func (r *recovery) syncDirs() error {
	ops := []aio.FileOp{{Kind: aio.FileSyncDir, Path: r.path(layout.TopicsDir)}}
	topic := ""
	for _, p := range r.sorted() { // those of a topic follow each other
		if !p.touched {
			continue
		}
		if dir := filepath.Dir(p.dir); dir != topic {
			topic = dir
			ops = append(ops, aio.FileOp{Kind: aio.FileSyncDir, Path: dir})
		}
		ops = append(ops, aio.FileOp{Kind: aio.FileSyncDir, Path: p.dir})
	}
	for len(ops) > 0 {
		n := min(len(ops), maxOpenFiles)
		if err := r.doAll(ops[:n]); err != nil {
			return err
		}
		ops = ops[n:]
	}
	return nil
}
