package sim_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
)

// writer is a world with a durable file of 64 KiB, open on a driver.
func writer(t *testing.T, o sim.Options) (*sim.World, *sim.Driver, aio.File) {
	t.Helper()
	w := sim.New(o)
	makeFile(t, w, "/f", 64<<10)
	d := w.Driver(aio.Options{})
	return w, d, open(t, d, "/f")
}

func TestCrashTearsAWriteInFlight(t *testing.T) {
	outcomes := map[string]int{}
	for seed := range uint64(80) {
		w, d, f := writer(t, sim.Options{Seed: seed})
		op := &aio.Op{Kind: aio.KindWrite, File: f, Buf: block(t, d, 4096, 7), Flags: aio.FlagDSYNC, Owner: &log{}}
		d.Submit(op)
		keep := sim.KeepRandom
		if seed%8 == 0 {
			keep = sim.KeepNone
		}
		w.Crash(keep)
		kept := bytes.Count(contentOf(t, w, "/f"), fill(7, 512))
		switch {
		case keep == sim.KeepNone && kept != 0:
			t.Fatal("a write in flight survived a crash that keeps nothing")
		case kept == 0:
			outcomes["none"]++
		case kept == 8:
			outcomes["whole"]++
		default:
			outcomes["torn"]++
		}
		if op.Err != nil || !op.InFlight() {
			t.Fatal("a write completed in a crash")
		}
	}
	if outcomes["torn"] < 20 || outcomes["none"] < 10 || outcomes["whole"] == 0 {
		t.Fatalf("crashes leave a write in flight %v", outcomes)
	}
}

func TestDSYNCFlushesEarlierWritesOnlyWithoutFUA(t *testing.T) {
	for mode, want := range map[sim.DSYNC]byte{sim.DSYNCOwnBytes: 0, sim.DSYNCFlushes: 1} {
		w, d, f := writer(t, sim.Options{Seed: 1, DSYNC: mode})
		must(t, aio.WriteAt(d, f, block(t, d, 4096, 1), 0, 0))
		must(t, aio.WriteAt(d, f, block(t, d, 4096, 2), 4096, aio.FlagDSYNC))
		w.Crash(sim.KeepNone)
		if got := contentOf(t, w, "/f"); got[0] != want || got[4096] != 2 {
			t.Fatalf("mode %d: the earlier write left %d, the write itself %d", mode, got[0], got[4096])
		}
	}
}

func TestFdatasyncCoversWhatHadCompletedBeforeItsSubmission(t *testing.T) {
	w, d, f := writer(t, sim.Options{Seed: 1})
	must(t, aio.WriteAt(d, f, block(t, d, 4096, 1), 0, 0))
	hold := w.Hold(sim.Filter{Ops: sim.Flushes})
	flush := &aio.Op{Kind: aio.KindFdatasync, File: f, Owner: &log{}}
	d.Submit(flush)
	must(t, aio.WriteAt(d, f, block(t, d, 4096, 2), 4096, 0))
	hold.Release()
	for flush.InFlight() {
		_, err := d.Poll(time.Second)
		must(t, err)
	}
	must(t, flush.Err)
	w.Crash(sim.KeepNone)
	if got := contentOf(t, w, "/f"); got[0] != 1 || got[4096] != 0 {
		t.Fatalf("a flush left %d of a write before it and %d of a write beside it", got[0], got[4096])
	}
}

func TestKillKeepsCompletedWritesAndAPowerCutThenLosesThem(t *testing.T) {
	w, d, f := writer(t, sim.Options{Seed: 1})
	must(t, aio.WriteAt(d, f, block(t, d, 4096, 1), 0, 0))
	w.Kill()
	if got := contentOf(t, w, "/f"); !bytes.Equal(got[:4096], fill(1, 4096)) {
		t.Fatal("the death of a process lost a completed write")
	}
	e := w.Driver(aio.Options{})
	g := open(t, e, "/f")
	must(t, aio.WriteAt(e, g, block(t, e, 4096, 2), 4096, aio.FlagDSYNC))
	w.Crash(sim.KeepNone)
	if got := contentOf(t, w, "/f"); got[0] != 0 || got[4096] != 2 {
		t.Fatalf("kill, write, power cut leave %d and %d", got[0], got[4096])
	}
}

func TestKillAppliesAWriteInFlightWhollyPartlyOrNot(t *testing.T) {
	outcomes := map[bool]int{}
	for seed := range uint64(40) {
		w, d, f := writer(t, sim.Options{Seed: seed})
		d.Submit(&aio.Op{Kind: aio.KindWrite, File: f, Buf: block(t, d, 4096, 7), Owner: &log{}})
		w.Kill()
		kept := bytes.Count(contentOf(t, w, "/f"), fill(7, 512))
		outcomes[kept > 0 && kept < 8]++
	}
	if outcomes[true] < 10 || outcomes[false] == 0 {
		t.Fatalf("torn or not: %v", outcomes)
	}
}

func TestCloseFinishesWritesInFlight(t *testing.T) {
	w, d, f := writer(t, sim.Options{Seed: 1})
	d.Submit(&aio.Op{Kind: aio.KindWrite, File: f, Buf: block(t, d, 4096, 7), Owner: &log{}})
	must(t, d.Close())
	if got := contentOf(t, w, "/f"); !bytes.Equal(got[:4096], fill(7, 4096)) {
		t.Fatal("a write in flight was lost by an orderly end")
	}
}

