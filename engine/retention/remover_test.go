package retention

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
	"github.com/mqd-broker/mqd/engine/segment"
	"github.com/mqd-broker/mqd/engine/shard"
)

const dir = "/p"

// bench is a directory of segments and a remover on a loop.
type bench struct {
	t    *testing.T
	w    *sim.World
	loop *shard.Loop
	*Remover
	reports, room int
}

type idle struct{}

func (idle) Drain(int64) int      { return 0 }
func (idle) Finish(int64)         {}
func (idle) SpinHint(int64) int64 { return 0 }

func newBench(t *testing.T, bases ...int64) *bench {
	t.Helper()
	b := &bench{t: t, w: sim.New(sim.Options{Seed: 1})}
	fs := b.w.FS()
	if err := fs.Mkdir(dir); err != nil {
		t.Fatal(err)
	}
	for _, base := range bases {
		for _, name := range []string{segment.LogName(base), segment.IndexName(base)} {
			f, err := fs.Open(dir+"/"+name, aio.OpenWrite|aio.OpenCreate)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(f.Sync(), f.Close()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(fs.SyncDir(dir), fs.SyncDir("/")); err != nil {
		t.Fatal(err)
	}
	b.loop = shard.New(b.w.Driver(aio.Options{}), shard.Options{})
	b.loop.SetWorker(idle{})
	b.Remover = NewRemover(b.loop, func(string, error) { b.reports++ }, func() { b.room++ })
	return b
}

func (b *bench) run(d time.Duration, done func() bool) {
	b.t.Helper()
	for end := b.w.Now() + int64(d); !done(); {
		if b.w.Now() > end {
			b.t.Fatal("not done in time")
		}
		if _, err := b.loop.Turn(); err != nil {
			b.t.Fatal(err)
		}
		b.w.Step()
	}
}

func (b *bench) names() []string {
	b.t.Helper()
	entries, err := b.w.FS().ReadDir(dir)
	if err != nil {
		b.t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name)
	}
	return names
}

func TestFilesOfSegmentsGo(t *testing.T) {
	var bases []int64
	for n := range int64(3*pieceSegments + 1) {
		bases = append(bases, n*10)
	}
	b := newBench(t, bases...)
	b.Add(dir, bases[:1])
	b.Add(dir, bases[:len(bases)-1]) // the first again: it is gone by then
	b.run(time.Minute, b.Idle)
	last := bases[len(bases)-1]
	if names := fmt.Sprint(b.names()); names != fmt.Sprint([]string{segment.IndexName(last), segment.LogName(last)}) || b.reports > 0 {
		t.Fatalf("left: %s, %d reports", names, b.reports)
	}
}

// What cannot be removed is tried again; it is told once, and where space is wanting room
// is asked for.
func TestARemovalThatFailsIsTriedAgain(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EIO, syscall.ENOSPC} {
		for _, op := range []sim.Ops{sim.Renames, sim.Removes, sim.DirSyncs} {
			t.Run(fmt.Sprint(errno, " ", op), func(t *testing.T) {
				b := newBench(t, 0, 10)
				b.w.Inject(sim.Fault{Filter: sim.Filter{Ops: op}, Times: 2, Err: errno})
				b.Add(dir, []int64{0, 10})
				b.run(time.Minute, b.Idle)
				if names := b.names(); len(names) > 0 || b.reports != 1 || b.room > 0 != (errno == syscall.ENOSPC) {
					t.Fatalf("left: %v, %d reports, room asked for %d times", names, b.reports, b.room)
				}
			})
		}
	}
}

// The deletion of a topic may come first.
func TestADirectoryThatIsGoneIsNoFailure(t *testing.T) {
	b := newBench(t)
	b.Add("/gone", []int64{0})
	b.run(time.Minute, b.Idle)
	if b.reports > 0 {
		t.Fatalf("%d reports", b.reports)
	}
}
