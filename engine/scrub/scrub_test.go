package scrub

import (
	"path"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
	"github.com/mqd-broker/mqd/engine/segment"
	"github.com/mqd-broker/mqd/engine/shard"
)

const (
	dir = "/p"
	// logBatches and valueBytes make a segment of about 4 MiB, some pieces.
	logBatches = 64
	valueBytes = 64 << 10
)

// rig is a shard's loop on a simulated machine in virtual time, with sealed segments in
// a directory and a source that has them.
type rig struct {
	t    *testing.T
	w    *sim.World
	loop *shard.Loop
	s    *Scrubber

	parts    [][]int64 // bases of the segments of each partition
	sizes    map[segment.ID]int64
	busy     bool
	made     []segment.ID // indexes
	passes   int
	passedAt []int64
	found    []Finding
	failed   []error
}

func newRig(t *testing.T, o Options, parts ...int) *rig {
	t.Helper()
	w := sim.New(sim.Options{Seed: 1})
	d := w.Driver(aio.Options{ArenaBytes: 1 << 20, RecvBuffers: 2})
	r := &rig{t: t, w: w, loop: shard.New(d, shard.Options{Idle: shard.IdleBlock}), sizes: map[segment.ID]int64{}}
	r.loop.SetWorker(r)
	if err := w.FS().Mkdir(dir); err != nil {
		t.Fatal(err)
	}
	for p, segments := range parts {
		r.parts = append(r.parts, nil)
		for i := range segments {
			r.seal(uint32(p), int64(i*logBatches))
		}
	}
	if o.Interval == 0 {
		o.Interval = time.Second
	}
	o.Busy, o.Events = func() bool { return r.busy }, r
	r.s = New(r.loop, r, o)
	return r
}

func partDir(p uint32) string { return path.Join(dir, segment.PartitionDir(p)) }

// seal makes a segment of batches of one record each, and its index.
func (r *rig) seal(p uint32, base int64) {
	r.t.Helper()
	id := segment.ID{Topic: [16]byte{1}, Partition: p, Base: base}
	r.write(id)
	job := segment.RebuildJob{Log: r.log(id), Form: segment.FormSealed}
	if err := job.Run(r.w.FS()); err != nil {
		r.t.Fatal(err)
	}
	r.parts[p] = append(r.parts[p], base)
}

// write writes the log of a segment to a file that was not there.
func (r *rig) write(id segment.ID) {
	r.t.Helper()
	if err := r.w.FS().Mkdir(partDir(id.Partition)); err != nil {
		r.t.Fatal(err)
	}
	var log []byte
	for i := range int64(logBatches) {
		bb := batch.NewBuilder(nil, batch.MaxSize)
		if err := bb.Append(&batch.Record{Value: make([]byte, valueBytes)}); err != nil {
			r.t.Fatal(err)
		}
		b := bb.Finish(batch.CodecNone)
		batch.Stamp(b, id.Base+i, 1)
		log = append(log, b...)
	}
	f, err := r.w.FS().Open(r.file(id), aio.OpenWrite|aio.OpenCreate)
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := f.WriteAt(log, 0); err != nil {
		r.t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		r.t.Fatal(err)
	}
	r.sizes[id] = int64(len(log))
}

func (r *rig) log(id segment.ID) segment.Log {
	return segment.Log{Dir: partDir(id.Partition), ID: id, Interval: segment.DefaultIndexInterval, EndOffset: id.Base + logBatches}
}

func (r *rig) file(id segment.ID) string { return path.Join(partDir(id.Partition), id.LogName()) }

func id(p uint32, base int64) segment.ID {
	return segment.ID{Topic: [16]byte{1}, Partition: p, Base: base}
}

// The source.

func (r *rig) Count() int { return len(r.parts) }

