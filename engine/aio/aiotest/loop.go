package aiotest

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
)

var loopTests = []test{
	{"poll without waiting returns", func(r *rig) {
		d := r.open(small)
		for range 1000 {
			n, err := d.Poll(0)
			r.check(err)
			if n != 0 {
				r.Fatalf("%d completions of nothing", n)
			}
		}
	}},
	{"poll returns the number of completions", counts},
	{"a waiting poll ends with its time", func(r *rig) {
		d := r.open(small)
		end := d.Clock().Now() + int64(time.Millisecond)
		r.until("the time", func() bool { return d.Clock().Now() >= end })
	}},
	{"a wake ends the next waiting poll", wakesBefore},
	{"wakes of other threads are not lost", wakesAcross},
	{"many wakes from many threads", hammers},
	{"a completion may submit, release and cancel", nests},
	{"close with operations in flight", closesBusy},
	{"close of an idle driver", func(r *rig) {
		d, err := r.env.Open(small)
		r.check(err)
		r.check(d.Close())
	}},
	{"a data operation allocates nothing", dataAllocatesNothing},
	{"a message allocates nothing", messageAllocatesNothing},
}

// long is a wait that ends only by what a test does.
const long = time.Hour

func counts(r *rig) {
	d := r.open(small)
	f := r.newFile(d, "f", 64<<10)
	b := r.memory(d, 4096, 1)
	o, ops := owner{}, make([]aio.Op, 10)
	for i := range ops {
		ops[i] = aio.Op{Kind: aio.KindWrite, File: f, Buf: b, Off: int64(i) * 4096, Owner: &o}
		d.Submit(&ops[i])
	}
	total := 0
	for len(o.ops) < len(ops) {
		before := len(o.ops)
		n, err := d.Poll(20 * time.Millisecond)
		r.check(err)
		if n != len(o.ops)-before {
			r.Fatalf("Poll said %d, %d completions came", n, len(o.ops)-before)
		}
		total += n
		if d.InFlight() != len(ops)-total {
			r.Fatalf("%d in flight after %d of %d completions", d.InFlight(), total, len(ops))
		}
	}
}

func wakesBefore(r *rig) {
	d := r.open(small)
	start := d.Clock().Now()
	for range 3 {
		d.Wake()
		d.Wake()
		_, err := d.Poll(long)
		r.check(err)
	}
	if waited := d.Clock().Now() - start; waited >= int64(long) {
		r.Fatalf("a woken Poll waited its time: %v", time.Duration(waited))
	}
}

// wakesAcross polls with an hour's wait for what another goroutine announces by a
// flag and a wake: a lost wake hangs the test.
func wakesAcross(r *rig) {
	if r.env.Time == Virtual {
		r.Skip("virtual time has one thread")
	}
	const rounds = 500
	d := r.open(small)
	var flag, done atomic.Int64
	go func() {
		for i := int64(1); i <= rounds; i++ {
			flag.Store(i)
			d.Wake()
			for done.Load() < i {
				runtime.Gosched()
			}
		}
	}()
	for i := int64(1); i <= rounds; i++ {
		for flag.Load() < i {
			_, err := d.Poll(long)
			r.check(err)
		}
		done.Store(i)
	}
}

func hammers(r *rig) {
	if r.env.Time == Virtual {
		r.Skip("virtual time has one thread")
	}
	const threads, wakes = 4, 2000
	d := r.open(small)
	f := r.newFile(d, "f", 4096)
	o := owner{}
	op := aio.Op{Kind: aio.KindWrite, File: f, Buf: r.memory(d, 4096, 1), Owner: &o}
	var all sync.WaitGroup
	var left atomic.Int64
	left.Store(threads)
	for range threads {
		all.Add(1)
		go func() {
			defer all.Done()
			for range wakes {
				d.Wake()
			}
			left.Add(-1)
			d.Wake()
		}()
	}
	for left.Load() > 0 || op.InFlight() {
		if !op.InFlight() {
			d.Submit(&op)
		}
		_, err := d.Poll(long)
		r.check(err)
		r.check(op.Err)
	}
	all.Wait()
}

func nests(r *rig) {
	d := r.open(small)
	near, far := r.pair(d, d)
	in := r.receive(d, far)
	b := r.memory(d, 4096, 1)
	f := r.newFile(d, "f", 4096)
	o := owner{}
	var write, send aio.Op
	var stat aio.FileOp
	o.then = func(op *aio.Op) {
		switch op {
		case &write:
			stat = aio.FileOp{Kind: aio.FileStatFS, Path: r.env.Dir, Owner: &o}
			d.SubmitFile(&stat)
			send = aio.Op{Kind: aio.KindSend, Sock: near, Vec: [][]byte{b}, Owner: &o}
			d.Submit(&send)
		case &send:
			in.stop = true
			d.Cancel(&in.op)
		}
	}
	write = aio.Op{Kind: aio.KindWrite, File: f, Buf: b, Owner: &o}
	d.Submit(&write)
	r.until("the end of all", func() bool { return o.files == 1 && len(o.ops) == 2 && !in.op.InFlight() })
	r.check(write.Err)
	r.check(send.Err)
	r.check(stat.Err)
	if d.InFlight() != 0 {
		r.Fatalf("%d operations in flight at the end", d.InFlight())
	}
}

