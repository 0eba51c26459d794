package salvage

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/checkpoint"
	"github.com/mqd-broker/mqd/engine/layout"
	"github.com/mqd-broker/mqd/engine/segment"
)

// Errors of Run beside those of the filesystem.
var (
	// ErrInUse: a broker runs on the directory.
	ErrInUse = errors.New("a broker runs on it")
	// ErrNoDirectory: there is no data directory.
	ErrNoDirectory = errors.New("no data directory")
	// ErrUnknownTopic: no topic of that name is in the directory.
	ErrUnknownTopic = errors.New("no topic of this name")
	// ErrUnknownPartition: the directory has nothing of a partition of that number of the
	// topic.
	ErrUnknownPartition = errors.New("no partition of this number")
	// ErrNotWhole: what a salvage has to rely on is itself damaged.
	ErrNotWhole = errors.New("not whole")
)

// AllPartitions stands for the number of a partition.
const AllPartitions = -1

// Options says what to salvage.
type Options struct {
	// Dir is the data directory.
	Dir string
	// Topic is the name of the only topic that is looked at, "" for all, and Partition
	// its only partition, or AllPartitions.
	Topic     string
	Partition int64
	// Accept has the losses accepted. Without it nothing is changed.
	Accept bool
	// Report is called for everything found and done.
	Report func(n *Note)
}

// Kind says what a note is about.
type Kind string

const (
	// Lost: offsets that cannot be read, and are given up.
	Lost Kind = "lost"
	// Rewrite: a log that is replaced by a copy without its damage.
	Rewrite Kind = "rewrite"
	// Journal: a journal that is lost, or, of a partition, the offsets that only that
	// journal can have had. EndOffset is where the partition goes on.
	Journal Kind = "journal"
	// Left: something that is not salvaged, and why.
	Left Kind = "left"
)

// Note is one thing found. Numbers that mean nothing are -1.
type Note struct {
	Kind      Kind   `json:"type"`
	File      string `json:"file,omitempty"` // below the data directory
	Topic     string `json:"topic,omitempty"`
	Partition int64  `json:"partition"`
	// Offset and EndOffset are offsets of records, the second one behind the end.
	Offset    int64 `json:"offset"`
	EndOffset int64 `json:"end_offset"`
	// Bytes are those of the log up to the end of its batches, Cut how many of them go.
	Bytes  int64  `json:"bytes"`
	Cut    int64  `json:"cut_bytes"`
	Reason string `json:"reason"`
}

// Summary counts what has been found.
type Summary struct {
	Partitions int   `json:"partitions"` // with a directory, or with messages by a checkpoint
	Segments   int   `json:"segments"`
	Losses     int   `json:"losses"`       // ranges of offsets
	Offsets    int64 `json:"lost_offsets"` // in them
	Rewrites   int   `json:"rewrites"`     // logs
	Journals   int   `json:"journals"`     // that are lost
	Left       int   `json:"left"`         // that could not be salvaged
	Accepted   bool  `json:"accepted"`
}

// run is the state of a salvage.
type run struct {
	d      aio.Driver
	fs     aio.FS
	o      Options
	sum    Summary
	node   checkpoint.Node
	shards []*shardState
	clean  bool // every checkpoint is of an orderly end
	// unknown is what the journals have of partitions that no checkpoint names: the
	// journal, by placeOf.
	unknown map[string]string
}

// shardState is the newest checkpoint of a shard and what is to be changed in it.
type shardState struct {
	shard   uint16
	snap    *checkpoint.Snapshot
	parts   []*part
	changed bool // the checkpoint
	forsake bool // the journal is lost, and the next start is to do without it
}

// part is a partition whose newest record a shard has.
type part struct {
	rec   *checkpoint.Partition
	name  string // as its topic's directory shows it
	dir   string
	logs  []damagedLog
	stale []damagedLog // whole ones whose indexes are those of their damaged forms
	stray []string     // indexes whose logs are gone
	fresh bool         // the log goes on in a segment of its own
}

// damagedLog is a log that is to be replaced.
type damagedLog struct {
	id        segment.ID
	size      int64 // of the file
	end       int64 // of its batches
	endOffset int64
	damage    []segment.Range
	unread    int
}

// Run looks for what cannot be read in the data directory o.Dir, on a driver on which no
// loop runs, and gives it up if o.Accept is set. It holds the locks of a broker meanwhile.
func Run(d aio.Driver, o Options) (Summary, error) {
	r := &run{d: d, fs: d.FS(), o: o, clean: true, unknown: map[string]string{}}
	r.sum.Accepted = o.Accept
	release, err := r.lock()
	if err != nil {
		return r.sum, err
	}
	defer release()
	for _, step := range []func() error{r.readCheckpoints, r.readJournals, r.look} {
		if err := step(); err != nil {
			return r.sum, err
		}
	}
	if !o.Accept {
		return r.sum, nil
	}
	for _, s := range r.shards {
		if err := r.accept(s); err != nil {
			return r.sum, err
		}
	}
	return r.sum, nil
}

func (r *run) path(name ...string) string {
	return filepath.Join(append([]string{r.o.Dir}, name...)...)
}

// rel is a path below the data directory.
func (r *run) rel(path string) string {
	if rel, err := filepath.Rel(r.o.Dir, path); err == nil {
		return rel
	}
	return path
}

