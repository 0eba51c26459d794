package recovery

import (
	"errors"
	"fmt"
	"path/filepath"
	"sort"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/audit"
	"github.com/mqd-broker/mqd/engine/checkpoint"
	"github.com/mqd-broker/mqd/engine/journal"
	"github.com/mqd-broker/mqd/engine/layout"
	"github.com/mqd-broker/mqd/engine/producers"
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
	// Next is the offset of the next record of the catalog's log. Load has been called. It
	// is above the log's end where the journal is lost that had more than a snapshot needs.
	Next() int64
	// Topic says what the catalog knows of a topic. Load has been called.
	Topic(id layout.TopicID) (TopicInfo, TopicStatus)
	// Partitions calls f for every partition of every topic that exists, except
	// the catalog's, in a fixed order. Load has been called.
	Partitions(f func(k layout.Key))
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
	Topics  Topics
	// Keep is the memory, in bytes, for what is read of the journals and has to be
	// looked at twice; what has no room is read twice. Default 128 MiB.
	Keep int64
	// Known is the node file of the newest start, of a process that has served the
	// directory before; nil if it has not. Another directory, or an older copy of it, is
	// then refused, and so is a missing one.
	Known *checkpoint.Node
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
	// Audit are the logs of which it is not known yet whether a segment is missing
	// between others; see audit.Auditor.
	Audit []audit.Log
	// Deleted are directories of deleted topics whose removal was interrupted.
	Deleted []string
	Stats   Stats
	lock    aio.File
}

// Stats says what recovery did.
type Stats struct {
	Journals, Rounds, Entries int
	Replayed                  int   // batches written to segments
	ReplayedBytes             int64 // their bytes
	Skipped                   int   // batches that the segments had already
	TornTails                 int   // journals with a torn tail
	Damaged                   int   // rounds or bodies damaged below the newest flushed mark
	Losses                    int   // ranges of offsets that were durable and are lost, or may be
	Gaps                      int   // gaps recorded for classes memory and written
	Orphans                   int   // files set aside
	BallastReleased           bool  // the ballast file has been removed, to have room
	Spent                     Spent
}

// Spent says what the time of a recovery went into, in nanoseconds.
type Spent struct {
	State       int64 // lock, node file and checkpoints
	Journals    int64 // reading the journals the first time
	Replay      int64 // bringing to the segments what they have not
	Flush       int64 // making that durable
	Checkpoints int64 // writing checkpoints, removing what is left of other shards
}

// Recover makes a data directory whole: it reads every checkpoint and journal,
// brings what the journals have and the segments have not to the segments, makes
// everything durable, and writes checkpoints for the present number of shards. It
// blocks, on a driver on which no loop runs. It can be interrupted at any point
// and run again. Nothing may be served before it has returned and every shard
// has opened its journal with OpenJournal.
func Recover(d aio.Driver, opts Options) (*Recovered, error) {
	r := &recovery{
		d: d, fs: d.FS(), opts: opts, parts: map[layout.Key]*replayed{},
		producers: producers.New(maxProducers, producers.DefaultExpiry),
	}
	if r.opts.Slots == 0 {
		r.opts.Slots = checkpoint.DefaultSlots
	}
	if r.opts.Keep == 0 {
		r.opts.Keep = defaultKeep
	}
	if r.opts.Report == nil {
		r.opts.Report = func(string, ...any) {}
	}
	spent, now := &r.out.Stats.Spent, d.Clock().Now()
	for _, part := range []struct {
		steps []func() error
		spent *int64
	}{
		{[]func() error{r.recognize, r.lockDir, r.makeRoom, r.readNode, r.readCheckpoints, r.restoreProducers}, &spent.State},
		{[]func() error{r.scanJournals, r.agree}, &spent.Journals},
		{[]func() error{r.replayCatalog, r.listRest, r.saveNode, r.keepTails, r.replayRest, r.findLosses, r.flushAll}, &spent.Replay},
		{[]func() error{r.makeDurable, r.closeGaps}, &spent.Flush},
		{[]func() error{r.writeCheckpoints, r.removeStale}, &spent.Checkpoints},
	} {
		for _, step := range part.steps {
			if err := step(); err != nil {
				if r.locked {
					_ = aio.CloseFile(d, r.out.lock)
				}
				return nil, err
			}
		}
		began := now
		now = d.Clock().Now()
		*part.spent = now - began
	}
	return &r.out, nil
}

