// Package catalogfile keeps the catalog in files: it reads the catalog at a start, from
// snapshots and log, and writes its snapshots.
package catalogfile

import (
	"errors"
	"fmt"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/broker/catalog"
	"github.com/mqd-broker/mqd/broker/options"
	"github.com/mqd-broker/mqd/engine"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/recovery"
)

// Err: the catalog's log and snapshots do not fit together.
var Err = errors.New("catalog not usable")

// Topics is the catalog as recovery sees it: it implements recovery.Topics. It reads
// the newest snapshot and applies the rest of the catalog's log. It blocks, so it
// belongs to the start, before any loop runs.
type Topics struct {
	fs       aio.FS
	dir      string
	maxBatch int
	report   func(format string, args ...any)

	state      *catalog.State
	node       [16]byte // of the snapshot
	found      bool     // there is one
	generation int      // of the snapshot to be written next
	replayed   int      // commands applied on top of it
	dead       map[engine.TopicID]bool
}

// NewTopics makes the catalog for a recovery of the data directory o.Dir. report,
// which may be nil, tells an operator in one line of what was found.
func NewTopics(o options.Node, fs aio.FS, report func(format string, args ...any)) *Topics {
	if report == nil {
		report = func(string, ...any) {}
	}
	o = o.WithDefaults()
	return &Topics{fs: fs, dir: o.Dir, maxBatch: o.MaxBatch, report: report, state: catalog.New()}
}

// Load reads the catalog. The errors are [Err], those of package catalog, and
// what the filesystem and read say.
func (t *Topics) Load(read func(from int64, each func(b []byte) error) error) error {
	if err := t.loadSnapshots(); err != nil {
		return err
	}
	if err := read(t.state.Next(), t.apply); err != nil {
		return fmt.Errorf("catalog: %w", err)
	}
	t.dead = map[engine.TopicID]bool{}
	for _, z := range t.state.Tombstones() {
		t.dead[z.ID] = true
	}
	return nil
}

// loadSnapshots takes the newer of the two generations. Damaged ones are passed
// over: the log has everything, and what is missing in it does not apply.
func (t *Topics) loadSnapshots() error {
	for g := range snapshotNames {
		path := SnapshotPath(t.dir, g)
		data, err := aio.ReadFile(t.fs, path, catalog.MaxSnapshotBytes)
		if aio.IsNotExist(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("%w: %w", Err, err)
		}
		s, node, err := catalog.DecodeSnapshot(data)
		switch {
		case errors.Is(err, catalog.ErrUnsupported):
			return fmt.Errorf("%s: %w", path, err)
		case err != nil:
			t.report("%s: passed over: %v", path, err)
		case !t.found || s.Next() > t.state.Next():
			t.state, t.node, t.found, t.generation = s, node, true, 1-g
		}
	}
	return nil
}

// apply applies the commands of a batch that the state does not have.
func (t *Topics) apply(b []byte) error {
	h, err := batch.CheckStored(b)
	if err != nil {
		return err
	}
	if h.Attributes.Codec() != batch.CodecNone {
		return fmt.Errorf("%w: batch at offset %d is compressed", Err, h.BaseOffset)
	}
	it := h.Records(b[batch.HeaderSize:])
	for it.Next() {
		r := it.Record()
		if r.Offset < t.state.Next() {
			continue
		}
		if err := t.state.Apply(r.Offset, r.Value); err != nil {
			return err
		}
		t.replayed++
	}
	return it.Err()
}

// State is the catalog, after [Topics.Load].
func (t *Topics) State() *catalog.State { return t.state }

// Next is the offset of the next command, after [Topics.Load].
func (t *Topics) Next() int64 { return t.state.Next() }

// Topic says what the catalog knows of a topic.
func (t *Topics) Topic(id engine.TopicID) (recovery.TopicInfo, recovery.TopicStatus) {
	if topic := t.state.Image().ByID(id); topic != nil {
		return recovery.TopicInfo{Name: topic.Name, Config: PartitionConfig(&topic.Config, t.maxBatch)}, recovery.TopicLive
	}
	if t.dead[id] {
		return recovery.TopicInfo{}, recovery.TopicDeleted
	}
	return recovery.TopicInfo{}, recovery.TopicUnknown
}

// Partitions calls f for every partition of every topic.
func (t *Topics) Partitions(f func(k engine.Key)) {
	for _, topic := range t.state.Image().Topics() {
		for n := range topic.Partitions {
			f(engine.Key{Topic: topic.ID, Partition: uint32(n)})
		}
	}
}

// Fits checks that the catalog is that of the node and as long as its log.
func (t *Topics) Fits(rec *recovery.Recovered) error {
	if t.found && t.node != rec.Node.ID {
		return fmt.Errorf("%w: the snapshot is of node %x, expected %x", Err, t.node, rec.Node.ID)
	}
	end := int64(0)
	for _, states := range rec.Partitions {
		for _, st := range states {
			if st.Key.Topic == engine.CatalogTopic {
				end = st.NextOffset
			}
		}
	}
	if end != t.state.Next() {
		return fmt.Errorf("%w: its log ends at offset %d, expected %d", Err, end, t.state.Next())
	}
	return nil
}
