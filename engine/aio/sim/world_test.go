package sim_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
	"github.com/mqd-broker/mqd/internal/invariant"
)

// block returns memory of d filled with v.
func block(t *testing.T, d aio.Driver, n int, v byte) []byte {
	t.Helper()
	b, err := d.Alloc(n)
	must(t, err)
	for i := range b {
		b[i] = v
	}
	return b
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// makeFile creates path with size bytes of zeros, durable in content and name.
func makeFile(t *testing.T, w *sim.World, path string, size int64) {
	t.Helper()
	f, err := w.FS().Open(path, aio.OpenWrite|aio.OpenCreate)
	must(t, err)
	must(t, f.Allocate(0, size))
	must(t, f.Sync())
	must(t, f.Close())
	must(t, w.FS().SyncDir("/"))
}

func contentOf(t *testing.T, w *sim.World, path string) []byte {
	t.Helper()
	b, err := aio.ReadFile(w.FS(), path, 1<<30)
	must(t, err)
	return b
}

func open(t *testing.T, d aio.Driver, path string) aio.File {
	t.Helper()
	f, _, err := aio.OpenFile(d, path, aio.OpenWrite|aio.OpenDirect)
	must(t, err)
	return f
}

// log is an owner that keeps completions in their order.
type log struct {
	ops   []*aio.Op
	files int
	jobs  int
}

func (l *log) Complete(op *aio.Op)       { l.ops = append(l.ops, op) }
func (l *log) CompleteFile(*aio.FileOp)  { l.files++ }
func (l *log) CompleteJob(op *aio.JobOp) { l.jobs++ }

// violates reports the invariant that f breaks.
func violates(t *testing.T, f func()) string {
	t.Helper()
	name := ""
	func() {
		defer func() {
			if v, ok := recover().(invariant.Violation); ok {
				name = v.Name
			}
		}()
		f()
	}()
	if name == "" {
		t.Fatal("no invariant was violated")
	}
	return name
}

func fill(v byte, n int) []byte { return bytes.Repeat([]byte{v}, n) }

// workload is some of everything on two drivers; it returns the trace.
func workload(t *testing.T, seed uint64) uint64 {
	w := sim.New(sim.Options{Seed: seed})
	makeFile(t, w, "/f", 1<<20)
	a, b := w.Driver(aio.Options{}), w.ClientDriver(aio.Options{})
	f := open(t, a, "/f")
	l, addr, err := a.Listen("127.0.0.1:0", aio.ListenAlone)
	must(t, err)
	o := &log{}
	accept := &aio.Op{Kind: aio.KindAccept, Sock: l, Owner: o}
	a.Submit(accept)
	s, err := b.Dial(addr)
	must(t, err)
	for len(o.ops) == 0 {
		_, err := a.Poll(time.Second)
		must(t, err)
	}
	recv := &aio.Op{Kind: aio.KindRecv, Sock: accept.NewSock, Owner: o}
	a.Submit(recv)
	buf := block(t, a, 4096, 1)
	msg := block(t, b, 10_000, 2)
	for i := range 20 {
		b.Submit(&aio.Op{Kind: aio.KindSend, Sock: s, Vec: [][]byte{msg}, Owner: o})
		for j := range 8 {
			a.Submit(&aio.Op{Kind: aio.KindWrite, File: f, Buf: buf, Off: int64(i*8+j) * 4096, Owner: o})
		}
		a.SubmitFile(&aio.FileOp{Kind: aio.FileWriteAtomic, Path: fmt.Sprintf("/%d", i), Data: fill(3, 100), Owner: o})
		for range 30 {
			for _, d := range []*sim.Driver{a, b} {
				_, err := d.Poll(time.Millisecond)
				must(t, err)
			}
		}
	}
	w.Crash(sim.KeepRandom)
	return w.TraceHash() ^ uint64(len(contentOf(t, w, "/f")))
}

func TestSeedNamesOneRun(t *testing.T) {
	traces := map[uint64]uint64{}
	for seed := range uint64(5) {
		first, again := workload(t, seed), workload(t, seed)
		if first != again {
			t.Fatalf("seed %d has the traces %x and %x", seed, first, again)
		}
		traces[first] = seed
	}
	if len(traces) != 5 {
		t.Fatalf("5 seeds have %d traces", len(traces))
	}
}

func TestVirtualTimeStopsWhereAnotherDriverHasWork(t *testing.T) {
	w := sim.New(sim.Options{Seed: 3})
	makeFile(t, w, "/f", 4096)
	a, b := w.Driver(aio.Options{}), w.Driver(aio.Options{})
	f := open(t, b, "/f")
	hold := w.Hold(sim.Filter{Ops: sim.Reads})
	b.Submit(&aio.Op{Kind: aio.KindRead, File: f, Buf: block(t, b, 4096, 0), Owner: &log{}})
	for range 100 { // b is idle for long
		_, err := a.Poll(time.Microsecond)
		must(t, err)
	}
	hold.Release()
	n, err := a.Poll(time.Hour)
	must(t, err)
	if late := w.Now(); n != 0 || late > int64(time.Second) {
		t.Fatalf("%d completions; the clock ran to %v past another driver's completion", n, time.Duration(late))
	}
	n, err = b.Poll(0)
	must(t, err)
	if n != 1 {
		t.Fatalf("%d completions of a read that is done", n)
	}
}

func TestVirtualTimeStopsAtAnotherDriversDeadline(t *testing.T) {
	w := sim.New(sim.Options{Seed: 3})
	a, b := w.Driver(aio.Options{}), w.Driver(aio.Options{})
	const short, long = 2 * time.Millisecond, 10 * time.Millisecond
	turn := func(d *sim.Driver, wait time.Duration) int64 {
		_, err := d.Poll(wait)
		must(t, err)
		return w.Now()
	}
	due := w.Now() + int64(short)
	for w.Now() < int64(5*long) {
		// b wants to be polled every 2 ms, whatever a waits for.
		if now := turn(b, time.Duration(due-w.Now())); now >= due {
			if late := now - due; late > int64(100*time.Microsecond) {
				t.Fatalf("a deadline was passed by %v", time.Duration(late))
			}
			due = now + int64(short)
		}
		turn(a, long)
	}
}

func TestVirtualTimeWaitsForADriverThatSpins(t *testing.T) {
	w := sim.New(sim.Options{Seed: 3})
	a, b := w.Driver(aio.Options{}), w.Driver(aio.Options{})
	for range 20 {
		_, err := b.Poll(0)
		must(t, err)
		_, err = a.Poll(time.Hour)
		must(t, err)
	}
	if w.Now() > int64(time.Millisecond) {
		t.Fatalf("the clock ran to %v while a driver was busy", time.Duration(w.Now()))
	}
}

func TestStepRunsOneEvent(t *testing.T) {
	w := sim.New(sim.Options{Seed: 3})
	makeFile(t, w, "/f", 8192)
	d := w.Driver(aio.Options{})
	f := open(t, d, "/f")
	o := &log{}
	for i := range int64(2) {
		d.Submit(&aio.Op{Kind: aio.KindRead, File: f, Buf: block(t, d, 4096, 0), Off: i * 4096, Owner: o})
	}
	for want := 1; w.Step(); want++ {
		_, err := d.Poll(0)
		must(t, err)
		if len(o.ops) != want {
			t.Fatalf("%d completions after %d steps", len(o.ops), want)
		}
	}
	if len(o.ops) != 2 {
		t.Fatalf("%d completions when nothing is left", len(o.ops))
	}
}

func TestWallJumpsAndMonotonicTimeDoesNot(t *testing.T) {
	w := sim.New(sim.Options{Wall: 5e18})
	now := w.Now()
	w.JumpWall(-time.Hour)
	if w.Wall() != 5e18+now-int64(time.Hour) || w.Now() != now {
		t.Fatalf("after a jump the wall shows %d, the clock %d", w.Wall(), w.Now())
	}
}

func TestMemoryUnderAWriteIsFrozen(t *testing.T) {
	w := sim.New(sim.Options{})
	makeFile(t, w, "/f", 4096)
	d := w.Driver(aio.Options{})
	f := open(t, d, "/f")
	b := block(t, d, 4096, 1)
	d.Submit(&aio.Op{Kind: aio.KindWrite, File: f, Buf: b, Owner: &log{}})
	b[100]++
	if got := violates(t, func() { _, _ = d.Poll(time.Second) }); !strings.Contains(got, "under a write") {
		t.Fatalf("violated %q", got)
	}
}

func TestMemoryUnderASendIsFrozen(t *testing.T) {
	w := sim.New(sim.Options{})
	d := w.Driver(aio.Options{})
	_, addr, err := d.Listen(":0", aio.ListenAlone)
	must(t, err)
	s, err := d.Dial(addr)
	must(t, err)
	b := block(t, d, 4096, 1)
	d.Submit(&aio.Op{Kind: aio.KindSend, Sock: s, Vec: [][]byte{b}, Owner: &log{}})
	b[100]++
	if got := violates(t, func() { _, _ = d.Poll(time.Second) }); !strings.Contains(got, "under a send") {
		t.Fatalf("violated %q", got)
	}
}

func TestMemoryOfTheGoHeapIsRefused(t *testing.T) {
	w := sim.New(sim.Options{})
	d := w.Driver(aio.Options{})
	for _, op := range []*aio.Op{
		{Kind: aio.KindWrite, Buf: make([]byte, 4096)},
		{Kind: aio.KindRead, Buf: make([]byte, 4096)},
		{Kind: aio.KindSend, Vec: [][]byte{make([]byte, 10)}},
	} {
		op.Owner = &log{}
		violates(t, func() { d.Submit(op) })
	}
	// Memory of another driver is known.
	b := block(t, w.Driver(aio.Options{}), 4096, 1)
	d.Submit(&aio.Op{Kind: aio.KindRead, Buf: b, Owner: &log{}})
}

func TestDeadDriverSaysSoAndCompletesNothing(t *testing.T) {
	for name, stop := range map[string]func(w *sim.World, d *sim.Driver) error{
		"crash": func(w *sim.World, _ *sim.Driver) error { w.Crash(sim.KeepAll); return nil },
		"kill":  func(w *sim.World, _ *sim.Driver) error { w.Kill(); return nil },
		"close": func(_ *sim.World, d *sim.Driver) error { return d.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			w := sim.New(sim.Options{})
			makeFile(t, w, "/f", 4096)
			d := w.Driver(aio.Options{})
			f := open(t, d, "/f")
			o := &log{}
			d.Submit(&aio.Op{Kind: aio.KindRead, File: f, Buf: block(t, d, 4096, 0), Owner: o})
			must(t, stop(w, d))
			d.SubmitFile(&aio.FileOp{Kind: aio.FileReadDir, Path: "/", Owner: o})
			if _, err := d.Poll(time.Second); !errors.Is(err, aio.ErrClosed) {
				t.Fatalf("Poll of a dead driver: %v", err)
			}
			if _, err := d.FS().ReadDir("/"); !errors.Is(err, aio.ErrClosed) {
				t.Fatalf("FS of a dead driver: %v", err)
			}
			if _, err := d.Dial("127.0.0.1:1"); !errors.Is(err, aio.ErrClosed) {
				t.Fatalf("Dial of a dead driver: %v", err)
			}
			if len(o.ops)+o.files != 0 {
				t.Fatal("a dead driver completed an operation")
			}
			must(t, d.Close())
		})
	}
}

