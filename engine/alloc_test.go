package engine

import (
	"testing"
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
)

// instant is a driver that, when it is on, completes data operations at the next Poll
// without touching a disk: what allocates then is the store. Nothing that it writes can
// be read again.
type instant struct {
	aio.Driver
	on    bool
	queue []*aio.Op
}

func (d *instant) Submit(op *aio.Op) {
	if !d.on {
		d.Driver.Submit(op)
		return
	}
	op.Begin()
	op.N = len(op.Buf)
	d.queue = append(d.queue, op)
}

func (d *instant) Poll(wait time.Duration) (int, error) {
	n := len(d.queue)
	for i := 0; i < n; i++ {
		d.queue[i].End()
	}
	d.queue = d.queue[:copy(d.queue, d.queue[n:])]
	m, err := d.Driver.Poll(wait)
	return n + m, err
}

// quietAppend is an append whose owner only counts.
type quietAppend struct {
	Append
	acks *int
}

func (a *quietAppend) Appended(*Append) { *a.acks++ }

type quietRead struct {
	Read
	done int
}

func (f *quietRead) ReadDone(*Read) { f.done++ }

func TestNothingIsAllocatedForABatch(t *testing.T) {
	for _, class := range []Class{ClassFlushed, ClassWritten, ClassMemory} {
		t.Run(class.String(), func(t *testing.T) {
			d := &instant{queue: make([]*aio.Op, 0, 64)}
			r := newRig(t, rigOptions{journal: 128 << 20, chunks: 64 << 20, reserve: 1 << 26, wrap: func(under aio.Driver) aio.Driver {
				d.Driver = under
				return d
			}})
			s, l := r.shards[0].store, r.shards[0].loop
			p := r.part(r.topic(1, class), 0)
			r.sendWait(p, 1, 100) // a reservation, an epoch, the first chunk
			r.run(5 * time.Millisecond)
			d.on = true
			acks := 0
			a := &quietAppend{acks: &acks}
			a.Part, a.Owner, a.Batch = p, a, testBatch(t, 4, 200)
			a.Header = mustCheck(t, a.Batch)
			f := &quietRead{}
			f.Part, f.MaxBytes, f.Owner = p, 1<<16, f
			one := func() {
				before := acks
				for turns := 0; s.Append(&a.Append) != nil; turns++ {
					if _, err := l.Turn(); err != nil || turns > 1000 {
						t.Fatalf("no room after %d turns: %v", turns, err)
					}
				}
				for turns := 0; acks == before; turns++ {
					if _, err := l.Turn(); err != nil || turns > 1000 {
						t.Fatalf("no acknowledgement after %d turns: %v", turns, err)
					}
				}
				f.Offset = a.Base
				s.Read(&f.Read)
				if f.Err != nil || f.N == 0 {
					t.Fatalf("read at %d: %d pieces, %v", a.Base, f.N, f.Err)
				}
				s.Release(&f.Read)
			}
			for range 2000 { // queues and chunks grow to what the load needs
				one()
			}
			if n := testing.AllocsPerRun(2000, one); n != 0 {
				t.Fatalf("%v allocations for a batch", n)
			}
		})
	}
}
