// Package verify reads a whole data directory and tells what in it is not what was
// written.
//
// It reads every checksum that there is: the node file, both generations of the
// checkpoints and of the catalog's snapshot, the anchors of the journals and every
// round from the head on with its chain, every record of the catalog's log, and of
// every segment all batches, the chain of their offsets, the regions and the entries of
// its index. It changes nothing, also where recovery would.
//
// # What is damage
//
// What a crash leaves is none: a torn tail of a journal, bytes of a segment behind what
// the newest checkpoint knows, which the journals have and the next start brings back,
// and an index that is not there yet. Everything else that does not check is. A torn
// anchor counts, because nobody can tell it from a rotten one.
//
// # Memory
//
// One checkpoint, one index and one window of a log or a journal are in memory at a
// time, and the partitions' records of the checkpoints. Findings are handed out as they
// come.
package verify

import (
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"time"

	"github.com/mqd-broker/mqd/broker/catalog"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/checkpoint"
	"github.com/mqd-broker/mqd/engine/layout"
)

// Errors of Run beside those of the filesystem.
var (
	// ErrInUse: a broker runs on the directory.
	ErrInUse = errors.New("a broker runs on it")
	// ErrNoDirectory: there is no data directory.
	ErrNoDirectory = errors.New("no data directory")
	// ErrUnknownTopic: no topic of that name is in the directory.
	ErrUnknownTopic = errors.New("no topic of this name")
)

// Options says what to verify.
type Options struct {
	// Dir is the data directory.
	Dir string
	// Topic is the name of the only topic whose segments are read, "" for all.
	// Everything else is read whatever it is.
	Topic string
	// Report is called for every finding.
	Report func(f *Finding)
	// Progress, if set, is called after every file with the bytes read so far and
	// those that there are.
	Progress func(done, total int64)
}

// Kind says what a finding is.
type Kind string

const (
	// Damage: bytes are not what was written, or are gone.
	Damage Kind = "damage"
	// Note: something that an operator may want to know and that is no damage.
	Note Kind = "note"
	// Unchecked: something could not be checked, and nothing is known of it.
	Unchecked Kind = "unchecked"
)

// Finding is one thing found. Numbers that mean nothing are -1.
type Finding struct {
	Kind      Kind   `json:"type"`
	File      string `json:"file,omitempty"` // below the data directory, "" for what a broker serves
	Topic     string `json:"topic,omitempty"`
	Partition int64  `json:"partition"`
	// Position and EndPosition are bytes in the file, the second one behind the end.
	Position    int64 `json:"position"`
	EndPosition int64 `json:"end_position"`
	// Offset and EndOffset are offsets of records, the second one behind the end.
	Offset    int64 `json:"offset"`
	EndOffset int64 `json:"end_offset"`
	// Known: the index of the segment knows of this damage, and fetches pass over it.
	Known  bool   `json:"known,omitempty"`
	Reason string `json:"reason"`
}

// Summary counts what has been read and found.
type Summary struct {
	Files       int    `json:"files"`
	Bytes       int64  `json:"bytes"` // of the files read
	Checkpoints int    `json:"checkpoints"`
	Snapshots   int    `json:"snapshots"` // of the catalog
	Commands    uint64 `json:"commands"`  // of the catalog's log
	Journals    int    `json:"journals"`
	Rounds      uint64 `json:"rounds"`
	Entries     uint64 `json:"entries"`
	Partitions  int    `json:"partitions"` // with a directory, or with messages by a checkpoint
	Segments    int    `json:"segments"`
	Indexes     int    `json:"indexes"`
	Unindexed   int    `json:"unindexed"` // full segments whose index has not been made yet
	Batches     uint64 `json:"batches"`
	Records     uint64 `json:"records"`
	// Pending are bytes in segments that no checkpoint knows of: the journals have
	// what counts of them.
	Pending   int64 `json:"pending_bytes"`
	Damages   int   `json:"damages"`
	Known     int   `json:"known_damages"` // of Damages
	Notes     int   `json:"notes"`
	Unchecked int   `json:"unchecked"`
}

// Count counts a finding.
func (s *Summary) Count(f *Finding) {
	switch f.Kind {
	case Damage:
		s.Damages++
		if f.Known {
			s.Known++
		}
	case Note:
		s.Notes++
	case Unchecked:
		s.Unchecked++
	}
}

// run is the state of a verification.
type run struct {
	d     aio.Driver
	fs    aio.FS
	o     Options
	sum   Summary
	total int64

	node     checkpoint.Node
	hasNode  bool
	shards   map[int]*shardState
	parts    map[layout.Key]*partState
	blind    bool // a checkpoint cannot be read: partitions may be unknown
	state    *catalog.State
	complete bool // state is that of the whole catalog
}