func (r *rig) Sealed(i int, base int64) (segment.Log, int64, bool) {
	for _, b := range r.parts[i] {
		if b >= base {
			at := id(uint32(i), b)
			return r.log(at), r.sizes[at], true
		}
	}
	return segment.Log{}, 0, false
}

func (r *rig) Has(log *segment.Log) bool {
	return slices.Contains(r.parts[log.ID.Partition], log.ID.Base)
}

func (r *rig) MakeIndex(id segment.ID, done IndexOwner) bool {
	r.made = append(r.made, id)
	m := &making{done: done, job: segment.RebuildJob{Log: r.log(id), Form: segment.FormSealed}}
	m.op = aio.JobOp{Job: &m.job, Owner: m}
	r.loop.Driver().SubmitJob(&m.op)
	return true
}

type making struct {
	job  segment.RebuildJob
	op   aio.JobOp
	done IndexOwner
}

func (m *making) CompleteJob(op *aio.JobOp) { m.done.IndexLoaded(op.Err) }

// The events.

func (r *rig) ScrubDamage(f *Finding) { r.found = append(r.found, *f) }

func (r *rig) ScrubUnable(_ segment.ID, _ string, err error) { r.failed = append(r.failed, err) }

func (r *rig) ScrubPassed(int, *Stats) {
	r.passes++
	r.passedAt = append(r.passedAt, r.w.Now())
}

// The worker of the loop.

func (r *rig) Drain(int64) int      { return 0 }
func (r *rig) Finish(int64)         {}
func (r *rig) SpinHint(int64) int64 { return 0 }

func (r *rig) turn() {
	r.t.Helper()
	if err := r.loop.Step(); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) until(what string, done func() bool) {
	r.t.Helper()
	for range 100_000 {
		if done() {
			return
		}
		r.turn()
	}
	r.t.Fatalf("%s does not happen", what)
}

// pass lets n passes come to their end.
func (r *rig) pass(n int) {
	r.t.Helper()
	r.until("a pass", func() bool { return r.passes >= n })
}

func (r *rig) corrupt(id segment.ID, at int64) {
	r.t.Helper()
	if err := r.w.Corrupt(r.file(id), at, 0x10); err != nil {
		r.t.Fatal(err)
	}
}

const quick = 1 << 30

func TestEverythingIsReadInAPass(t *testing.T) {
	r := newRig(t, Options{Rate: quick}, 2, 0, 1)
	r.s.Begin()
	r.pass(1)
	st := r.s.Stats()
	all := int64(0)
	for _, n := range r.sizes {
		all += n
	}
	if st.Segments.Load() != 3 || st.Batches.Load() != 3*logBatches || int64(st.Bytes.Load()) < all {
		t.Fatalf("%d segments, %d batches, %d bytes of %d", st.Segments.Load(), st.Batches.Load(), st.Bytes.Load(), all)
	}
	if len(r.found)+len(r.failed)+len(r.made) > 0 || st.Damaged.Load() != 0 {
		t.Fatalf("found %v, failed %v, made %v where nothing is wrong", r.found, r.failed, r.made)
	}
}

func TestADamagedBatchIsFoundInAPassAndToldOnce(t *testing.T) {
	r := newRig(t, Options{Rate: quick}, 2, 2)
	hurt := id(1, logBatches)
	r.corrupt(hurt, r.sizes[hurt]/2)
	before := r.content(hurt)
	r.s.Begin()
	r.pass(3)
	if len(r.found) != 1 || r.s.Stats().Damaged.Load() != 1 {
		t.Fatalf("found %+v, counted %d", r.found, r.s.Stats().Damaged.Load())
	}
	f := r.found[0]
	if f.ID != hurt || f.Range.FromOffset < hurt.Base || f.Range.ToOffset != f.Range.FromOffset+1 {
		t.Fatalf("found %+v", f)
	}
	if !slices.Equal(before, r.content(hurt)) || len(r.made) > 0 {
		t.Fatal("the log or its index was changed")
	}
}