// recovery is the state of a run of Recover.
type recovery struct {
	d         aio.Driver
	fs        aio.FS
	opts      Options
	out       Recovered
	locked    bool
	writer    writer
	scanner   *journal.Scanner
	slab      slab
	kept      int64 // memory for what is kept of journals, bytes
	journals  []*journalFile
	ckpts     map[int]*shardCheckpoint
	parts     map[layout.Key]*replayed
	forsaken  []int            // shards whose journals are lost, which was accepted
	producers *producers.Table // of all partitions
	pending   int64            // bytes that wait in parts
	strange   []layout.TopicID // of which the catalog has lost what it knew
	openFiles int              // those of partitions and complete ones
	complete  []aio.File       // segments that have got their last byte, open
	short     bool             // the disk may have too little room
	clean     bool             // every checkpoint is of an orderly end
	unlost    bool             // the machine has been up since, and no journal ends torn: written data is there
}

// replayBudget is how many bytes wait before they are written.
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
	if r.out.lock, err = lock(r.d, r.path(layout.LockFile), r.opts.Dir); err != nil {
		return fmt.Errorf("%w: %w", layout.ErrBadDataDir, err)
	}
	r.locked = true
	r.fs.Spread(r.path(layout.TopicsDir))
	stat := aio.FileOp{Kind: aio.FileStatFS, Path: r.opts.Dir}
	if err := aio.DoFile(r.d, &stat); err != nil {
		return fmt.Errorf("%w: %w", layout.ErrBadDataDir, err)
	}
	r.out.Identity = stat.FS
	if err = r.writer.open(r.d); err != nil {
		return err
	}
	r.scanner, err = journal.NewScanner(r.d)
	return err
}

// recognize refuses a directory that is not the one that was served before: a filesystem
// that is not mounted, say, leaves an empty one, which would be taken for a new node's.
func (r *recovery) recognize() error {
	known := r.opts.Known
	if known == nil {
		return nil
	}
	n, err := checkpoint.LoadNode(r.fs, r.opts.Dir)
	switch {
	case errors.Is(err, checkpoint.ErrNone):
		return fmt.Errorf("%w: what was served from %s is not there (is its filesystem mounted?): %w", layout.ErrBadDataDir, r.opts.Dir, err)
	case err != nil:
		return fmt.Errorf("%w: %w", layout.ErrBadDataDir, err)
	case n.ID != known.ID:
		return fmt.Errorf("%w: %s is of node %x, expected %x, which was served from there", layout.ErrBadDataDir, r.opts.Dir, n.ID, known.ID)
	case n.Term() < known.Term():
		return fmt.Errorf("%w: %s has seen start %d, expected %d or a later one: it is an older copy of what was served from there", layout.ErrBadDataDir, r.opts.Dir, n.Term(), known.Term())
	}
	return nil
}

// readNode reads the node file, or begins one for an empty directory, and counts this
// start, which gives the term.
func (r *recovery) readNode() error {
	n, err := checkpoint.LoadNode(r.fs, r.opts.Dir)
	switch {
	case errors.Is(err, checkpoint.ErrNone):
		if err := r.mustBeEmpty(); err != nil {
			return err
		}
		n = checkpoint.Node{Slots: uint16(r.opts.Slots), Created: r.d.Clock().Wall()}
		for i := range n.ID {
			n.ID[i] = byte(r.d.Rand())
		}
	case err != nil:
		return fmt.Errorf("%w: %w", layout.ErrBadDataDir, err)
	}
	if err := n.Start(uint16(r.opts.Shards)); err != nil {
		return fmt.Errorf("%s: %w", r.path(checkpoint.NodeFile), err)
	}
	r.out.Node, r.out.Term = n, n.Term()
	r.out.Slots = layout.Assignment(int(n.Slots), r.opts.Shards)
	return nil
}

// saveNode writes the node file, before anything that is of this start's term: with that,
// no other start has the same. A full disk has room for it only when the partitions'
// files have given back what they were allocated in advance.
func (r *recovery) saveNode() error { return checkpoint.SaveNode(r.fs, r.opts.Dir, &r.out.Node) }

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