func TestCompletionThatCrashesTheWorldIsTheLast(t *testing.T) {
	w := sim.New(sim.Options{})
	makeFile(t, w, "/f", 4096)
	d := w.Driver(aio.Options{})
	f := open(t, d, "/f")
	c := &crasher{w: w}
	for range 5 {
		d.Submit(&aio.Op{Kind: aio.KindRead, File: f, Buf: block(t, d, 4096, 0), Owner: c})
	}
	for w.Step() {
		continue
	}
	n, err := d.Poll(0)
	must(t, err)
	if n != 1 || c.seen != 1 {
		t.Fatalf("%d completions counted and %d delivered beyond a crash", n, c.seen)
	}
}

type crasher struct {
	w    *sim.World
	seen int
}

func (c *crasher) Complete(*aio.Op) {
	c.seen++
	c.w.Crash(sim.KeepNone)
}

func TestCancelReachesAnOperationThatWaitsForASlot(t *testing.T) {
	w := sim.New(sim.Options{Seed: 1})
	d := w.Driver(aio.Options{Entries: 2})
	l, addr, err := d.Listen(":0", aio.ListenAlone)
	must(t, err)
	s, err := d.Dial(addr)
	must(t, err)
	o := &log{}
	ops := []*aio.Op{{Kind: aio.KindAccept, Sock: l}, {Kind: aio.KindRecv, Sock: s}, {Kind: aio.KindSend, Sock: s}}
	for _, op := range ops {
		op.Owner = o
		d.Submit(op)
	}
	d.Cancel(ops[2])
	for ops[2].InFlight() {
		_, err := d.Poll(time.Second)
		must(t, err)
	}
	if !errors.Is(ops[2].Err, aio.ErrCanceled) || !ops[1].InFlight() || d.InFlight() != 2 {
		t.Fatalf("cancelled while it waited: %v, %d in flight", ops[2].Err, d.InFlight())
	}
	d.Cancel(ops[1])
	for ops[1].InFlight() {
		_, err := d.Poll(time.Second)
		must(t, err)
	}
	must(t, aio.Do(d, ops[2])) // an empty send, now that there is a slot
}

