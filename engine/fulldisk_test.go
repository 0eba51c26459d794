package engine

import (
	"strings"
	"testing"
	"time"
)

// fillUp appends to p, on a disk without space, until nothing has been taken for a
// while.
func (r *rig) fillUp(p *Partition, n, size int) {
	r.t.Helper()
	for refused := 0; refused < 200; {
		a := &produced{}
		a.Part, a.Batch, a.Owner = p, testBatch(r.t, n, size), a
		a.Header = mustCheck(r.t, a.Batch)
		switch err := p.store.Append(&a.Append); err {
		case nil:
			refused = 0
		case ErrBusy:
			refused++
		default:
			r.t.Fatal(err)
		}
		r.run(2 * time.Millisecond)
	}
}

// full takes all space away that segments do not have yet.
func (r *rig) full() {
	r.t.Helper()
	if err := r.w.SetCapacity(rigDir, 1); err != nil {
		r.t.Fatal(err)
	}
}

// What makes room on a full disk, the deletion of a topic, has to be recorded first. It
// stood behind the ring, or the memory, that nothing emptied.
func TestUrgentAppendsFindRoomOnAFullDisk(t *testing.T) {
	for _, c := range []struct {
		name            string
		journal, chunks int64
	}{{"ring", 1 << 20, 8 << 20}, {"memory", 8 << 20, 512 << 10}} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, rigOptions{journal: c.journal, chunks: c.chunks})
			id := r.topic(1, ClassFlushed)
			other := r.part(r.topic(2, ClassFlushed), 0)
			r.full()
			for n := range 3 {
				r.fillUp(r.part(id, n), 8, 400)
			}
			r.fillUp(other, 1, 100)
			if !other.store.DiskFull() {
				t.Fatal("the disk does not count as full")
			}
			a := &produced{}
			a.Part, a.Batch, a.Owner = other, testBatch(t, 1, 100), a
			a.Header = mustCheck(t, a.Batch)
			if err := other.store.Append(&a.Append); err != ErrBusy {
				t.Fatalf("an append that is not urgent: %v", err)
			}
			a.Urgent = true
			if err := other.store.Append(&a.Append); err != nil {
				t.Fatalf("an urgent append: %v; %+v", err, other.store.Stats())
			}
			r.until("ack", func() bool { return a.done })
			if a.Err != nil {
				t.Fatal(a.Err)
			}
		})
	}
}

// A partition of class memory whose batches found no room in the ring could not be
// dropped, so that its files were never removed and the disk stayed full.
func TestMemoryThatFindsNoRoomIsDropped(t *testing.T) {
	r := newRig(t, rigOptions{journal: 1 << 20, chunks: 8 << 20, reserve: 1 << 20})
	p := r.part(r.topic(1, ClassMemory), 0)
	q := r.part(r.topic(2, ClassMemory), 0)
	kept := []*produced{r.sendWait(q, 1, 100)}
	r.sendWait(p, 1, 100)
	r.full()
	r.fillUp(p, 8, 400)
	if p.memory == 0 {
		t.Fatal("nothing waits for the journal")
	}
	for range 5 {
		kept = append(kept, r.send(q, 1, 100))
	}
	gone := &dropped{}
	p.store.Drop(p, gone)
	r.until("drop", func() bool { return gone.done })
	if err := r.w.SetCapacity(rigDir, 1<<40); err != nil {
		t.Fatal(err)
	}
	r.checkpointAll()
	if u := q.store.Usage(); u.MemoryBytes != 0 || u.DirtyPartitions != 0 {
		t.Fatalf("with room again: %+v", u)
	}
	r.mustHold(q, kept)
}

// An operator saw nothing of a disk that was full.
func TestAFullDiskIsTold(t *testing.T) {
	r := newRig(t, rigOptions{journal: 1 << 20, chunks: 8 << 20})
	p := r.part(r.topic(1, ClassFlushed), 0)
	r.full()
	r.fillUp(p, 8, 400)
	if err := r.w.SetCapacity(rigDir, 1<<40); err != nil {
		t.Fatal(err)
	}
	r.run(5 * time.Second)
	if p.store.DiskFull() {
		t.Fatal("the disk still counts as full")
	}
	said := strings.Join(r.log, "\n")
	if strings.Count(said, "disk full true") != 1 || strings.Count(said, "disk full false") != 1 {
		t.Fatalf("told: %s", said)
	}
}
