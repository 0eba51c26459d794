// Package groupfile reads and writes the snapshots of consumer groups. Reading blocks: it
// is for a helper; writing is a shard's, a bounded amount a turn.
package groupfile

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/mqd-broker/mqd/broker/group"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/layout"
)

// What snapshots cannot be taken for.
var (
	// ErrForeign: a snapshot is of other groups.
	ErrForeign = errors.New("groups of another place")
	// ErrMissing: there is none, and the log is cut, which only happens behind one.
	ErrMissing = errors.New("no snapshot of groups")
)

// Copies are the two copies of a block's snapshot, written one after the other.
var Copies = [2]string{"a", "b"}

// Path names a file of the snapshots of groups: one directory for each partition of
// the internal topic, two files for each block.
func Path(dir string, partition uint32, block, which int) string {
	return filepath.Join(dir, layout.GroupsDir, fmt.Sprint(partition), fmt.Sprintf("%02d.%s", block, Copies[which]))
}

// Job reads the snapshots of a partition.
type Job struct {
	// State is what the snapshots are loaded into.
	State     *group.State
	Dir       string // data directory
	Node      [16]byte
	Partition uint32
	LogStart  int64 // of the partition's log
	// Passed are copies that are damaged and were passed over.
	Passed []error
	// Redo are the blocks whose first copy is damaged or not there. They are to be written
	// again: until then there is no second one.
	Redo  []int
	found bool
}

// Run implements aio.Job.
func (j *Job) Run(fs aio.FS) error {
	for block := range group.Blocks {
		if err := j.block(fs, block); err != nil {
			return err
		}
	}
	if !j.found && j.LogStart > 0 {
		return fmt.Errorf("%w in %s, and the log before offset %d is gone", ErrMissing, filepath.Dir(Path(j.Dir, j.Partition, 0, 0)), j.LogStart)
	}
	j.State.Clean() // what the log adds is in no snapshot
	for _, block := range j.Redo {
		j.State.Redo(block)
	}
	return nil
}

// block reads the better of the two copies of a block. If there is none, everything
// about the block is in the log.
func (j *Job) block(fs aio.FS, block int) error {
	var damage error
	for g := range Copies {
		path := Path(j.Dir, j.Partition, block, g)
		data, err := aio.ReadFile(fs, path, group.MaxSnapshotBytes)
		if aio.IsNotExist(err) {
			continue
		}
		if err != nil {
			return err
		}
		j.found = true
		var z group.Snapshot
		// Nothing of another place may get into the state: the other copy is loaded then.
		switch err = z.Read(data); {
		case err == nil && (z.Node != j.Node || z.Partition != j.Partition || z.Block != block):
			err = fmt.Errorf("%w: it is block %d of partition %d of node %x, expected block %d of partition %d of node %x", ErrForeign, z.Block, z.Partition, z.Node, block, j.Partition, j.Node)
		case err == nil:
			err = z.Load(j.State, data)
		}
		if err == nil {
			if g > 0 { // the one before it is damaged, or gone
				j.Redo = append(j.Redo, block)
			}
			return nil
		}
		damage = fmt.Errorf("%s: %w", path, err)
		j.Passed = append(j.Passed, damage)
	}
	return damage
}
