package broker

import (
	"fmt"
	"path/filepath"

	"github.com/mqd-broker/mqd/broker/group"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/layout"
)

// groupCopies are the two copies of a block's snapshot, written one after the other.
var groupCopies = [2]string{"a", "b"}

// groupPath names a file of the snapshots of groups: one directory for each partition of
// the internal topic, two files for each block.
func groupPath(dir string, partition uint32, block, generation int) string {
	return filepath.Join(dir, layout.GroupsDir, fmt.Sprint(partition), fmt.Sprintf("%02d.%s", block, groupCopies[generation]))
}

// groupFiles reads the snapshots of a partition.
type groupFiles struct {
	state     *group.State
	dir       string
	node      [16]byte
	partition uint32
	passed    []error // over
}

// Run implements aio.Job.
func (j *groupFiles) Run(fs aio.FS) error {
	for block := range group.Blocks {
		if err := j.block(fs, block); err != nil {
			return err
		}
	}
	return nil
}

// block reads the better of the two copies of a block. If there is none, everything
// about the block is in the log.
func (j *groupFiles) block(fs aio.FS, block int) error {
	var damage error
	for g := range groupCopies {
		path := groupPath(j.dir, j.partition, block, g)
		data, err := aio.ReadFile(fs, path, group.MaxSnapshotBytes)
		if aio.IsNotExist(err) {
			continue
		}
		if err != nil {
			return err
		}
		var z group.Snapshot
		switch err = z.Load(j.state, data); {
		case err == nil && (z.Node != j.node || z.Partition != j.partition || z.Block != block):
			err = fmt.Errorf("it is block %d of partition %d of node %x, expected block %d of partition %d of node %x", z.Block, z.Partition, z.Node, block, j.partition, j.node)
		case err == nil:
			return nil
		}
		damage = fmt.Errorf("%s: %w", path, err)
		j.passed = append(j.passed, damage)
	}
	return damage
}
