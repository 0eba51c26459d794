package groupfile

import (
	"path/filepath"

	"github.com/mqd-broker/mqd/broker/group"
	"github.com/mqd-broker/mqd/broker/options"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/shard"
)

// writeStep is how many offsets of a snapshot are written in a turn, so that it takes
// less than 0.1 ms.
const writeStep = 256

// Log is the log of a partition of the internal topic.
type Log interface {
	// End is the offset that the next record gets, Durable the end of what cannot be lost.
	End() int64
	Durable() int64
	// TrimTo removes what is below an offset.
	TrimTo(offset int64)
}

// Snapshots bounds the log of a partition's groups: when it has grown by
// [options.Node.GroupLogBytes], the blocks that have changed since they were written last
// are written again, one after the other, each to two files, and then the log before is
// removed. Blocks that have not changed are in their files as they are. It belongs to the
// loop of a shard.
type Snapshots struct {
	loop      *shard.Loop
	opts      *options.Node
	node      [16]byte
	partition uint32
	log       Log
	state     *group.State

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

// NewSnapshots makes the snapshots of a partition's groups. There is nothing to write
// before [Snapshots.Of]. o has its defaults.
func NewSnapshots(l *shard.Loop, o *options.Node, node [16]byte, partition uint32, log Log) *Snapshots {
	return &Snapshots{loop: l, opts: o, node: node, partition: partition, log: log}
}

// Of says of which state snapshots are to be written: one that has just been read, with
// copies that are to be written again at once if again is set.
func (z *Snapshots) Of(s *group.State, again bool) {
	z.state, z.grown = s, 0
	if again {
		z.grown = z.opts.GroupLogBytes
	}
}

// Grew counts bytes of the log.
func (z *Snapshots) Grew(bytes int) { z.grown += int64(bytes) }

// Active reports whether snapshots are being written.
func (z *Snapshots) Active() bool { return z.active }

// Step does some of a round, and reports whether there was anything to do.
func (z *Snapshots) Step() bool {
	switch {
	case z.busy:
		return false
	case z.w != nil:
		if !z.w.Step(writeStep, z.loop.Now()) {
			z.data, z.w, z.copies = z.w.End(), nil, 0
			z.write()
		}
	case !z.active:
		if z.grown < z.opts.GroupLogBytes {
			return false
		}
		z.active, z.grown, z.block, z.from = true, 0, 0, z.log.End()
	case z.block == group.Blocks:
		z.end()
	case !z.state.Dirty(z.block):
		z.block++
	case !z.dir:
		z.submit(aio.FileOp{Kind: aio.FileMkdirAll, Path: filepath.Dir(Path(z.opts.Dir, z.partition, 0, 0))})
	default:
		about := group.Snapshot{Node: z.node, Partition: z.partition, Block: z.block, Offset: z.from}
		z.w = z.state.Write(about, z.data)
	}
	return true
}

// write writes the next copy of the block.
func (z *Snapshots) write() {
	path := Path(z.opts.Dir, z.partition, z.block, z.copies)
	z.copies++
	z.submit(aio.FileOp{Kind: aio.FileWriteAtomic, Path: path, Data: z.data})
}

func (z *Snapshots) submit(op aio.FileOp) {
	z.busy = true
	z.file = op
	z.file.Owner = z
	z.loop.Driver().SubmitFile(&z.file)
}

// CompleteFile goes on. After a failure the round is begun anew when the log has grown
// by half as much again.
func (z *Snapshots) CompleteFile(op *aio.FileOp) {
	z.busy, op.Data = false, nil
	switch {
	case !z.active: // the state is read again
	case op.Err != nil:
		z.state.Redo(z.block)
		z.active, z.grown = false, z.opts.GroupLogBytes/2
		z.opts.Events.SnapshotFailed(op.Err)
	case op.Kind == aio.FileMkdirAll:
		z.dir = true
	case z.copies < len(Copies):
		z.write()
	default:
		z.block++
	}
}

// end removes the log that is not needed any more. What was in flight when the round
// began is durable by now, or the log is left for the next round.
func (z *Snapshots) end() {
	z.active = false
	if z.from <= z.log.Durable() {
		z.log.TrimTo(z.from)
	}
}

// Abandon ends a round whose state is thrown away.
func (z *Snapshots) Abandon() {
	if z.w != nil {
		z.w.Abandon()
	}
	z.w, z.active = nil, false
}
