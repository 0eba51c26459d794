package broker

import (
	"path/filepath"

	"github.com/mqd-broker/mqd/broker/group"
	"github.com/mqd-broker/mqd/broker/groupfile"
	"github.com/mqd-broker/mqd/engine/aio"
)

// groupStep is how many offsets of a snapshot are written in a turn, so that it takes
// less than 0.1 ms.
const groupStep = 256

// groupSnapshots bounds the log of a coordinator: when it has grown by
// [Options.GroupLogBytes], the blocks that have changed since they were written last are
// written again, one after the other, each to two files, and then the log before is
// removed. Blocks that have not changed are in their files as they are.
type groupSnapshots struct {
	c      *coordinator
	grown  int64 // bytes appended since the last round began
	active bool
	from   int64 // end of the log when the round began
	block  int
	w      *group.Writer
	copies int // of the block, that have been begun
	dir    bool
	busy   bool // with a file
	data   []byte
	file   aio.FileOp
}

// step does some of a round, and reports whether there was anything to do.
func (z *groupSnapshots) step() bool {
	c := z.c
	switch {
	case z.busy:
		return false
	case z.w != nil:
		if !z.w.Step(groupStep, c.b.loop.Now()) {
			z.data, z.w, z.copies = z.w.End(), nil, 0
			z.write()
		}
	case !z.active:
		if z.grown < c.b.node.opts.GroupLogBytes {
			return false
		}
		z.active, z.grown, z.block, z.from = true, 0, 0, c.part.End()
	case z.block == group.Blocks:
		z.end()
	case !c.state.Dirty(z.block):
		z.block++
	case !z.dir:
		z.submit(aio.FileOp{Kind: aio.FileMkdirAll, Path: filepath.Dir(groupfile.Path(c.b.node.opts.Dir, c.number, 0, 0))})
	default:
		about := group.Snapshot{Node: c.b.node.id, Partition: c.number, Block: z.block, Offset: z.from}
		z.w = c.state.Write(about, z.data)
	}
	return true
}

// write writes the next copy of the block.
func (z *groupSnapshots) write() {
	path := groupfile.Path(z.c.b.node.opts.Dir, z.c.number, z.block, z.copies)
	z.copies++
	z.submit(aio.FileOp{Kind: aio.FileWriteAtomic, Path: path, Data: z.data})
}

func (z *groupSnapshots) submit(op aio.FileOp) {
	z.busy = true
	z.file = op
	z.file.Owner = z
	z.c.b.drv.SubmitFile(&z.file)
}

// CompleteFile goes on. After a failure the round is begun anew when the log has grown
// by half as much again.
func (z *groupSnapshots) CompleteFile(op *aio.FileOp) {
	z.busy, op.Data = false, nil
	switch {
	case !z.active: // the state is read again
	case op.Err != nil:
		z.c.state.Redo(z.block)
		z.active, z.grown = false, z.c.b.node.opts.GroupLogBytes/2
		z.c.b.node.opts.Events.SnapshotFailed(op.Err)
	case op.Kind == aio.FileMkdirAll:
		z.dir = true
	case z.copies < len(groupfile.Copies):
		z.write()
	default:
		z.block++
	}
}

// end removes the log that is not needed any more. What was in flight when the round
// began is durable by now, or the log is left for the next round.
func (z *groupSnapshots) end() {
	z.active = false
	if p := z.c.part.Partition; z.from <= p.Durable() {
		z.c.b.store.Trim(p, z.from, nil)
	}
}

// abandon ends a round whose state is thrown away.
func (z *groupSnapshots) abandon() {
	if z.w != nil {
		z.w.Abandon()
	}
	z.w, z.active = nil, false
}
