// Package flight keeps the last seconds of what Go's scheduler, collector and threads
// have done, and writes that down when a loop has stood still, or a stage of a batch or a
// fetch has taken too long: a flight recorder.
//
// The runtime writes an execution trace into memory all the time. A snapshot of it is
// read with "go tool trace". There is one recorder in a process at most.
package flight

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/trace"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// lookEvery is how often it is looked whether something took too long. A window is
	// longer; more often would wake an idle process for nothing.
	lookEvery = 500 * time.Millisecond
	// fileGap is the least time from one file to the next.
	fileGap = time.Minute
	// stuck is how long a loop may be silent before its turn is taken for one that does
	// not end. Idle loops turn four times a second.
	stuck = time.Second
	// longer says how many times as long as Options.Bytes a snapshot may be, which the
	// runtime takes for a hint.
	longer = 4
	// Names of files.
	prefix, suffix = "mqd-", ".trace"
	stamp          = "20060102T150405.000Z"
)

var (
	// ErrBusy: another snapshot is being made.
	ErrBusy = errors.New("flight: another snapshot is being made")
	// ErrTooLong: a snapshot is much longer than was asked for.
	ErrTooLong = errors.New("flight: the snapshot is too long")
)

// Turns are what a broker tells of the turns of its loops.
type Turns struct {
	// Of is the node whose loops they are, nil if there is none.
	Of any
	// Long counts those that were too long since its start. Shard and Took are of a new
	// one of them.
	Long  uint64
	Shard int
	Took  time.Duration
	// Silent is how long ago the loop began its turn that did so longest ago, and
	// SilentShard its shard.
	Silent      time.Duration
	SilentShard int
	// Slow counts batches and fetches that were too long in a stage. SlowStage, SlowShard and
	// SlowTook are of a new one of them.
	Slow      uint64
	SlowStage string
	SlowShard int
	SlowTook  time.Duration
}

// pause is what a file is written for.
type pause struct {
	what  string // for the log
	stage string // "" for a turn of a loop
	shard int
	took  time.Duration
	more  string // "+" for one that goes on
}

// Options of a recorder.
type Options struct {
	// Window is how much time is kept, as far as it fits into Bytes.
	Window time.Duration
	Bytes  int64
	// Dir is where files are written when something took too long, "" for nowhere; it is
	// made if it is missing. Files is how many stay there, the newest.
	Dir   string
	Files int
	// Turns tells of the loops.
	Turns func() Turns
	// Log hears of files.
	Log *slog.Logger
}

// Recorder is a recorder that records.
type Recorder struct {
	opts Options
	rec  *trace.FlightRecorder

	busy sync.Mutex // while a snapshot is made
	end  chan struct{}
	done chan struct{}

	mu   sync.Mutex // for what follows
	of   any        // the node that was seen last
	long uint64     // its long turns that are known
	slow uint64     // its batches and fetches that are known to be slow
	last time.Time  // when the newest file was written
}

// Start begins to record. The error is that of the directory, or of a second recorder.
func Start(o Options) (*Recorder, error) {
	if o.Dir != "" {
		if err := os.MkdirAll(o.Dir, 0o700); err != nil {
			return nil, err
		}
	}
	r := &Recorder{opts: o, end: make(chan struct{}), done: make(chan struct{})}
	r.rec = trace.NewFlightRecorder(trace.FlightRecorderConfig{MinAge: o.Window, MaxBytes: uint64(o.Bytes)})
	if err := r.rec.Start(); err != nil {
		return nil, fmt.Errorf("flight: %w", err)
	}
	if o.Dir == "" {
		close(r.done) // nobody waits for files
	} else {
		go r.watch()
	}
	return r, nil
}

// Stop ends it.
func (r *Recorder) Stop() {
	close(r.end)
	<-r.done
	r.rec.Stop()
}

// Began notes that a node serves from now on: what its start took counts for nothing.
// Without it a node is known from the first look at it.
func (r *Recorder) Began() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.know(r.opts.Turns())
}