func (r *rig) content(id segment.ID) []byte {
	r.t.Helper()
	b, err := aio.ReadFile(r.w.FS(), r.file(id), 1<<30)
	if err != nil {
		r.t.Fatal(err)
	}
	return b
}

func TestWhatAnIndexAloneShowsIsFound(t *testing.T) {
	r := newRig(t, Options{Rate: quick}, 1)
	// The epoch of a batch is covered by no checksum of its own.
	r.corrupt(id(0, 0), batch.AtLeaderEpoch+3)
	r.s.Begin()
	r.pass(1)
	if len(r.found) != 1 || r.found[0].Range.Check != segment.CheckRegion {
		t.Fatalf("found %+v", r.found)
	}
}

func TestTheRateIsNotExceeded(t *testing.T) {
	const rate = 2 << 20
	r := newRig(t, Options{Rate: rate}, 3)
	r.s.Begin()
	start := r.w.Now()
	for r.passes == 0 {
		r.turn()
		// Never more than the rate allows, and the piece that is under way.
		took := r.w.Now() - start
		if read, most := int64(r.s.Stats().Bytes.Load()), took*rate/int64(time.Second)+2*pieceBytes; read > most {
			t.Fatalf("%d bytes after %v, expected at most %d", read, time.Duration(took), most)
		}
	}
}

func TestAPassDoesNotBeginBeforeItsTime(t *testing.T) {
	const interval = time.Hour
	r := newRig(t, Options{Rate: quick, Interval: interval}, 1)
	r.s.Begin()
	r.pass(3)
	for i := 1; i < 3; i++ {
		if took := r.passedAt[i] - r.passedAt[i-1]; took < int64(interval)-int64(time.Second) {
			t.Errorf("pass %d ended %v after the one before", i, time.Duration(took))
		}
	}
}

func TestABusyShardComesFirstButNotForEver(t *testing.T) {
	r := newRig(t, Options{Rate: quick}, 1)
	r.busy = true
	r.s.Begin()
	r.until("waiting", func() bool { return r.s.Stats().Yields.Load() == maxYields/2 })
	if n := r.s.Stats().Bytes.Load(); n != 0 {
		t.Fatalf("%d bytes read while the shard was busy", n)
	}
	r.pass(1)
	if r.s.Stats().Segments.Load() != 1 {
		t.Fatal("a shard that is always busy is never scrubbed")
	}
}

// inTheMiddle lets the scrubber read some of a segment.
func (r *rig) inTheMiddle() {
	r.t.Helper()
	r.s.Begin()
	r.until("the first pieces", func() bool { return r.s.Stats().Bytes.Load() >= 2*pieceBytes && r.s.Resting() })
	if r.s.Stats().Segments.Load() != 0 {
		r.t.Fatal("the segment is too small for this test")
	}
}

func TestASegmentThatIsDeletedMeanwhileIsPassedOver(t *testing.T) {
	r := newRig(t, Options{Rate: quick}, 1)
	r.corrupt(id(0, 0), 100)
	r.inTheMiddle()
	if err := r.w.FS().Remove(r.file(id(0, 0))); err != nil {
		t.Fatal(err)
	}
	r.parts[0] = nil
	r.pass(1)
	if len(r.found)+len(r.failed)+len(r.made) > 0 {
		t.Fatalf("found %v, failed %v, made %v", r.found, r.failed, r.made)
	}
}

func TestWhatTheStoreHasNoMoreIsNotJudged(t *testing.T) {
	r := newRig(t, Options{Rate: quick}, 1)
	r.corrupt(id(0, 0), 100)
	r.inTheMiddle()
	r.parts[0] = nil // and its files are still there
	r.pass(1)
	if len(r.found)+len(r.failed)+len(r.made) > 0 || r.s.Stats().Segments.Load() > 0 {
		t.Fatalf("found %v, failed %v, made %v", r.found, r.failed, r.made)
	}
}