func closesBusy(r *rig) {
	d, err := r.env.Open(small)
	r.check(err)
	keep := r.open(small) // closed after d
	r.drivers = []aio.Driver{d}
	near, far := r.pair(d, d)
	f := r.newFile(d, "f", 1<<20)
	o := &owner{}
	ops := []*aio.Op{
		{Kind: aio.KindRecv, Sock: far, Owner: o},
		{Kind: aio.KindWrite, File: f, Buf: r.memory(d, 1<<20, 1), Owner: o},
		{Kind: aio.KindRead, File: f, Buf: r.memory(d, 4096, 1), Owner: o},
		{Kind: aio.KindFdatasync, File: f, Owner: o},
	}
	l, _ := r.listen(d, aio.ListenAlone)
	ops = append(ops, &aio.Op{Kind: aio.KindAccept, Sock: l, Owner: o})
	for _, op := range ops {
		d.Submit(op)
	}
	r.flood(d, near, o)
	d.SubmitFile(&aio.FileOp{Kind: aio.FileWriteAtomic, Path: r.path("g"), Data: make([]byte, 100_000), Owner: o})
	d.SubmitJob(&aio.JobOp{Job: job(func(fs aio.FS) error { _, err := fs.Stat(r.env.Dir); return err }), Owner: o})
	_, err = d.Poll(0)
	r.check(err)
	r.check(d.Close())
	r.drivers = []aio.Driver{keep}
	// The directory is free for another driver, and the file is whole.
	r.writeFile(keep, "h", []byte("x"))
	if n := len(r.content(keep, "f")); n != 1<<20 {
		r.Fatalf("the file has %d bytes", n)
	}
}

// quiet is an owner that keeps nothing.
type quiet struct{ left int }

func (q *quiet) Complete(*aio.Op) { q.left-- }

// noAllocs ends the test when f allocates.
func (r *rig) noAllocs(f func()) {
	r.Helper()
	for range 50 {
		f() // tables and queues grow to what they need
	}
	if n := testing.AllocsPerRun(200, f); n != 0 {
		r.Fatalf("%v allocations, expected none", n)
	}
}

// pollUntil polls until q has all its completions.
func (r *rig) pollUntil(d aio.Driver, q *quiet) {
	for q.left > 0 {
		if _, err := d.Poll(time.Millisecond); err != nil {
			r.Fatal(err)
		}
	}
}

func dataAllocatesNothing(r *rig) {
	d := r.open(small)
	f := r.newFile(d, "f", 64<<10)
	b, c := r.memory(d, 8192, 1), r.memory(d, 8192, 2)
	q := &quiet{}
	write := aio.Op{Kind: aio.KindWrite, File: f, Buf: b, Owner: q}
	durable := aio.Op{Kind: aio.KindWrite, File: f, Buf: b, Off: 8192, Flags: aio.FlagDSYNC, Owner: q}
	read := aio.Op{Kind: aio.KindRead, File: f, Buf: c, Owner: q}
	sync := aio.Op{Kind: aio.KindFdatasync, File: f, Owner: q}
	r.noAllocs(func() {
		q.left = 3
		d.Submit(&write)
		d.Submit(&durable)
		d.Submit(&read)
		r.pollUntil(d, q)
		q.left = 1
		d.Submit(&sync)
		r.pollUntil(d, q)
	})
}

// drain receives and gives buffers home at once.
type drain struct {
	d    aio.Driver
	left int
}

func (n *drain) Complete(op *aio.Op) {
	if len(op.Data) > 0 {
		n.left -= len(op.Data)
		n.d.ReleaseBuf(op.BufID)
	}
	if !op.More && op.Err == nil && len(op.Data) > 0 {
		n.d.Submit(op)
	}
}

func messageAllocatesNothing(r *rig) {
	d := r.open(small)
	near, far := r.pair(d, d)
	in, q := &drain{d: d}, &quiet{}
	recv := aio.Op{Kind: aio.KindRecv, Sock: far, Owner: in}
	d.Submit(&recv)
	send := aio.Op{Kind: aio.KindSend, Sock: near, Vec: [][]byte{r.memory(d, 3000, 1), r.memory(d, 100, 2)}, Owner: q}
	r.noAllocs(func() {
		q.left, in.left = 1, 3100
		d.Submit(&send)
		for q.left > 0 || in.left > 0 {
			if _, err := d.Poll(time.Millisecond); err != nil {
				r.Fatal(err)
			}
		}
	})
}