func TestMisuseIsABug(t *testing.T) {
	w := sim.New(sim.Options{Seed: 1})
	makeFile(t, w, "/f", 4096)
	d := w.Driver(aio.Options{})
	f := open(t, d, "/f")
	hold := w.Hold(sim.Filter{Ops: sim.Reads})
	read := &aio.Op{Kind: aio.KindRead, File: f, Buf: block(t, d, 4096, 0), Owner: &log{}}
	d.Submit(read)
	violates(t, func() { d.Submit(read) })
	file := &aio.FileOp{Kind: aio.FileStatFS, Path: "/", Owner: &log{}}
	d.SubmitFile(file)
	violates(t, func() { d.SubmitFile(file) })
	job := &aio.JobOp{Job: &longJob{}, Owner: &log{}}
	d.SubmitJob(job)
	violates(t, func() { d.SubmitJob(job) })
	violates(t, func() { d.SubmitFile(&aio.FileOp{Kind: aio.FileStatFS}) })
	violates(t, func() { d.SubmitJob(&aio.JobOp{}) })
	violates(t, func() {
		d.Submit(&aio.Op{Kind: aio.KindSend, Vec: make([][]byte, aio.MaxVec+1), Owner: &log{}})
	})
	violates(t, func() { hold.Wait(1) })
}

func TestUnknownOperationsAreErrors(t *testing.T) {
	w := sim.New(sim.Options{Seed: 1})
	makeFile(t, w, "/f", 4096)
	d := w.Driver(aio.Options{})
	f := open(t, d, "/f")
	if err := aio.Do(d, &aio.Op{Kind: 99}); err == nil {
		t.Fatal("an unknown operation is no error")
	}
	if err := aio.DoFile(d, &aio.FileOp{Kind: 99, File: f}); err == nil {
		t.Fatal("an unknown file operation is no error")
	}
}
