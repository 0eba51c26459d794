package recovery

import (
	"fmt"
	"path/filepath"
	"sort"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/checkpoint"
	"github.com/mqd-broker/mqd/engine/journal"
	"github.com/mqd-broker/mqd/engine/layout"
)

// TopicStatus says what the catalog knows of a topic id.
type TopicStatus uint8

const (
	// TopicUnknown: the catalog has never heard of it.
	TopicUnknown TopicStatus = iota
	// TopicLive: the topic exists.
	TopicLive
	// TopicDeleted: the topic has been deleted; its tombstone is kept.
	TopicDeleted
)

// TopicInfo is what recovery needs to know of a topic.
type TopicInfo struct {
	Name   string
	Config layout.PartitionConfig
}

// Topics is the catalog as recovery sees it.
type Topics interface {
	// Load is called when the catalog's log is whole. read calls each with the
	// record batches of the log from the one that contains offset from on.
	Load(read func(from int64, each func(b []byte) error) error) error
	// Topic says what the catalog knows of a topic. Load has been called.
	Topic(id layout.TopicID) (TopicInfo, TopicStatus)
}

// Options says what to recover and for how many shards.
type Options struct {
	Dir    string
	Shards int
	// Slots is the number of slots of a new data directory. Default
	// checkpoint.DefaultSlots.
	Slots int
	// Catalog is the configuration of the catalog's partition.
	Catalog layout.PartitionConfig
	// MaxBatch bounds a batch in a log, in bytes.
	MaxBatch int
	Topics   Topics
	// Report tells an operator, in one line, of what was found and done.
	Report func(format string, args ...any)
}

// Recovered is the state with which the shards begin.
type Recovered struct {
	Node     checkpoint.Node
	Term     uint32
	Slots    []uint16 // slot to shard
	Identity aio.FSInfo
	// Partitions are the states of all partitions that have ever been
	// checkpointed or written, by shard.
	Partitions [][]*PartitionState
	// Journals are the results of reading the journals, by shard; nil where
	// there is none yet.
	Journals []*journal.Result
	// Sequence is the sequence number of the newest checkpoint, by shard.
	Sequence []uint64
	Stats    Stats
	lock     aio.File
}

// Stats says what recovery did.
type Stats struct {
	Journals, Rounds, Entries int
	Replayed                  int   // batches written to segments
	ReplayedBytes             int64 // their bytes
	Skipped                   int   // batches that the segments had already
	TornTails                 int   // journals with a torn tail
	Damaged                   int   // rounds or bodies damaged below the newest flushed mark
	Gaps                      int   // gaps recorded for classes memory and written
	Orphans                   int   // files set aside
}

// Recover makes a data directory whole: it reads every checkpoint and journal,
// brings what the journals have and the segments have not to the segments, makes
// everything durable, and writes checkpoints for the present number of shards. It
// blocks, on a driver on which no loop runs. It can be interrupted at any point
// and run again. Nothing may be served before it has returned and every shard
// has opened its journal with OpenJournal.
func Recover(d aio.Driver, opts Options) (*Recovered, error) {
	r := &recovery{d: d, fs: d.FS(), opts: opts, parts: map[layout.Key]*replayed{}}
	if r.opts.Slots == 0 {
		r.opts.Slots = checkpoint.DefaultSlots
	}
	if r.opts.Report == nil {
		r.opts.Report = func(string, ...any) {}
	}
	steps := []func() error{
		r.lockDir, r.readNode, r.readCheckpoints, r.scanJournals,
		r.replayCatalog, r.replayRest, r.makeDurable, r.closeGaps,
		r.writeCheckpoints, r.removeStale,
	}
	for _, step := range steps {
		if err := step(); err != nil {
			if r.locked {
				_ = aio.CloseFile(d, r.out.lock)
			}
			return nil, err
		}
	}
	return &r.out, nil
}

// recovery is the state of a run of Recover.
type recovery struct {
	d        aio.Driver
	fs       aio.FS
	opts     Options
	out      Recovered
	locked   bool
	buf      []byte // aligned memory for whole blocks
	scanner  *journal.Scanner
	journals []*journalFile
	ckpts    []*checkpoint.Snapshot
	parts    map[layout.Key]*replayed
	pending  int64 // bytes that wait in parts
	clean    bool  // every checkpoint is of an orderly end
	unlost   bool  // the machine has been up since: written data is there
	shards   int   // highest shard number seen in the directory plus one
}

// replayBufferBytes is the memory through which segments are written.
const replayBufferBytes = 1 << 20

// replayBudget is how many bytes wait before they are written, in bytes.
const replayBudget = 64 << 20

func (r *recovery) path(name string) string { return filepath.Join(r.opts.Dir, name) }

// lockDir makes the directories and takes the lock.
func (r *recovery) lockDir() error {
	for _, dir := range []string{"", layout.CheckpointsDir, layout.JournalsDir, layout.TopicsDir} {
		if err := aio.DoFile(r.d, &aio.FileOp{Kind: aio.FileMkdirAll, Path: r.path(dir)}); err != nil {
			return fmt.Errorf("%w: %w", layout.ErrBadDataDir, err)
		}
	}
	var err error
	if r.out.lock, err = lock(r.d, r.path(layout.LockFile)); err != nil {
		return fmt.Errorf("%w: %w", layout.ErrBadDataDir, err)
	}
	r.locked = true
	stat := aio.FileOp{Kind: aio.FileStatFS, Path: r.opts.Dir}
	if err := aio.DoFile(r.d, &stat); err != nil {
		return fmt.Errorf("%w: %w", layout.ErrBadDataDir, err)
	}
	r.out.Identity = stat.FS
	if r.buf, err = r.d.Alloc(replayBufferBytes); err != nil {
		return err
	}
	r.scanner, err = journal.NewScanner(r.d)
	return err
}

