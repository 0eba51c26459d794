package sim_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
)

// TestAWorldOfUsedMemoryRunsAsOneOfNewMemoryDoes runs the same thing in a new world
// and in one made of what two others have left, and compares every completion and what
// is on the disk.
func TestAWorldOfUsedMemoryRunsAsOneOfNewMemoryDoes(t *testing.T) {
	mem := sim.NewMemory()
	defer mem.Free()
	want, fresh := lives(t, 1, nil)
	lives(t, 2, mem)
	lives(t, 3, mem)
	got, used := lives(t, 1, mem)
	if got != want || !bytes.Equal(used, fresh) {
		t.Fatalf("trace %016x, expected %016x; the same disk: %v", got, want, bytes.Equal(used, fresh))
	}
}

// lives writes in two lives with a power cut between them and a helper that is at work
// then. It returns the trace and what the disk holds in the end.
func lives(t *testing.T, seed uint64, mem *sim.Memory) (trace uint64, content []byte) {
	w := sim.New(sim.Options{Seed: seed, Memory: mem})
	for life := range byte(2) {
		d := w.Driver(aio.Options{ArenaBytes: 1 << 20})
		f, _, err := aio.OpenFile(d, "/f", aio.OpenWrite|aio.OpenCreate)
		if err != nil {
			t.Fatal(err)
		}
		var ops [4]aio.Op
		for i := range ops {
			buf, err := d.Alloc(8192)
			if err != nil {
				t.Fatal(err)
			}
			copy(buf, bytes.Repeat([]byte{byte(seed), life, byte(i)}, 8192/3+1))
			ops[i] = aio.Op{Kind: aio.KindWrite, File: f, Buf: buf, Off: int64(i)*8192 + int64(life)*4096, Owner: &counter{}}
			d.Submit(&ops[i])
		}
		for ops[0].InFlight() || ops[1].InFlight() {
			if _, err := d.Poll(time.Millisecond); err != nil {
				t.Fatal(err)
			}
		}
		j := &stubborn{}
		d.SubmitJob(&aio.JobOp{Job: j, Owner: j})
		for range 3 {
			w.Step()
		}
		w.Crash(sim.KeepRandom)
		if !errors.Is(j.err, aio.ErrClosed) {
			t.Fatalf("a helper of a dead driver was told %v, expected %v", j.err, aio.ErrClosed)
		}
	}
	content, err := aio.ReadFile(w.FS(), "/f", 1<<20)
	if err != nil && !aio.IsNotExist(err) {
		t.Fatal(err)
	}
	trace = w.TraceHash()
	w.End()
	return trace, content
}

// stubborn is a job that asks for the disk until it is refused.
type stubborn struct{ err error }

func (j *stubborn) Run(fs aio.FS) error {
	for j.err == nil {
		_, j.err = fs.Stat("/")
	}
	return j.err
}

func (j *stubborn) CompleteJob(*aio.JobOp) {}