func TestIdentityTellsRebootsFromRestarts(t *testing.T) {
	w := sim.New(sim.Options{Seed: 1, Capacity: 1 << 20})
	info := func() aio.FSInfo {
		i, err := w.FS().Stat("/")
		must(t, err)
		return i
	}
	first := info()
	w.Kill()
	if again := info(); again != first {
		t.Fatalf("after the death of a process %+v, before %+v", again, first)
	}
	w.Crash(sim.KeepAll)
	after := info()
	if after.BootID == first.BootID || after.Mount == first.Mount || after.Device != first.Device {
		t.Fatalf("after a reboot %+v, before %+v", after, first)
	}
	if first.TotalBytes != 1<<20 || first.FreeBytes != 1<<20 {
		t.Fatalf("an empty disk of 1 MiB is %+v", first)
	}
}

func TestLocksAndHandlesEndWithTheProcess(t *testing.T) {
	for _, end := range []func(*sim.World){(*sim.World).Kill, func(w *sim.World) { w.Crash(sim.KeepAll) }} {
		w := sim.New(sim.Options{Seed: 1})
		d := w.Driver(aio.Options{})
		must(t, aio.DoFile(d, &aio.FileOp{Kind: aio.FileLock, Path: "/lock", Path2: "/"}))
		f, err := w.FS().Open("/g", aio.OpenWrite|aio.OpenCreate)
		must(t, err)
		if _, err := w.FS().Lock("/lock", ""); !errors.Is(err, aio.ErrLocked) {
			t.Fatalf("locking twice: %v", err)
		}
		end(w)
		if _, err := f.WriteAt([]byte("x"), 0); !errors.Is(err, aio.ErrClosed) {
			t.Fatalf("writing through a handle of an earlier life: %v", err)
		}
		e := w.Driver(aio.Options{})
		must(t, aio.DoFile(e, &aio.FileOp{Kind: aio.FileLock, Path: "/lock", Path2: "/"}))
	}
}

// TestAtomicWriteSurvivesACrashBetweenAnyTwoSteps crashes a helper after each of
// its filesystem calls.
func TestAtomicWriteSurvivesACrashBetweenAnyTwoSteps(t *testing.T) {
	for keep := sim.KeepNone; keep <= sim.KeepPrefix; keep++ {
		seen := map[string]int{}
		for steps, done := 0, false; !done; steps++ {
			w := sim.New(sim.Options{Seed: uint64(steps)})
			d := w.Driver(aio.Options{})
			must(t, aio.DoFile(d, &aio.FileOp{Kind: aio.FileWriteAtomic, Path: "/f", Data: []byte("old")}))
			o := &log{}
			d.SubmitFile(&aio.FileOp{Kind: aio.FileWriteAtomic, Path: "/f", Data: []byte("newer"), Owner: o})
			for range steps {
				w.Step()
			}
			_, err := d.Poll(0)
			must(t, err)
			done = o.files == 1
			w.Crash(keep)
			got := string(contentOf(t, w, "/f"))
			if got != "old" && got != "newer" || done && got != "newer" {
				t.Fatalf("keep %d, after %d steps (done: %v) the file holds %q", keep, steps, done, got)
			}
			seen[got]++
		}
		if seen["old"] < 5 || seen["newer"] < 1 {
			t.Fatalf("keep %d: the steps leave %v", keep, seen)
		}
	}
}

func TestJobOfADeadDriverChangesNothingMore(t *testing.T) {
	w := sim.New(sim.Options{Seed: 1})
	d := w.Driver(aio.Options{})
	j := &longJob{}
	d.SubmitJob(&aio.JobOp{Job: j, Owner: &log{}})
	for j.made < 3 {
		if !w.Step() {
			t.Fatal("the job stands still")
		}
	}
	made := j.made
	w.Kill()
	if !errors.Is(j.err, aio.ErrClosed) {
		t.Fatalf("the job ended with %v", j.err)
	}
	list, err := w.FS().ReadDir("/")
	must(t, err)
	// The step after the last that returned may have been taken or not.
	if len(list) < made || len(list) > made+1 || j.made != made {
		t.Fatalf("%d directories after a job that made %d, then %d", len(list), made, j.made)
	}
}

// longJob makes directories until it fails.
type longJob struct {
	made int
	err  error
}

func (j *longJob) Run(fs aio.FS) error {
	for ; j.err == nil; j.made++ {
		if j.err = fs.Mkdir("/" + string(rune('a'+j.made))); j.err != nil {
			break
		}
	}
	return j.err
}

func TestCrashEndsConnectionsAndClientsLiveOn(t *testing.T) {
	for _, end := range []func(*sim.World){(*sim.World).Kill, func(w *sim.World) { w.Crash(sim.KeepAll) }} {
		w := sim.New(sim.Options{Seed: 1})
		d, c := w.Driver(aio.Options{}), w.ClientDriver(aio.Options{})
		_, addr, err := d.Listen("127.0.0.1:9092", aio.ListenAlone)
		must(t, err)
		s, err := c.Dial(addr)
		must(t, err)
		recv := &aio.Op{Kind: aio.KindRecv, Sock: s, Owner: &log{}}
		c.Submit(recv)
		end(w)
		for recv.InFlight() {
			_, err := c.Poll(time.Second)
			must(t, err)
		}
		if recv.Err == nil {
			t.Fatal("a connection to a dead machine ended without an error")
		}
		if _, err := c.Dial(addr); err == nil {
			t.Fatal("dialled a dead machine")
		}
		e := w.Driver(aio.Options{})
		_, _, err = e.Listen("127.0.0.1:9092", aio.ListenAlone)
		must(t, err)
		_, err = c.Dial(addr)
		must(t, err)
	}
}
