package catalogfile

import (
	"path/filepath"

	"github.com/mqd-broker/mqd/broker/catalog"
	"github.com/mqd-broker/mqd/broker/options"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/layout"
)

// snapshotNames are the two generations of the catalog's snapshot, which take turns.
var snapshotNames = [2]string{"catalog.a", "catalog.b"}

// SnapshotPath names a generation, 0 or 1, of the snapshot in data directory dir.
func SnapshotPath(dir string, generation int) string {
	return filepath.Join(dir, layout.CheckpointsDir, snapshotNames[generation])
}

// Snapshots writes the catalog to a file now and then, so that a start has less of
// its log to read. A helper encodes it; the shard only hands the state over.
type Snapshots struct {
	drv        aio.Driver
	opts       *options.Node
	node       [16]byte
	state      *catalog.State
	since      int // commands applied since the newest snapshot was taken
	generation int // the next to be written
	writing    bool
	encode     encodeJob
	job        aio.JobOp
	file       aio.FileOp
}

// Snapshots goes on with the snapshots of the catalog that t has read, of the node with
// this id. o has its defaults.
func (t *Topics) Snapshots(drv aio.Driver, o *options.Node, node [16]byte) *Snapshots {
	return &Snapshots{drv: drv, opts: o, node: node, state: t.state, generation: t.generation, since: t.replayed}
}

// Applied counts a command, and begins a snapshot when it is time.
func (z *Snapshots) Applied() {
	z.since++
	if z.writing || z.since < z.opts.SnapshotEvery {
		return
	}
	z.writing, z.since = true, 0
	z.encode = encodeJob{snapshot: z.state.Snapshot(), node: z.node}
	z.job = aio.JobOp{Job: &z.encode, Owner: z}
	z.drv.SubmitJob(&z.job)
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
func (z *Snapshots) CompleteJob(*aio.JobOp) {
	z.file = aio.FileOp{
		Kind: aio.FileWriteAtomic, Owner: z, Data: z.encode.data,
		Path: SnapshotPath(z.opts.Dir, z.generation),
	}
	z.encode = encodeJob{}
	z.drv.SubmitFile(&z.file)
}

// CompleteFile ends the writing. After a failure the next command tries again, on
// the same generation: the other one is the one that counts.
func (z *Snapshots) CompleteFile(op *aio.FileOp) {
	z.writing = false
	op.Data = nil
	if op.Err != nil {
		z.since = z.opts.SnapshotEvery
		z.opts.Events.SnapshotFailed(op.Err)
		return
	}
	z.generation = 1 - z.generation
}