// readCheckpoints reads the newest checkpoint of every shard, and keeps the newest record
// of each partition.
func (r *run) readCheckpoints() error {
	var err error
	if r.node, err = checkpoint.LoadNode(r.fs, r.o.Dir); err != nil {
		return fmt.Errorf("%w: %w", ErrNotWhole, err)
	}
	dir := r.path(layout.CheckpointsDir)
	entries, err := r.fs.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		shard, ok := checkpoint.ParseFileName(e.Name)
		if !ok || slices.ContainsFunc(r.shards, func(s *shardState) bool { return s.shard == shard }) {
			continue
		}
		c, err := checkpoint.Load(r.fs, dir, checkpoint.Identity{Node: r.node.ID, Shard: shard})
		if err == nil && c.Lost != nil { // it may have been the newer one, and what it says is needed
			err = fmt.Errorf("%w; a start of the broker makes it anew from the other generation", c.Lost)
		}
		if err != nil {
			return fmt.Errorf("%w: checkpoint of shard %d: %w", ErrNotWhole, shard, err)
		}
		r.shards = append(r.shards, &shardState{shard: shard, snap: c.Snapshot})
		r.clean = r.clean && c.Flags&checkpoint.FlagClean != 0
	}
	if len(r.shards) == 0 {
		return fmt.Errorf("%w: there is no checkpoint, and a broker has made one before it served", ErrNotWhole)
	}
	r.newest()
	return nil
}

// newest gives every partition to the shard that has its newest record. Of one term there
// may be two, and the checkpoint of the slot's own shard knows more.
func (r *run) newest() {
	type owner struct {
		s   *shardState
		rec *checkpoint.Partition
		own bool
	}
	of := map[layout.Key]owner{}
	var order []layout.Key
	for _, s := range r.shards {
		for i := range s.snap.Partitions {
			rec := &s.snap.Partitions[i]
			k := layout.Key{Topic: rec.Topic, Partition: rec.Partition}
			own := slices.ContainsFunc(s.snap.Slots, func(at checkpoint.Slot) bool { return at.Slot == rec.Slot })
			old, known := of[k]
			if !known {
				order = append(order, k)
			}
			if !known || rec.Term > old.rec.Term || rec.Term == old.rec.Term && own {
				of[k] = owner{s, rec, own}
			}
		}
	}
	for _, k := range order {
		o := of[k]
		o.s.parts = append(o.s.parts, &part{rec: o.rec})
	}
}

func (r *run) note(n *Note) {
	switch n.Kind {
	case Lost:
		r.sum.Losses++
		r.sum.Offsets += n.EndOffset - n.Offset
	case Rewrite:
		r.sum.Rewrites++
	case Journal:
		if n.Partition < 0 {
			r.sum.Journals++
		}
	case Left:
		r.sum.Left++
	}
	if r.o.Report != nil {
		r.o.Report(n)
	}
}

// about is a note about a partition in which no number means anything yet.
func (r *run) about(kind Kind, p *part) *Note {
	return &Note{Kind: kind, Topic: p.name, Partition: int64(p.rec.Partition), Offset: -1, EndOffset: -1, Bytes: -1, Cut: -1}
}

// The kernel gives up the lock of a killed process a moment after its death.
const (
	lockWait  = 2 * time.Second
	lockPause = 20 * time.Millisecond
)

// lock takes the locks of a broker: that of the directory and those of its journals.
func (r *run) lock() (release func(), err error) {
	var held []aio.FSFile
	release = func() {
		for _, f := range held {
			_ = f.Close() // nothing was written
		}
	}
	paths := []string{r.path(layout.LockFile)}
	if _, err := r.fs.ReadDir(r.path(layout.CheckpointsDir)); err != nil {
		if !aio.IsNotExist(err) {
			return nil, fmt.Errorf("%s cannot be read: %w", r.o.Dir, err)
		}
		if _, err := r.fs.ReadDir(r.o.Dir); aio.IsNotExist(err) {
			return nil, fmt.Errorf("%s: %w: it does not exist", r.o.Dir, ErrNoDirectory)
		}
		return nil, fmt.Errorf("%s: %w: it has no directory %s", r.o.Dir, ErrNoDirectory, layout.CheckpointsDir)
	}
	entries, err := r.fs.ReadDir(r.path(layout.JournalsDir))
	if err != nil && !aio.IsNotExist(err) {
		return nil, err
	}
	for _, e := range entries {
		if filepath.Ext(e.Name) == layout.LockSuffix {
			paths = append(paths, r.path(layout.JournalsDir, e.Name))
		}
	}
	for _, path := range paths {
		var dir string
		if path == paths[0] {
			dir = r.o.Dir
		}
		f, err := r.hold(path, dir)
		if err != nil {
			release()
			return nil, err
		}
		held = append(held, f)
	}
	return release, nil
}

// hold takes one lock, and that of the directory dir if it is named, waiting a moment for a
// dying holder.
func (r *run) hold(path, dir string) (aio.FSFile, error) {
	deadline := r.d.Clock().Now() + int64(lockWait)
	for {
		f, err := r.fs.Lock(path, dir)
		if !errors.Is(err, aio.ErrLocked) {
			return f, err
		}
		if r.d.Clock().Now() >= deadline {
			return nil, fmt.Errorf("%s: %w: %w", r.o.Dir, ErrInUse, err)
		}
		if _, err := r.d.Poll(lockPause); err != nil {
			return nil, err
		}
	}
}
