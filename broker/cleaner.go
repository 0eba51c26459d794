package broker

import (
	"path/filepath"
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/layout"
	"github.com/mqd-broker/mqd/engine/segment"
	"github.com/mqd-broker/mqd/engine/shard"
)

// cleanStep says what the cleaner waits for.
type cleanStep uint8

const (
	cleanIdle    cleanStep = iota
	cleanRename            // the topic's directory gets a name that says it is deleted
	cleanSync              // that is durable
	cleanRemove            // it goes
	cleanSyncEnd           // that is durable too
)

// On a full disk a step that finds no space is tried again after the ballast has been
// given up, or somebody has made room: so many times, with pauses of so long.
const (
	cleanTries = 50
	cleanPause = 200 * time.Millisecond
)

// cleaner removes the directories of deleted topics, one after another, in the
// background. It first renames a directory: from then on no start can take it for
// one of a topic, and the removal may take its time and be interrupted anywhere.
//
// At the start it goes through the topics that have tombstones, because an earlier
// life may have ended before their directories were gone; then the tombstones are
// forgotten. Recovery has freed every journal by then, so nothing of these topics
// can come up again. Directories that have been renamed already follow.
type cleaner struct {
	k      *keeper
	queue  []string // directories, those that have been renamed by their new names
	step   cleanStep
	op     aio.FileOp
	timer  shard.Timer
	tries  int   // of the step for lack of space
	left   int   // of those queued at the start
	before int64 // the catalog's next offset at the start
	failed bool  // one of those queued at the start is left
}

func (c *cleaner) init(k *keeper) {
	c.k, c.timer.Owner = k, c
	c.before = k.state.Next()
	for _, t := range k.state.Tombstones() {
		c.queue = append(c.queue, layout.TopicDir(k.b.node.opts.Dir, t.Name, t.ID))
	}
	c.left = len(c.queue)
	c.queue = append(c.queue, k.b.node.deleted...)
	k.b.node.deleted = nil
}

// add queues the directory of a topic.
func (c *cleaner) add(name string, id TopicID) {
	c.queue = append(c.queue, layout.TopicDir(c.k.b.node.opts.Dir, name, id))
	c.turn()
}

// turn begins the next directory, and returns 1 if there was one to begin.
func (c *cleaner) turn() int {
	if c.step != cleanIdle || len(c.queue) == 0 {
		return 0
	}
	dir := c.queue[0]
	if segment.IsDeleted(dir) {
		c.begin(cleanRemove, aio.FileOp{Kind: aio.FileRemoveAll, Path: dir})
		return 1
	}
	c.begin(cleanRename, aio.FileOp{Kind: aio.FileRename, Path: dir, Path2: segment.Deleted(dir)})
	return 1
}

func (c *cleaner) begin(step cleanStep, op aio.FileOp) {
	c.step = step
	c.op = op
	c.op.Owner = c
	c.k.b.drv.SubmitFile(&c.op)
}

// CompleteFile goes on.
func (c *cleaner) CompleteFile(op *aio.FileOp) {
	dir := c.queue[0]
	if c.mayTryAgain(op.Err) {
		c.tries++
		c.k.b.store.ReleaseBallast()
		c.k.b.loop.Arm(&c.timer, c.k.b.loop.Now()+int64(cleanPause))
		return
	}
	if op.Err != nil {
		// A topic without a record never had a directory.
		missing := c.step == cleanRename && aio.IsNotExist(op.Err)
		if !missing {
			c.k.b.node.opts.Events.FilesLeft(dir, op.Err)
		}
		c.done(missing)
		return
	}
	switch c.step {
	case cleanRename:
		c.begin(cleanSync, aio.FileOp{Kind: aio.FileSyncDir, Path: filepath.Dir(dir)})
	case cleanSync:
		c.begin(cleanRemove, aio.FileOp{Kind: aio.FileRemoveAll, Path: segment.Deleted(dir)})
	case cleanRemove:
		c.begin(cleanSyncEnd, aio.FileOp{Kind: aio.FileSyncDir, Path: filepath.Dir(dir)})
	case cleanSyncEnd:
		c.done(true)
	default:
		violated("the cleaner knows what it waits for")
	}
}

// mayTryAgain reports whether a step found no space and is tried again. What did not
// become durable is not.
func (c *cleaner) mayTryAgain(err error) bool {
	return aio.IsNoSpace(err) && (c.step == cleanRename || c.step == cleanRemove) && c.tries < cleanTries
}

// Fire tries a step again.
func (c *cleaner) Fire(*shard.Timer, int64) {
	c.begin(c.step, aio.FileOp{Kind: c.op.Kind, Path: c.op.Path, Path2: c.op.Path2})
}

// done ends the work on a directory.
func (c *cleaner) done(gone bool) {
	c.step, c.tries = cleanIdle, 0
	c.queue[0] = ""
	c.queue = c.queue[1:]
	if c.left > 0 {
		c.failed = c.failed || !gone
		if c.left--; c.left == 0 && !c.failed {
			c.k.state.Forget(c.before)
		}
	}
	c.turn()
}