// shardState is the newest checkpoint of a shard; nil if none can be read.
type shardState struct {
	header checkpoint.Header
	slots  map[uint16]bool
	ok     bool
	lost   bool // a generation is damaged
}

// partState is the newest record of a partition.
type partState struct {
	rec  checkpoint.Partition
	own  bool // from the checkpoint of the slot's shard
	seen bool // its directory has been found
}

// Run verifies the data directory o.Dir on a driver on which no loop runs. It holds the
// locks of a broker meanwhile. The error says why it could not be done; damage is none.
func Run(d aio.Driver, o Options) (Summary, error) {
	r := &run{d: d, fs: d.FS(), o: o, shards: map[int]*shardState{}, parts: map[layout.Key]*partState{}, state: catalog.New()}
	release, err := r.lock()
	if err != nil {
		return r.sum, err
	}
	defer release()
	for _, step := range []func() error{r.measure, r.readNode, r.readCheckpoints, r.readCatalog, r.readJournals, r.readTopics} {
		if err := step(); err != nil {
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

// blank is a finding about a file in which no number means anything yet.
func (r *run) blank(kind Kind, path string) *Finding {
	return &Finding{Kind: kind, File: r.rel(path), Partition: -1, Position: -1, EndPosition: -1, Offset: -1, EndOffset: -1}
}

// tell hands out a finding about a whole file.
func (r *run) tell(kind Kind, path, form string, args ...any) {
	f := r.blank(kind, path)
	f.Reason = fmt.Sprintf(form, args...)
	r.report(f)
}

func (r *run) report(f *Finding) {
	r.sum.Count(f)
	if r.o.Report != nil {
		r.o.Report(f)
	}
}

// read counts a file that has been read.
func (r *run) read(bytes int64) {
	r.sum.Files++
	r.sum.Bytes += bytes
	if r.o.Progress != nil {
		r.o.Progress(r.sum.Bytes, max(r.total, r.sum.Bytes))
	}
}

// failed reports a file that cannot be read: damage if the device does not read it, or if it
// is none.
func (r *run) failed(path string, err error) {
	kind := Unchecked
	if aio.IsUnreadable(err) {
		kind = Damage
	}
	if errors.Is(err, syscall.EISDIR) {
		r.tell(Damage, path, "expected a file, found a directory")
		return
	}
	r.tell(kind, path, "cannot be read: %v", err)
}

// The kernel gives up the lock of a killed process a moment after its death.
const (
	lockWait  = 2 * time.Second
	lockPause = 20 * time.Millisecond
)

// lock takes the directory's lock and those of its journals, as far as there are any: a
// directory without has no broker. release gives them back.
func (r *run) lock() (release func(), err error) {
	var held []aio.FSFile
	release = func() {
		for _, f := range held {
			_ = f.Close() // nothing was written
		}
	}
	for _, where := range []struct {
		dir  string
		mine func(name string) bool
	}{
		{"", func(name string) bool { return name == layout.LockFile }},
		{layout.JournalsDir, func(name string) bool { return filepath.Ext(name) == layout.LockSuffix }},
	} {
		entries, err := r.fs.ReadDir(r.path(where.dir))
		if aio.IsNotExist(err) && where.dir != "" {
			continue
		}
		if err != nil {
			release()
			if !aio.IsNotExist(err) {
				return nil, fmt.Errorf("%s cannot be read: %w", r.o.Dir, err)
			}
			return nil, fmt.Errorf("%s: %w: it does not exist", r.o.Dir, ErrNoDirectory)
		}
		for _, e := range entries {
			if e.Dir || !where.mine(e.Name) {
				continue
			}
			var dir string
			if where.dir == "" {
				dir = r.o.Dir
			}
			f, err := r.hold(r.path(where.dir, e.Name), dir)
			if err != nil {
				release()
				return nil, err
			}
			if f != nil {
				held = append(held, f)
			}
		}
	}
	return release, nil
}

// hold takes one lock, and that of the directory dir if it is named, waiting a moment for a
// dying holder. On a filesystem that cannot be written nobody can hold it, and the result is
// nil.
func (r *run) hold(path, dir string) (aio.FSFile, error) {
	deadline := r.d.Clock().Now() + int64(lockWait)
	for {
		f, err := r.fs.Lock(path, dir)
		switch {
		case err == nil:
			return f, nil
		case readOnly(err):
			return nil, nil
		case !errors.Is(err, aio.ErrLocked):
			return nil, err
		case r.d.Clock().Now() >= deadline:
			return nil, fmt.Errorf("%s: %w: %w", r.o.Dir, ErrInUse, err)
		}
		if _, err := r.d.Poll(lockPause); err != nil {
			return nil, err
		}
	}
}
