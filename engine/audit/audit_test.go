package audit

import (
	"fmt"
	"path"
	"slices"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
	"github.com/mqd-broker/mqd/engine/segment"
)

const dir = "/p"

// rig is a directory of sealed segments on a simulated machine, one record and one offset
// each.
type rig struct {
	t    *testing.T
	w    *sim.World
	d    *sim.Driver
	log  Log
	said []string
}

func newRig(t *testing.T, segments int) *rig {
	t.Helper()
	w := sim.New(sim.Options{Seed: 1})
	r := &rig{t: t, w: w, d: w.Driver(aio.Options{ArenaBytes: 1 << 20, RecvBuffers: 2})}
	r.log = Log{Name: "t", Topic: [16]byte{1}, Partition: 7, Dir: dir}
	if err := w.FS().Mkdir(dir); err != nil {
		t.Fatal(err)
	}
	for base := range int64(segments) {
		r.seal(base)
	}
	return r
}

// seal makes the segment of one offset.
func (r *rig) seal(base int64) {
	r.t.Helper()
	bb := batch.NewBuilder(nil, batch.MaxSize)
	if err := bb.Append(&batch.Record{Value: []byte("v")}); err != nil {
		r.t.Fatal(err)
	}
	b := bb.Finish(batch.CodecNone)
	batch.Stamp(b, base, 1)
	id := segment.ID{Topic: r.log.Topic, Partition: r.log.Partition, Base: base}
	f, err := r.w.FS().Open(path.Join(dir, id.LogName()), aio.OpenWrite|aio.OpenCreate)
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := f.WriteAt(b, 0); err != nil {
		r.t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		r.t.Fatal(err)
	}
	job := segment.RebuildJob{
		Log:  segment.Log{Dir: dir, ID: id, Interval: segment.DefaultIndexInterval},
		Form: segment.FormSealed,
	}
	if err := job.Run(r.w.FS()); err != nil {
		r.t.Fatal(err)
	}
	r.log.Segments = append(r.log.Segments, segment.File{Base: base, LogBytes: int64(len(b))})
}

// lose takes segments away as if they had never been there.
func (r *rig) lose(bases ...int64) {
	r.log.Segments = slices.DeleteFunc(slices.Clone(r.log.Segments), func(f segment.File) bool { return slices.Contains(bases, f.Base) })
}

func (r *rig) auditor(logs ...Log) *Auditor {
	return New(r.d, logs, func(f string, args ...any) { r.said = append(r.said, fmt.Sprintf(f, args...)) })
}

// turn lets the driver work.
func (r *rig) turn() {
	r.t.Helper()
	if _, err := r.d.Poll(time.Millisecond); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) run(a *Auditor) {
	r.t.Helper()
	a.Begin()
	for range 1000 {
		if a.Done() {
			return
		}
		r.turn()
	}
	r.t.Fatal("the audit does not end")
}

func (r *rig) mustSay(want ...string) {
	r.t.Helper()
	for i, span := range want {
		want[i] = "LOSS DETECTED: topic t partition 7: no segment for offsets " + span
	}
	if !slices.Equal(r.said, want) {
		r.t.Fatalf("reported %q, expected %q", r.said, want)
	}
}

func TestMissingSegmentsAreReportedOnce(t *testing.T) {
	r := newRig(t, 3*pieceSegments)
	// At the borders of pieces and within one.
	r.lose(5, pieceSegments, pieceSegments+1, 2*pieceSegments+1)
	a := r.auditor(r.log)
	r.run(a)
	r.mustSay("5 to 5", fmt.Sprintf("%d to %d", pieceSegments, pieceSegments+1), fmt.Sprintf("%d to %d", 2*pieceSegments+1, 2*pieceSegments+1))
	if a.Losses() != 3 {
		t.Fatalf("counted %d losses", a.Losses())
	}
}

func TestEveryLogIsLookedAt(t *testing.T) {
	r := newRig(t, 4)
	whole := r.log
	r.lose(2)
	r.run(r.auditor(whole, r.log, whole, r.log))
	r.mustSay("2 to 2", "2 to 2")
}

// gaps are recorded ones.
type gaps map[int64]int64

func (g gaps) AllowsGap(from, to int64) bool { return g[from] == to }
func (gaps) EpochAt(int64) (int32, bool)     { return 0, false }

func TestARecordedGapIsNoLoss(t *testing.T) {
	r := newRig(t, 6)
	r.lose(1, 4)
	r.log.Chain = gaps{1: 2}
	r.run(r.auditor(r.log))
	r.mustSay("4 to 4")
}

func TestWithoutIndexesNothingIsClaimed(t *testing.T) {
	r := newRig(t, 6)
	r.lose(2)
	id := segment.ID{Base: 1}
	if err := r.w.FS().Remove(path.Join(dir, id.IndexName())); err != nil {
		t.Fatal(err)
	}
	r.run(r.auditor(r.log))
	r.mustSay()
	// The index of the missing segment shows where that began; an empty one was made
	// ahead and shows nothing.
	r.log.Indexes = []segment.File{{Base: 2}}
	r.run(r.auditor(r.log))
	r.mustSay()
	r.log.Indexes = []segment.File{{Base: 2, IndexBytes: 5000}}
	r.run(r.auditor(r.log))
	r.mustSay("2 to 2")
}

func TestAnAuditThatIsStoppedOpensNothingMore(t *testing.T) {
	r := newRig(t, 3*pieceSegments)
	opens := r.w.Inject(sim.Fault{Filter: sim.Filter{Ops: sim.Opens, Path: "*.index"}, Times: sim.Always, Skip: 1 << 30})
	a := r.auditor(r.log)
	a.Begin()
	for opens.Seen() == 0 {
		r.turn()
	}
	a.Stop()
	if a.Resting() {
		t.Fatal("at rest in the middle of a piece")
	}
	for range 1000 {
		r.turn()
	}
	if n := opens.Seen(); n > pieceSegments || a.Done() || !a.Resting() {
		t.Fatalf("%d indexes opened, done %v, resting %v", n, a.Done(), a.Resting())
	}
}
