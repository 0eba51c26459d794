package filepool

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
)

// seg is a segment with a file of its own.
type seg struct {
	name string
	busy bool
	file File
}

func (s *seg) Path() string { return s.name }
func (s *seg) Busy() bool   { return s.busy }

// told counts what a waiter has been told.
type told struct {
	n   int
	err error
}

func (w *told) FileOpen(err error) { w.n, w.err = w.n+1, err }

type rig struct {
	t    *testing.T
	w    *sim.World
	d    *sim.Driver
	pool Pool
}

func newRig(t *testing.T, most int) *rig {
	w := sim.New(sim.Options{Seed: 1})
	d := w.Driver(aio.Options{})
	return &rig{t: t, w: w, d: d, pool: New(d, most)}
}

// settle lets everything that is in flight end.
func (r *rig) settle() {
	r.t.Helper()
	for range 1000 {
		r.w.Step()
		if _, err := r.d.Poll(0); err != nil {
			r.t.Fatal(err)
		}
	}
	if n := r.pool.Opening(); n != 0 {
		r.t.Fatalf("%d files are still being opened", n)
	}
}

func (r *rig) open(s *seg) *told {
	var w told
	r.pool.Open(&s.file, s, &w)
	return &w
}

func newSegs(n int) []*seg {
	s := make([]*seg, n)
	for i := range s {
		s[i] = &seg{name: fmt.Sprint("f", i), file: Closed(false, 0)}
	}
	return s
}

func (r *rig) check(what string, segs []*seg, open ...bool) {
	r.t.Helper()
	n := 0
	for i, s := range segs {
		if (s.file.Handle != aio.NoFile) != open[i] {
			r.t.Errorf("%s: file %d is open: %v, expected %v", what, i, !open[i], open[i])
		}
		if open[i] {
			n++
		}
	}
	if r.pool.Len() != n {
		r.t.Errorf("%s: %d files are open, expected %d", what, r.pool.Len(), n)
	}
}

func TestTheFileUnusedForLongestIsClosed(t *testing.T) {
	r, s := newRig(t, 2), newSegs(4)
	for _, x := range s[:2] {
		r.open(x)
		r.settle()
	}
	if w := r.open(s[0]); w.n != 1 || w.err != nil {
		t.Fatalf("of an open file nobody is told at once: %+v", w)
	}
	r.open(s[2])
	r.settle()
	r.check("a third one", s, true, false, true, false)

	s[0].busy, s[2].busy = true, true
	r.open(s[3])
	r.settle()
	r.check("all in use", s, true, false, true, true)

	s[0].busy, s[2].busy = false, false
	r.open(s[1])
	r.settle()
	r.check("none in use", s, false, true, false, true)

	r.pool.Close(&s[1].file)
	r.pool.Close(&s[1].file)
	r.check("closed", s, false, false, false, true)
}

func TestAllWhoWaitForAFileAreTold(t *testing.T) {
	r, s := newRig(t, 2), newSegs(1)
	first, second := r.open(s[0]), r.open(s[0])
	if !s[0].file.Opening() || r.pool.Opening() != 1 {
		t.Fatalf("%d files are being opened, expected 1", r.pool.Opening())
	}
	r.settle()
	if first.n != 1 || second.n != 1 || first.err != nil || second.err != nil {
		t.Errorf("told %+v and %+v", first, second)
	}
	r.check("open", s, true)
}

func TestAFileThatCannotBeOpenedIsTriedAgain(t *testing.T) {
	r, s := newRig(t, 2), newSegs(1)
	r.w.Inject(sim.Fault{Filter: sim.Filter{Ops: sim.Opens}, Times: 1, Err: syscall.EMFILE})
	w := r.open(s[0])
	r.settle()
	if w.n != 1 || !errors.Is(w.err, syscall.EMFILE) || s[0].file.Opening() {
		t.Fatalf("told %+v", w)
	}
	r.check("failed", s, false)
	if w = r.open(s[0]); w.n != 0 {
		t.Fatal("told of a file that is not open")
	}
	r.settle()
	if w.n != 1 || w.err != nil {
		t.Errorf("told %+v", w)
	}
	r.check("open", s, true)
}

// A file that should be there and is not is not made again, which would hide that it is gone.
func TestAFileThatIsGoneIsNotMade(t *testing.T) {
	r := newRig(t, 2)
	s := []*seg{{name: "gone", file: Closed(true, 4096)}}
	w := r.open(s[0])
	r.settle()
	if w.n != 1 || !aio.IsNotExist(w.err) || s[0].file.Allocated != 4096 {
		t.Errorf("told %+v, %d bytes", w, s[0].file.Allocated)
	}
	r.check("gone", s, false)
}
