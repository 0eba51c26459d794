package ballast

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
	"github.com/mqd-broker/mqd/engine/shard"
)

const testDir = "/data"

// rig is a loop whose only work is a keeper.
type rig struct {
	t    *testing.T
	w    *sim.World
	loop *shard.Loop
	b    *Ballast
	k    *Keeper
	told []string
}

func (r *rig) BallastMade(size int64) { r.told = append(r.told, fmt.Sprintf("made %d", size)) }

func (r *rig) BallastMissing(_ int64, err error) {
	r.told = append(r.told, fmt.Sprintf("missing %v", errors.Is(err, syscall.ENOSPC)))
}

func (r *rig) BallastUnable(error) { r.told = append(r.told, "unable") }

const testTotal = 100 << 20

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, w: sim.New(sim.Options{Seed: 1, Capacity: testTotal})}
	if err := errors.Join(r.w.FS().Mkdir(testDir), r.w.FS().SyncDir("/")); err != nil {
		t.Fatal(err)
	}
	r.loop = shard.New(r.w.Driver(aio.Options{}), shard.Options{})
	r.loop.SetWorker(r)
	r.b, r.k = New(r.loop, testDir, testTotal, 2, r)
	return r
}

func (r *rig) Drain(int64) int      { r.k.Turn(); return 0 }
func (r *rig) Finish(int64)         {}
func (r *rig) SpinHint(int64) int64 { return 0 }

// run lets time pass.
func (r *rig) run(d time.Duration) {
	r.t.Helper()
	for end := r.w.Now() + int64(d); r.w.Now() < end; {
		if err := r.loop.Step(); err != nil {
			r.t.Fatal(err)
		}
	}
}

// is fails unless the file has size bytes, -1 for none, the ballast counts as missing or
// not, and this was told since it was last asked.
func (r *rig) is(size int64, missing bool, told ...string) {
	r.t.Helper()
	entries, err := r.w.FS().ReadDir(testDir)
	if err != nil {
		r.t.Fatal(err)
	}
	found := int64(-1)
	for _, e := range entries {
		if e.Name == Name {
			found = e.Size
		}
	}
	if found != size || r.b.Missing() != missing || fmt.Sprint(r.told) != fmt.Sprint(told) {
		r.t.Fatalf("file of %d bytes, missing %v, told %q; expected %d, %v, %q", found, r.b.Missing(), r.told, size, missing, told)
	}
	r.told = nil
}

// used is what is taken of the disk, in bytes.
func (r *rig) used() int64 {
	info, err := r.w.FS().Stat(testDir)
	if err != nil {
		r.t.Fatal(err)
	}
	return info.TotalBytes - info.FreeBytes
}

func (r *rig) capacity(bytes int64) {
	r.t.Helper()
	if err := r.w.SetCapacity(testDir, bytes); err != nil {
		r.t.Fatal(err)
	}
}

func TestTheBallastIsAFiftiethOfTheDiskAndNoMoreThan64MiB(t *testing.T) {
	for total, want := range map[int64]int64{0: 4096, 64 << 20: 1339392, 3200 << 20: 64 << 20, 1 << 50: 64 << 20} {
		if got := Size(total); got != want {
			t.Errorf("of %d bytes: %d, expected %d", total, got, want)
		}
	}
}

func TestTheBallastGoesWhenItIsWantedAndComesBackWhenThereIsRoom(t *testing.T) {
	r := newRig(t)
	before := r.used()
	r.k.Begin(false)
	r.run(time.Second)
	size := Size(testTotal)
	r.is(size, false)
	if got := r.used() - before; got != size {
		t.Fatalf("%d bytes are taken, the file has %d", got, size)
	}
	r.capacity(r.used())
	r.b.Release()
	r.b.Release()
	r.run(10 * time.Millisecond)
	r.is(-1, true, "missing false")
	r.capacity(r.used() + size - 1)
	r.run(5 * time.Second)
	r.is(-1, true)
	r.capacity(r.used() + size)
	r.run(2 * time.Second)
	r.is(size, false, fmt.Sprintf("made %d", size))
	r.w.Crash(sim.KeepNone)
	entries, err := r.w.FS().ReadDir(testDir)
	if err != nil || len(entries) != 1 || entries[0].Size != size {
		t.Fatalf("after a power cut: %v, %v", entries, err)
	}
}

