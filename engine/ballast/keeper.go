package ballast

import (
	"path/filepath"
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/shard"
	"github.com/mqd-broker/mqd/internal/invariant"
)

// How long after a failure the file is tried again, when there was no room for it and
// when it failed otherwise.
const (
	roomRetry  = time.Second
	otherRetry = time.Minute
)

// Events tells what an operator should hear of. Calls come from the loop.
type Events interface {
	// BallastMade: the file of size bytes is there again, after it was missing.
	BallastMade(size int64)
	// BallastMissing: the file has been removed to make room, or there is no room for
	// it; err then says why.
	BallastMissing(size int64, err error)
	// BallastUnable: the file cannot be made for another reason than space. The broker
	// goes on without it, and tries again now and then.
	BallastUnable(err error)
}

// step says what a keeper waits for.
type step uint8

const (
	idle     step = iota
	find          // the file, which may be there
	stat          // whether there is room for a new one
	create        // the file
	allocate      // its blocks
	flush         // them, durable
	shut          // the file
	enter         // its name, durable
	undo          // the removal of one that did not come about
	remove        // the removal of the file
	settle        // the removal, durable
)

// Keeper makes the file and removes it, on one loop.
type Keeper struct {
	b      *Ballast
	loop   *shard.Loop
	dir    string
	size   int64
	events Events
	step   step
	file   aio.File
	op     aio.FileOp
	why    error // of a failure that is being cleaned up
	told   bool  // that it is missing
	unable bool  // told that it cannot be made
	stop   bool  // nothing new is begun
	timer  shard.Timer
}

// New makes the ballast of a data directory on a filesystem of total bytes, for a number
// of shards. It is kept on the loop, whose owner calls Begin.
func New(loop *shard.Loop, dir string, total int64, shards int, events Events) (*Ballast, *Keeper) {
	b := &Ballast{}
	k := &Keeper{b: b, loop: loop, dir: dir, size: Size(total), events: events}
	k.timer.Owner = k
	b.unsaved.Store(k.size / unsavedShare / int64(shards))
	b.wake = loop.Wake
	return b, k
}

// Begin makes the file if it is not there. Missing says that it has been removed by the
// start, so that nothing is taken before it is back.
func (k *Keeper) Begin(missing bool) {
	k.b.missing.Store(missing)
	k.told = missing
	k.next()
}

// Stop ends the work with what is under way, which Resting waits for.
func (k *Keeper) Stop() {
	k.stop = true
	k.loop.Disarm(&k.timer)
}

// Resting reports whether nothing is under way.
func (k *Keeper) Resting() bool { return k.step == idle }

// Turn begins the removal of the file if somebody has asked for it. It is for every turn
// of the loop.
func (k *Keeper) Turn() {
	if k.step == idle && k.b.wanted.Load() {
		k.next()
	}
}

// Fire tries again.
func (k *Keeper) Fire(*shard.Timer, int64) { k.next() }

func (k *Keeper) path() string { return filepath.Join(k.dir, Name) }

// next begins what is to be done, if nothing is under way.
func (k *Keeper) next() {
	switch {
	case k.step != idle || k.stop:
	case k.b.wanted.Load():
		k.b.missing.Store(true)
		k.begin(remove, aio.FileOp{Kind: aio.FileRemove, Path: k.path()})
	default:
		k.begin(find, aio.FileOp{Kind: aio.FileOpen, Path: k.path(), Mode: aio.OpenWrite})
	}
}

func (k *Keeper) begin(s step, op aio.FileOp) {
	k.step, k.op = s, op
	k.op.Owner = k
	k.loop.Driver().SubmitFile(&k.op)
}

// CompleteFile goes on.
func (k *Keeper) CompleteFile(op *aio.FileOp) {
	if op.Err != nil && k.step != undo {
		k.failed(op.Err)
		return
	}
	switch k.step {
	case find, create:
		k.file = op.File
		k.begin(allocate, aio.FileOp{Kind: aio.FileAllocate, File: k.file, Len: k.size})
	case stat:
		if op.FS.FreeBytes < k.size {
			k.without(nil)
			return
		}
		k.begin(create, aio.FileOp{Kind: aio.FileOpen, Path: k.path(), Mode: aio.OpenWrite | aio.OpenCreate})
	case allocate:
		k.begin(flush, aio.FileOp{Kind: aio.FileSync, File: k.file})
	case flush:
		k.begin(shut, aio.FileOp{Kind: aio.FileClose, File: k.file})
	case shut:
		if k.why != nil {
			k.begin(undo, aio.FileOp{Kind: aio.FileRemove, Path: k.path()})
			return
		}
		k.begin(enter, aio.FileOp{Kind: aio.FileSyncDir, Path: k.dir})
	case enter:
		k.made()
	case undo:
		k.without(k.why)
	case remove:
		k.begin(settle, aio.FileOp{Kind: aio.FileSyncDir, Path: k.dir})
	case settle:
		k.without(nil)
	default:
		invariant.Violated("ballast: a keeper knows what it waits for")
	}
}

// failed goes on after a failure. A file that did not come about is removed, so that it
// takes nobody's space.
func (k *Keeper) failed(err error) {
	switch {
	case k.step == find && aio.IsNotExist(err):
		k.begin(stat, aio.FileOp{Kind: aio.FileStatFS, Path: k.dir})
	case k.step == allocate || k.step == flush:
		k.why = err
		k.begin(shut, aio.FileOp{Kind: aio.FileClose, File: k.file})
	default:
		k.without(err)
	}
}

func (k *Keeper) made() {
	k.step = idle
	if k.told || k.unable {
		k.events.BallastMade(k.size)
	}
	k.told, k.unable = false, false
	k.b.missing.Store(false)
}

// without ends an attempt that has left no file. There will be another one.
func (k *Keeper) without(err error) {
	k.step, k.why = idle, nil
	k.b.wanted.Store(false)
	retry := roomRetry
	if err == nil || aio.IsNoSpace(err) {
		k.b.missing.Store(true)
		if !k.told {
			k.told = true
			k.events.BallastMissing(k.size, err)
		}
	} else {
		retry = otherRetry
		k.b.missing.Store(false)
		if !k.unable {
			k.unable = true
			k.events.BallastUnable(err)
		}
	}
	if !k.stop {
		k.loop.Arm(&k.timer, k.loop.Now()+int64(retry))
	}
}
