package aiotest

import (
	"bytes"
	"errors"

	"github.com/mqd-broker/mqd/engine/aio"
)

var jobTests = []test{
	{"a job runs and its error comes back", func(r *rig) {
		d, ran := r.open(small), 0
		r.check(r.job(d, func(aio.FS) error { ran++; return nil }))
		want := errors.New("the job's own")
		if err := r.job(d, func(aio.FS) error { ran++; return want }); !errors.Is(err, want) {
			r.Fatalf("the job's error came back as %v", err)
		}
		if ran != 2 {
			r.Fatalf("two jobs ran %d times", ran)
		}
	}},
	{"a job uses the filesystem", jobUsesFS},
	{"more jobs than helpers", func(r *rig) {
		const n = 40
		o := small
		o.Helpers = 2
		d := r.open(o)
		own, ops, ran := owner{}, make([]aio.JobOp, n), make([]bool, n)
		for i := range ops {
			ops[i] = aio.JobOp{Job: job(func(aio.FS) error { ran[i] = true; return nil }), Owner: &own, Tag: uint64(i)}
			d.SubmitJob(&ops[i])
		}
		r.until("all completions", func() bool { return own.jobs == n })
		for i := range ran {
			if !ran[i] || ops[i].InFlight || ops[i].Err != nil {
				r.Fatalf("job %d: ran %v, in flight %v, %v", i, ran[i], ops[i].InFlight, ops[i].Err)
			}
		}
		if d.InFlight() != 0 {
			r.Fatalf("%d operations in flight at the end", d.InFlight())
		}
	}},
	{"a job does not hold the loop up", jobOffLoop},
}

// job is a function as a job.
type job func(fs aio.FS) error

func (j job) Run(fs aio.FS) error { return j(fs) }

// job runs f as a job on d.
func (r *rig) job(d aio.Driver, f func(aio.FS) error) error {
	r.Helper()
	o := owner{}
	op := aio.JobOp{Job: job(f), Owner: &o}
	d.SubmitJob(&op)
	if o.jobs != 0 {
		r.Fatal("a job completed inside SubmitJob")
	}
	r.until("the completion", func() bool { return o.jobs > 0 })
	return op.Err
}

func jobUsesFS(r *rig) {
	d := r.open(small)
	want := make([]byte, 10_000)
	fill(want, 1)
	var got []byte
	var size int64
	r.check(r.job(d, func(fs aio.FS) error {
		if err := aio.MkdirAll(fs, r.path("x/y")); err != nil {
			return err
		}
		if err := aio.WriteFileAtomic(fs, r.path("x/y/f"), want); err != nil {
			return err
		}
		f, err := fs.Open(r.path("x/y/f"), aio.OpenWrite)
		if err != nil {
			return err
		}
		if size, err = f.Size(); err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
		got, err = aio.ReadFile(fs, r.path("x/y/f"), 10_000)
		return err
	}))
	if size != 10_000 || !bytes.Equal(got, want) {
		r.Fatalf("a job wrote 10000 bytes and read %d, or others", size)
	}
	r.fails(r.job(d, func(fs aio.FS) error {
		_, err := aio.ReadFile(fs, r.path("missing"), 1)
		return err
	}), nil)
}

// jobOffLoop blocks a job until the loop has done something else. In virtual
// time a job that waits for anything but the filesystem never ends; there it must
// at least not run inside SubmitJob.
func jobOffLoop(r *rig) {
	d := r.open(small)
	f := r.newFile(d, "f", 4096)
	b := r.memory(d, 4096, 1)
	open, o, ran := make(chan struct{}), owner{}, false
	if r.env.Time == Virtual {
		close(open)
	}
	op := aio.JobOp{Owner: &o, Job: job(func(aio.FS) error {
		<-open
		ran = true
		return nil
	})}
	d.SubmitJob(&op)
	if r.env.Time == Virtual && ran {
		r.Fatal("a job ran inside SubmitJob")
	}
	r.check(r.do(d, &aio.Op{Kind: aio.KindWrite, File: f, Buf: b}))
	if r.env.Time == Real {
		if o.jobs != 0 {
			r.Fatal("a job completed that waits")
		}
		close(open)
	}
	r.until("the job's end", func() bool { return o.jobs == 1 })
	r.check(op.Err)
}