// A file that was half made when the process died is made whole, and one that finds no
// space on the way takes none.
func TestAHalfBallastIsNone(t *testing.T) {
	r := newRig(t)
	f, err := r.w.FS().Open(testDir+"/"+Name, aio.OpenWrite|aio.OpenCreate)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Allocate(0, 8192), f.Close()); err != nil {
		t.Fatal(err)
	}
	r.capacity(r.used())
	r.k.Begin(false)
	r.run(10 * time.Millisecond)
	r.is(-1, true, "missing true")
	r.capacity(testTotal)
	r.run(2 * time.Second)
	r.is(Size(testTotal), false, fmt.Sprintf("made %d", Size(testTotal)))
}

// A keeper that is stopped finishes what it is at and begins nothing more, so that its
// driver can be closed once it rests.
func TestAKeeperThatIsStoppedComesToRest(t *testing.T) {
	r := newRig(t)
	r.k.Begin(false)
	if r.k.Resting() {
		t.Fatal("a keeper that looks for its file is not at rest")
	}
	r.k.Stop()
	r.run(time.Second)
	r.is(Size(testTotal), false)
	r.b.Release()
	r.run(5 * time.Second)
	r.is(Size(testTotal), false)
	if n := r.loop.Driver().InFlight(); n != 0 || !r.k.Resting() {
		t.Fatalf("%d operations in flight, resting %v", n, r.k.Resting())
	}

	full := newRig(t)
	full.capacity(full.used())
	full.k.Begin(false)
	full.k.Stop()
	full.run(time.Millisecond)
	full.capacity(testTotal)
	full.run(5 * time.Second)
	full.is(-1, true, "missing false")
	if !full.k.Resting() {
		t.Fatal("a keeper that is stopped has tried again")
	}
}

// Where a filesystem cannot reserve space the broker serves without a ballast.
func TestABallastThatCannotBeMadeHoldsNobodyUp(t *testing.T) {
	r := newRig(t)
	i := r.w.Inject(sim.Fault{Filter: sim.Filter{Ops: sim.Allocates}, Err: syscall.EOPNOTSUPP, Times: sim.Always})
	r.k.Begin(false)
	r.run(5 * time.Second)
	r.is(-1, false, "unable")
	i.End()
	r.run(2 * time.Minute)
	r.is(Size(testTotal), false, fmt.Sprintf("made %d", Size(testTotal)))
}

func TestNoMoreWaitsOnAFullDiskThanAStartFindsRoomFor(t *testing.T) {
	r := newRig(t)
	limit := Size(testTotal) / unsavedShare / 2
	if r.b.Spent(limit-1) || !r.b.Spent(limit) {
		t.Fatalf("the limit of a shard is not %d bytes", limit)
	}
	var none *Ballast
	none.Release()
	if none.Spent(1<<40) || none.Missing() {
		t.Fatal("without a ballast there is a limit")
	}
}

func TestAStartTakesTheBallastOnlyIfItMayNeedIt(t *testing.T) {
	if Short(startBytes+1000, 1000) || !Short(startBytes+999, 1000) {
		t.Fatal("a start needs what the journals have and a little more")
	}
	r := newRig(t)
	fs := r.w.FS()
	if gone, err := Remove(fs, testDir); gone || err != nil {
		t.Fatalf("without a ballast: %v, %v", gone, err)
	}
	r.k.Begin(false)
	r.run(time.Second)
	r.is(Size(testTotal), false)
	before := r.used()
	if gone, err := Remove(fs, testDir); !gone || err != nil || r.used() != before-Size(testTotal) {
		t.Fatalf("%v, %v, %d bytes are taken, %d were", gone, err, r.used(), before)
	}
	r.is(-1, false)
}
