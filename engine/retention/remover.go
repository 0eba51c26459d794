// Package retention removes the oldest segments of partitions: it says which may go, and
// brings their files off the disk.
package retention

import (
	"path/filepath"
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/fifo"
	"github.com/mqd-broker/mqd/engine/segment"
	"github.com/mqd-broker/mqd/engine/shard"
)

// pieceSegments is how many segments are removed in one go of a helper, so that it is
// free for other work soon.
const pieceSegments = 8

// retryPause is how long the removal waits after one that has failed.
const retryPause = time.Second

// Remover removes the files of segments that are below the log start of their partition,
// one piece at a time, on the helpers of the driver of one loop. Log and index are first
// renamed, which is made durable: from then on no start can take them for segments, and
// the removal may be interrupted anywhere. What is left then, the next start finds by the
// log start and by the names.
type Remover struct {
	loop   *shard.Loop
	report func(dir string, err error)
	room   func()
	queue  fifo.Queue[piece]
	at     piece // being removed, unless it has no names
	op     aio.JobOp
	timer  shard.Timer // until at is tried again
	busy   bool
	failed bool // at did, before
}

// NewRemover makes a remover. It calls report when a piece fails for the first time, before
// it tries it again and again, and room when that may be for lack of space.
func NewRemover(l *shard.Loop, report func(dir string, err error), room func()) *Remover {
	r := &Remover{loop: l, report: report, room: room}
	r.timer.Owner = r
	return r
}

// Add queues the segments with these bases, the oldest first, of the partition in dir. It
// does not matter if some of their files are gone, or have been renamed.
func (r *Remover) Add(dir string, bases []int64) {
	for len(bases) > 0 {
		n := min(len(bases), pieceSegments)
		p := piece{dir: dir}
		for _, b := range bases[:n] {
			// An index without a log is of no use, a log without an index has one built.
			p.names = append(p.names, segment.IndexName(b), segment.LogName(b))
		}
		r.queue.Push(p)
		bases = bases[n:]
	}
	r.next()
}

// Busy reports whether a helper is at work.
func (r *Remover) Busy() bool { return r.busy }

// Idle reports whether there is nothing to remove.
func (r *Remover) Idle() bool { return len(r.at.names) == 0 && r.queue.Len() == 0 }

// next begins the next piece, unless one is under way or waits to be tried again.
func (r *Remover) next() {
	if len(r.at.names) == 0 && r.queue.Len() > 0 {
		r.at = r.queue.Take()
		r.begin()
	}
}

func (r *Remover) begin() {
	r.busy = true
	r.op = aio.JobOp{Job: &r.at, Owner: r}
	r.loop.Driver().SubmitJob(&r.op)
}

// CompleteJob goes on with the next piece, or later with the same.
func (r *Remover) CompleteJob(op *aio.JobOp) {
	r.busy = false
	if op.Err == nil {
		r.at, r.failed = piece{}, false
		r.next()
		return
	}
	if !r.failed {
		r.failed = true
		r.report(r.at.dir, op.Err)
	}
	if aio.IsNoSpace(op.Err) {
		r.room()
	}
	r.loop.Arm(&r.timer, r.loop.Now()+int64(retryPause))
}

// Fire tries again.
func (r *Remover) Fire(*shard.Timer, int64) { r.begin() }

// piece is some segments of one partition.
type piece struct {
	dir   string
	names []string // of their files
}

// Run implements aio.Job. It can be interrupted at any point and run again.
func (p *piece) Run(fs aio.FS) error {
	for _, name := range p.names {
		path := filepath.Join(p.dir, name)
		if err := gone(fs.Rename(path, segment.Deleted(path))); err != nil {
			return err
		}
	}
	if err := gone(fs.SyncDir(p.dir)); err != nil {
		return err
	}
	for _, name := range p.names {
		if err := fs.Remove(segment.Deleted(filepath.Join(p.dir, name))); err != nil {
			return err
		}
	}
	return nil
}

// gone is err, unless it says that there is nothing to be removed: the topic may have been
// deleted meanwhile.
func gone(err error) error {
	if aio.IsNotExist(err) {
		return nil
	}
	return err
}