// know takes what a node tells for known.
func (r *Recorder) know(t Turns) { r.of, r.long, r.slow = t.Of, t.Long, t.Slow }

// Snapshot is the trace as it is now.
func (r *Recorder) Snapshot() ([]byte, error) {
	if !r.busy.TryLock() {
		return nil, ErrBusy
	}
	defer r.busy.Unlock()
	out := bounded{most: longer * r.opts.Bytes}
	if _, err := r.rec.WriteTo(&out); err != nil {
		return nil, err
	}
	return out.text.Bytes(), nil
}

// bounded takes up to some bytes.
type bounded struct {
	text bytes.Buffer
	most int64
}

func (b *bounded) Write(p []byte) (int, error) {
	if int64(b.text.Len()+len(p)) > b.most {
		return 0, fmt.Errorf("%w: more than %d bytes", ErrTooLong, b.most)
	}
	return b.text.Write(p)
}

// watch looks at the loops until the end.
func (r *Recorder) watch() {
	defer close(r.done)
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-r.end:
			return
		case now := <-tick.C:
			r.look(now)
		}
	}
}

// look writes a file if something has taken too long since the look before, or does not end.
// What a start took counts for nothing: a node is known from when it serves.
func (r *Recorder) look(now time.Time) {
	if r.opts.Dir == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.opts.Turns()
	if t.Of != r.of {
		r.know(t)
	}
	p, is := r.pause(&t)
	r.know(t)
	if !is || !r.last.IsZero() && now.Sub(r.last) < fileGap {
		return
	}
	r.last = now
	where := fmt.Sprintf("shard%d", p.shard)
	if p.stage != "" {
		where += "-" + p.stage
	}
	name := fmt.Sprintf("%s%s-%s-%v%s%s", prefix, now.UTC().Format(stamp), where, p.took.Round(time.Millisecond), p.more, suffix)
	path, n, err := r.write(name)
	about := []any{"shard", p.shard, "took", p.took}
	if p.stage != "" {
		about = append(about, "stage", p.stage)
	}
	if err != nil {
		r.opts.Log.Error(p.what+", and what went before it could not be written", append(about, "error", err)...)
		return
	}
	r.opts.Log.Warn(p.what+"; what went before it is in a file for go tool trace", append(about, "file", path, "bytes", n)...)
}

// pause is what there is to write down: a turn says most, and one of a stage may be its
// consequence.
func (r *Recorder) pause(t *Turns) (pause, bool) {
	const turn = "a turn was too long"
	switch {
	case t.Long > r.long:
		return pause{what: turn, shard: t.Shard, took: t.Took}, true
	case t.Of != nil && t.Silent > stuck:
		return pause{what: turn, shard: t.SilentShard, took: t.Silent, more: "+"}, true
	case t.Slow > r.slow:
		return pause{what: "a stage took too long", stage: t.SlowStage, shard: t.SlowShard, took: t.SlowTook}, true
	}
	return pause{}, false
}

// write writes a snapshot to a file, and removes the oldest ones.
func (r *Recorder) write(name string) (path string, n int, err error) {
	snapshot, err := r.Snapshot()
	if err != nil {
		return "", 0, err
	}
	path = filepath.Join(r.opts.Dir, name)
	part := path + ".part"
	if err := os.WriteFile(part, snapshot, 0o600); err != nil {
		return "", 0, errors.Join(err, os.Remove(part))
	}
	if err := os.Rename(part, path); err != nil {
		return "", 0, errors.Join(err, os.Remove(part))
	}
	return path, len(snapshot), r.trim()
}

// trim removes the oldest files beyond those that stay. Their names begin with their time.
func (r *Recorder) trim() error {
	all, err := os.ReadDir(r.opts.Dir)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(e os.DirEntry) bool {
		return !strings.HasPrefix(e.Name(), prefix) || !strings.HasSuffix(e.Name(), suffix)
	})
	for _, e := range all[:max(0, len(all)-r.opts.Files)] {
		err = errors.Join(err, os.Remove(filepath.Join(r.opts.Dir, e.Name())))
	}
	return err
}
