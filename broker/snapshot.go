package broker

import (
	"path/filepath"

	"github.com/mqd-broker/mqd/broker/catalog"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/layout"
)

// snapshotNames are the two generations of the catalog's snapshot, which take turns.
var snapshotNames = [2]string{"catalog.a", "catalog.b"}

func snapshotPath(dir string, generation int) string {
	return filepath.Join(dir, layout.CheckpointsDir, snapshotNames[generation])
}

// snapshots writes the catalog to a file now and then, so that a start has less of
// its log to read. A helper encodes it; the shard only hands the state over.
type snapshots struct {
	k          *keeper
	since      int // commands applied since the newest snapshot was taken
	generation int // the next to be written
	writing    bool
	encode     encodeJob
	job        aio.JobOp
	file       aio.FileOp
}

func (z *snapshots) init(k *keeper, found *Topics) {
	z.k, z.generation, z.since = k, found.generation, found.replayed
}

// applied counts a command, and begins a snapshot when it is time.
func (z *snapshots) applied() {
	z.since++
	if z.writing || z.since < z.k.b.node.opts.SnapshotEvery {
		return
	}
	z.writing, z.since = true, 0
	z.encode = encodeJob{snapshot: z.k.state.Snapshot(), node: z.k.b.node.id}
	z.job = aio.JobOp{Job: &z.encode, Owner: z}
	z.k.b.drv.SubmitJob(&z.job)
}

// encodeJob encodes a snapshot on a helper.
type encodeJob struct {
	snapshot catalog.Snapshot
	node     [16]byte
	data     []byte
}

// Run implements aio.Job.
func (j *encodeJob) Run(aio.FS) error {
	j.data = j.snapshot.Append(nil, j.node)
	return nil
}

// CompleteJob writes what has been encoded.
func (z *snapshots) CompleteJob(*aio.JobOp) {
	z.file = aio.FileOp{
		Kind: aio.FileWriteAtomic, Owner: z, Data: z.encode.data,
		Path: snapshotPath(z.k.b.node.opts.Dir, z.generation),
	}
	z.encode = encodeJob{}
	z.k.b.drv.SubmitFile(&z.file)
}

// CompleteFile ends the writing. After a failure the next command tries again, on
// the same generation: the other one is the one that counts.
func (z *snapshots) CompleteFile(op *aio.FileOp) {
	z.writing = false
	op.Data = nil
	if op.Err != nil {
		z.since = z.k.b.node.opts.SnapshotEvery
		z.k.b.node.opts.Events.SnapshotFailed(op.Err)
		return
	}
	z.generation = 1 - z.generation
}
