// Package cleaner removes the directories of deleted topics, in the background.
package cleaner

import (
	"path/filepath"
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/segment"
	"github.com/mqd-broker/mqd/engine/shard"
	"github.com/mqd-broker/mqd/internal/invariant"
)

// step says what the cleaner waits for.
type step uint8

const (
	idle    step = iota
	rename       // the topic's directory gets a name that says it is deleted
	sync         // that is durable
	remove       // it goes
	syncEnd      // that is durable too
)

// On a full disk a step that finds no space is tried again after the ballast has been
// given up, or somebody has made room: so many times, with pauses of so long.
const (
	tries = 50
	pause = 200 * time.Millisecond
)

// Host is what a cleaner has of the shard that it works for.
type Host interface {
	// Loop is that of the shard.
	Loop() *shard.Loop
	// MakeRoom gives up what is kept for a full disk.
	MakeRoom()
	// FilesLeft is told of a directory that was not removed.
	FilesLeft(dir string, err error)
	// AllGone is told, once, that nothing is left of what was given to [New].
	AllGone()
}

// Cleaner removes the directories of deleted topics, one after another. It first renames
// a directory: from then on no start can take it for one of a topic, and the removal may
// take its time and be interrupted anywhere.
//
// At the start it goes through the topics that have tombstones, because an earlier
// life may have ended before their directories were gone; then the tombstones can be
// forgotten. Recovery has freed every journal by then, so nothing of these topics
// can come up again. Directories that have been renamed already follow.
type Cleaner struct {
	host   Host
	queue  []string // directories, those that have been renamed by their new names
	step   step
	op     aio.FileOp
	timer  shard.Timer
	tries  int  // of the step for lack of space
	left   int  // of those queued at the start
	failed bool // one of those queued at the start is left
}

// New makes a cleaner. dead are the directories of topics with tombstones, deleted those
// that have been renamed.
func New(h Host, dead, deleted []string) *Cleaner {
	c := &Cleaner{host: h, queue: append(dead, deleted...), left: len(dead)}
	c.timer.Owner = c
	return c
}

// Add queues the directory of a topic.
func (c *Cleaner) Add(dir string) {
	c.queue = append(c.queue, dir)
	c.Turn()
}

// Turn begins the next directory, and returns 1 if there was one to begin.
func (c *Cleaner) Turn() int {
	if c.step != idle || len(c.queue) == 0 {
		return 0
	}
	dir := c.queue[0]
	if segment.IsDeleted(dir) {
		c.begin(remove, aio.FileOp{Kind: aio.FileRemoveAll, Path: dir})
		return 1
	}
	c.begin(rename, aio.FileOp{Kind: aio.FileRename, Path: dir, Path2: segment.Deleted(dir)})
	return 1
}

func (c *Cleaner) begin(s step, op aio.FileOp) {
	c.step = s
	c.op = op
	c.op.Owner = c
	c.host.Loop().Driver().SubmitFile(&c.op)
}

// CompleteFile goes on.
func (c *Cleaner) CompleteFile(op *aio.FileOp) {
	dir := c.queue[0]
	if c.mayTryAgain(op.Err) {
		c.tries++
		c.host.MakeRoom()
		c.host.Loop().Arm(&c.timer, c.host.Loop().Now()+int64(pause))
		return
	}
	if op.Err != nil {
		// A topic without a record never had a directory.
		missing := c.step == rename && aio.IsNotExist(op.Err)
		if !missing {
			c.host.FilesLeft(dir, op.Err)
		}
		c.done(missing)
		return
	}
	switch c.step {
	case rename:
		c.begin(sync, aio.FileOp{Kind: aio.FileSyncDir, Path: filepath.Dir(dir)})
	case sync:
		c.begin(remove, aio.FileOp{Kind: aio.FileRemoveAll, Path: segment.Deleted(dir)})
	case remove:
		c.begin(syncEnd, aio.FileOp{Kind: aio.FileSyncDir, Path: filepath.Dir(dir)})
	case syncEnd:
		c.done(true)
	default:
		invariant.Violated("cleaner: the cleaner knows what it waits for")
	}
}

// mayTryAgain reports whether a step found no space and is tried again. What did not
// become durable is not.
func (c *Cleaner) mayTryAgain(err error) bool {
	return aio.IsNoSpace(err) && (c.step == rename || c.step == remove) && c.tries < tries
}

// Fire tries a step again.
func (c *Cleaner) Fire(*shard.Timer, int64) {
	c.begin(c.step, aio.FileOp{Kind: c.op.Kind, Path: c.op.Path, Path2: c.op.Path2})
}

// done ends the work on a directory.
func (c *Cleaner) done(gone bool) {
	c.step, c.tries = idle, 0
	c.queue[0] = ""
	c.queue = c.queue[1:]
	if c.left > 0 {
		c.failed = c.failed || !gone
		if c.left--; c.left == 0 && !c.failed {
			c.host.AllGone()
		}
	}
	c.Turn()
}