// maxNodeBytes bounds the node file.
const maxNodeBytes = 64 << 10

// readNode reads the node file, or makes one in an empty directory, and counts
// this start, which gives the term.
func (r *recovery) readNode() error {
	path := r.path(checkpoint.NodeFile)
	data, err := aio.ReadFile(r.fs, path, maxNodeBytes)
	switch {
	case aio.IsNotExist(err):
		if err := r.mustBeEmpty(); err != nil {
			return err
		}
		r.out.Node = checkpoint.Node{Slots: uint16(r.opts.Slots), Created: r.d.Clock().Wall()}
		for i := range r.out.Node.ID {
			r.out.Node.ID[i] = byte(r.d.Rand())
		}
	case err != nil:
		return fmt.Errorf("%w: %w", layout.ErrBadDataDir, err)
	default:
		if r.out.Node, err = checkpoint.DecodeNode(data); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	n := &r.out.Node
	if err := n.Start(uint16(r.opts.Shards)); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	r.out.Term = n.Term()
	r.out.Slots = layout.Assignment(int(n.Slots), r.opts.Shards)
	return aio.WriteFileAtomic(r.fs, path, checkpoint.AppendNode(nil, n))
}

// mustBeEmpty refuses a directory that has journals or checkpoints and no node
// file: it is damaged, and starting afresh would hide what it holds.
func (r *recovery) mustBeEmpty() error {
	for _, dir := range []string{layout.CheckpointsDir, layout.JournalsDir, layout.TopicsDir} {
		entries, err := r.fs.ReadDir(r.path(dir))
		if err != nil {
			return err
		}
		for _, e := range entries {
			if !aio.IsTemp(e.Name) {
				return fmt.Errorf("%w: %s holds %s/%s but no %s", layout.ErrBadDataDir, r.opts.Dir, dir, e.Name, checkpoint.NodeFile)
			}
		}
	}
	return nil
}

// maxCheckpointBytes bounds a checkpoint file.
const maxCheckpointBytes = 1 << 30

// readCheckpoints reads the newest checkpoint of every shard there has been, and
// takes each partition's newest record.
func (r *recovery) readCheckpoints() error {
	entries, err := r.fs.ReadDir(r.path(layout.CheckpointsDir))
	if err != nil {
		return err
	}
	newest := map[int]*checkpoint.Snapshot{}
	damaged := map[int]error{}
	for _, e := range entries {
		shard, ok := layout.ParseCheckpointName(e.Name)
		if !ok {
			continue
		}
		data, err := aio.ReadFile(r.fs, filepath.Join(r.path(layout.CheckpointsDir), e.Name), maxCheckpointBytes)
		if err != nil {
			return err
		}
		snap, err := checkpoint.Decode(data)
		if err != nil {
			damaged[shard] = fmt.Errorf("%s: %w", e.Name, err)
			continue
		}
		if old := newest[shard]; old == nil || snap.Header.Sequence > old.Header.Sequence {
			newest[shard] = snap
		}
	}
	for shard, err := range damaged {
		if newest[shard] == nil {
			return fmt.Errorf("%w: no generation of the checkpoint is whole: %w", layout.ErrBadDataDir, err)
		}
		r.opts.Report("checkpoint of shard %d: one generation damaged, the other is used: %v", shard, err)
	}
	r.clean, r.unlost = true, true
	r.out.Sequence = make([]uint64, r.opts.Shards)
	for shard, snap := range newest {
		r.useCheckpoint(shard, snap)
	}
	return nil
}

func (r *recovery) useCheckpoint(shard int, snap *checkpoint.Snapshot) {
	h := &snap.Header
	r.ckpts = append(r.ckpts, snap)
	r.shards = max(r.shards, shard+1)
	if shard < r.opts.Shards {
		r.out.Sequence[shard] = h.Sequence
	}
	r.clean = r.clean && h.Flags&checkpoint.FlagClean != 0
	id := &r.out.Identity
	r.unlost = r.unlost && h.Boot == id.BootID && h.Mount == id.Mount && h.Device == id.Device
	for i := range snap.Partitions {
		rec := &snap.Partitions[i]
		k := layout.Key{Topic: rec.Topic, Partition: rec.Partition}
		if old := r.parts[k]; old == nil || rec.Term > old.rec.Term {
			r.parts[k] = newReplayed(k, rec)
		}
	}
}

// closeGaps gives partitions that may have served what is lost a new place above
// everything they can have served.
func (r *recovery) closeGaps() error {
	for _, p := range r.sorted() {
		class := layout.Class(p.rec.Class)
		lost := class == layout.ClassMemory || (class == layout.ClassWritten && !r.unlost)
		if r.clean || !lost || p.rec.Reserved <= p.next {
			continue
		}
		p.rec.Epochs.BeginAfterGap(int32(r.out.Term), p.next, p.rec.Reserved, checkpoint.ReasonCrash)
		r.opts.Report("topic %s partition %d (class %s): offsets %d to %d may have been served and are lost; recorded as a gap",
			p.info.Name, p.key.Partition, class, p.next, p.rec.Reserved-1)
		p.next = p.rec.Reserved
		r.out.Stats.Gaps++
	}
	return nil
}

// sorted are the partitions in a fixed order, so that every run does the same.
func (r *recovery) sorted() []*replayed {
	all := make([]*replayed, 0, len(r.parts))
	for _, p := range r.parts {
		all = append(all, p)
	}
	sort.Slice(all, func(i, j int) bool {
		a, b := all[i].key, all[j].key
		if a.Topic != b.Topic {
			return string(a.Topic[:]) < string(b.Topic[:])
		}
		return a.Partition < b.Partition
	})
	return all
}