func TestASegmentWhoseFileIsGoneBeforeTheStoreKnowsIsPassedOver(t *testing.T) {
	r := newRig(t, Options{Rate: quick}, 2)
	r.inTheMiddle()
	for _, base := range r.parts[0] {
		if err := r.w.FS().Remove(r.file(id(0, base))); err != nil {
			t.Fatal(err)
		}
	}
	r.pass(1)
	if len(r.found)+len(r.failed)+len(r.made) > 0 || r.s.Stats().Changed.Load() != 2 {
		t.Fatalf("found %v, failed %v, made %v, changed %d", r.found, r.failed, r.made, r.s.Stats().Changed.Load())
	}
}

func TestASegmentThatIsReplacedMeanwhileIsNoDamage(t *testing.T) {
	r := newRig(t, Options{Rate: quick}, 1)
	at := id(0, 0)
	r.corrupt(at, 100)
	r.inTheMiddle()
	if err := r.w.FS().Remove(r.file(at)); err != nil {
		t.Fatal(err)
	}
	r.write(at)
	r.pass(1)
	if len(r.found) > 0 {
		t.Fatalf("found %v in what has been replaced", r.found)
	}
}

func TestASegmentThatShrinksMeanwhileIsPassedOver(t *testing.T) {
	r := newRig(t, Options{Rate: quick}, 1)
	r.inTheMiddle()
	f, err := r.w.FS().Open(r.file(id(0, 0)), aio.OpenWrite)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(pieceBytes); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	r.until("the next piece", func() bool { return r.s.Stats().Changed.Load() == 1 })
	if len(r.found) > 0 {
		t.Fatalf("found %v", r.found)
	}
}

func TestAScrubberThatIsStoppedReadsNothingMore(t *testing.T) {
	r := newRig(t, Options{Rate: quick}, 2)
	opens := r.w.Inject(sim.Fault{Filter: sim.Filter{Ops: sim.Opens, Path: "*.log"}, Times: sim.Always, Skip: 1 << 30})
	r.inTheMiddle()
	r.until("a piece", func() bool { return !r.s.Resting() })
	seen := opens.Seen()
	r.s.Stop()
	for range 1000 {
		r.turn()
	}
	if n := opens.Seen(); n > seen+1 || !r.s.Resting() || r.loop.Driver().InFlight() != 0 {
		t.Fatalf("%d logs opened after the stop, resting %v, %d in flight", n-seen, r.s.Resting(), r.loop.Driver().InFlight())
	}
}

func TestAnIndexThatCannotBeUsedIsMadeAgain(t *testing.T) {
	for name, spoil := range map[string]func(r *rig, file string) error{
		"gone":    func(r *rig, file string) error { return r.w.FS().Remove(file) },
		"damaged": func(r *rig, file string) error { return r.w.Corrupt(file, 5000, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Options{Rate: quick}, 2)
			at := id(0, logBatches)
			if err := spoil(r, path.Join(partDir(0), at.IndexName())); err != nil {
				t.Fatal(err)
			}
			r.s.Begin()
			r.pass(2)
			if !slices.Equal(r.made, []segment.ID{at}) || r.s.Stats().Indexes.Load() != 1 || len(r.found)+len(r.failed) > 0 {
				t.Fatalf("made %v, found %v, failed %v", r.made, r.found, r.failed)
			}
		})
	}
}

func TestADeviceThatDoesNotReadIsTold(t *testing.T) {
	r := newRig(t, Options{Rate: quick}, 1)
	r.w.Inject(sim.Fault{Filter: sim.Filter{Ops: sim.Reads, Path: "*.log"}, Times: sim.Always, Err: syscall.EIO})
	r.s.Begin()
	r.pass(1)
	if len(r.failed) != 1 || len(r.found) != 0 || r.s.Stats().Errors.Load() != 1 {
		t.Fatalf("failed %v, found %v", r.failed, r.found)
	}
}
