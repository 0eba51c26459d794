package aiotest

import (
	"bytes"
	"syscall"

	"github.com/mqd-broker/mqd/engine/aio"
)

var dataTests = []test{
	{"what is written is read back", readsBack},
	{"odd sizes and offsets work without direct I/O", oddSizes},
	{"a read ends at the end of the file", readsToTheEnd},
	{"a write beyond the end extends the file", extends},
	{"a write with DSYNC is read back", func(r *rig) {
		d := r.open(small)
		f := r.newFile(d, "f", 64<<10)
		b := r.memory(d, 8192, 1)
		r.check(r.do(d, &aio.Op{Kind: aio.KindWrite, File: f, Buf: b, Off: 4096, Flags: aio.FlagDSYNC}))
		if got := r.content(d, "f"); !bytes.Equal(got[4096:4096+8192], b) {
			r.Fatal("other bytes came back")
		}
	}},
	{"fdatasync completes", func(r *rig) {
		d := r.open(small)
		f := r.newFile(d, "f", 64<<10)
		r.check(r.do(d, &aio.Op{Kind: aio.KindWrite, File: f, Buf: r.memory(d, 4096, 1)}))
		r.check(r.do(d, &aio.Op{Kind: aio.KindFdatasync, File: f}))
	}},
	{"more operations than entries", manyInFlight},
	{"an operation can be submitted again from its completion", resubmits},
	{"each completion has its own result", ownResults},
	{"a bad file is an error", badFiles},
	{"bad alignment is an error with direct I/O", misaligned},
	{"an empty write makes no progress", func(r *rig) {
		d := r.open(small)
		f := r.newFile(d, "f", 4096)
		b := r.memory(d, 4096, 1)
		r.fails(r.do(d, &aio.Op{Kind: aio.KindWrite, File: f, Buf: b[:0]}), aio.ErrShort)
	}},
	{"a file that is not open for writing refuses writes", func(r *rig) {
		d := r.open(small)
		r.newFile(d, "f", 4096)
		f := r.openFile(d, "f", aio.OpenDirect)
		r.fails(r.do(d, &aio.Op{Kind: aio.KindWrite, File: f, Buf: r.memory(d, 4096, 1)}), syscall.EBADF)
	}},
}

func readsBack(r *rig) {
	d := r.open(small)
	f := r.newFile(d, "f", 4<<20)
	want := make([]byte, 4<<20)
	off := int64(0)
	for i, size := range []int{4096, 8192, 65536, 1 << 20, 12288} {
		b := r.memory(d, size, byte(i+1))
		op := aio.Op{Kind: aio.KindWrite, File: f, Buf: b, Off: off}
		r.check(r.do(d, &op))
		if op.N != size {
			r.Fatalf("wrote %d of %d bytes", op.N, size)
		}
		copy(want[off:], b)
		off += int64(size) + 4096
	}
	back := r.memory(d, 1<<20, 99)
	for off := int64(0); off < 4<<20; off += int64(len(back)) {
		op := aio.Op{Kind: aio.KindRead, File: f, Buf: back, Off: off}
		r.check(r.do(d, &op))
		if op.N != len(back) || !bytes.Equal(back, want[off:off+int64(len(back))]) {
			r.Fatalf("read %d bytes at %d that are not those written", op.N, off)
		}
	}
	if !bytes.Equal(r.content(d, "f"), want) {
		r.Fatal("a helper reads other bytes than were written")
	}
}

func oddSizes(r *rig) {
	d := r.open(small)
	f := r.openFile(d, "f", aio.OpenWrite|aio.OpenCreate)
	var want []byte
	for i, size := range []int{1, 511, 4097, 3, 70_000} {
		b := r.memory(d, size, byte(i+1))
		r.check(r.do(d, &aio.Op{Kind: aio.KindWrite, File: f, Buf: b, Off: int64(len(want))}))
		want = append(want, b...)
	}
	back := r.memory(d, len(want)-1, 0)
	op := aio.Op{Kind: aio.KindRead, File: f, Buf: back, Off: 1}
	r.check(r.do(d, &op))
	if op.N != len(back) || !bytes.Equal(back, want[1:]) {
		r.Fatalf("read %d bytes that are not those written", op.N)
	}
}

func readsToTheEnd(r *rig) {
	d := r.open(small)
	want := make([]byte, 6000)
	fill(want, 3)
	r.writeFile(d, "f", want)
	f := r.openFile(d, "f", aio.OpenDirect)
	for _, c := range []struct {
		off  int64
		size int
		n    int
	}{{0, 4096, 4096}, {0, 16384, 6000}, {4096, 4096, 1904}, {8192, 4096, 0}, {1 << 20, 8192, 0}} {
		b := r.memory(d, c.size, 0)
		op := aio.Op{Kind: aio.KindRead, File: f, Buf: b, Off: c.off}
		r.check(r.do(d, &op))
		if op.N != c.n {
			r.Fatalf("read of %d at %d in a file of 6000: %d bytes, expected %d", c.size, c.off, op.N, c.n)
		}
		if c.n > 0 && !bytes.Equal(b[:c.n], want[c.off:c.off+int64(c.n)]) {
			r.Fatalf("read of %d at %d: other bytes", c.size, c.off)
		}
	}
}

func extends(r *rig) {
	d := r.open(small)
	f := r.newFile(d, "f", 0)
	b := r.memory(d, 4096, 5)
	r.check(r.do(d, &aio.Op{Kind: aio.KindWrite, File: f, Buf: b, Off: 8192}))
	want := append(make([]byte, 8192), b...)
	if !bytes.Equal(r.content(d, "f"), want) {
		r.Fatal("the file is not zeros up to the write, and the write")
	}
}

func manyInFlight(r *rig) {
	const n = 200
	d := r.open(aio.Options{Entries: 8, ArenaBytes: 4 << 20, RecvBuffers: 2, RecvBufferBytes: 4096})
	f := r.newFile(d, "f", n*4096)
	data, back := r.memory(d, n*4096, 7), r.memory(d, n*4096, 8)
	o, ops := owner{}, make([]aio.Op, n)
	for _, pass := range []struct {
		kind aio.Kind
		mem  []byte
	}{{aio.KindWrite, data}, {aio.KindRead, back}} {
		o.ops = o.ops[:0]
		for i := range ops {
			at := i * 4096
			ops[i] = aio.Op{Kind: pass.kind, File: f, Buf: pass.mem[at : at+4096], Off: int64(at), Owner: &o}
			d.Submit(&ops[i])
		}
		if d.InFlight() != n {
			r.Fatalf("%d operations in flight, expected %d", d.InFlight(), n)
		}
		r.until("all completions", func() bool { return len(o.ops) == n })
		for i := range ops {
			if ops[i].Err != nil || ops[i].N != 4096 || ops[i].InFlight() {
				r.Fatalf("operation %d: %d bytes, %v", i, ops[i].N, ops[i].Err)
			}
		}
	}
	if !bytes.Equal(data, back) {
		r.Fatal("the bytes read are not those written")
	}
	if d.InFlight() != 0 {
		r.Fatalf("%d operations in flight at the end", d.InFlight())
	}
}

func resubmits(r *rig) {
	const n = 100
	d := r.open(small)
	f := r.newFile(d, "f", n*4096)
	b := r.memory(d, 4096, 9)
	o := owner{}
	o.then = func(op *aio.Op) {
		if op.InFlight() {
			r.Error("an operation is in flight while its last completion is delivered")
		}
		if op.Off += 4096; op.Err == nil && op.Off < n*4096 {
			d.Submit(op)
		}
	}
	op := aio.Op{Kind: aio.KindWrite, File: f, Buf: b, Owner: &o}
	d.Submit(&op)
	r.until("all completions", func() bool { return len(o.ops) == n })
	r.check(op.Err)
	if !bytes.Equal(r.content(d, "f"), bytes.Repeat(b, n)) {
		r.Fatal("not every write arrived")
	}
}

func ownResults(r *rig) {
	const n = 40
	d := r.open(small)
	want := make([]byte, n*4096)
	fill(want, 11)
	r.writeFile(d, "f", want)
	f := r.openFile(d, "f", aio.OpenDirect)
	o, ops := owner{}, make([]aio.Op, n)
	for i := range ops {
		// Large and small reads, so that they overtake each other.
		size := 4096
		if i%3 == 0 {
			size = 65536
		}
		ops[i] = aio.Op{Kind: aio.KindRead, File: f, Buf: r.memory(d, size, 0), Off: int64(i) * 4096, Owner: &o, Tag: uint64(i)}
		d.Submit(&ops[i])
	}
	r.until("all completions", func() bool { return len(o.ops) == n })
	seen := map[uint64]bool{}
	for _, op := range o.ops {
		seen[op.Tag] = true
		size := min(len(op.Buf), len(want)-int(op.Off))
		if op.Err != nil || op.N != size || !bytes.Equal(op.Buf[:size], want[op.Off:int(op.Off)+size]) {
			r.Fatalf("read %d: %d bytes, %v, or other bytes than at %d", op.Tag, op.N, op.Err, op.Off)
		}
	}
	if len(seen) != n {
		r.Fatalf("%d different operations completed, expected %d", len(seen), n)
	}
}

func badFiles(r *rig) {
	d := r.open(small)
	closed := r.newFile(d, "f", 4096)
	r.check(r.file(d, &aio.FileOp{Kind: aio.FileClose, File: closed}))
	b := r.memory(d, 4096, 1)
	for _, f := range []aio.File{closed, aio.NoFile, 12345} {
		r.fails(r.do(d, &aio.Op{Kind: aio.KindRead, File: f, Buf: b}), nil)
		r.fails(r.do(d, &aio.Op{Kind: aio.KindWrite, File: f, Buf: b}), nil)
		r.fails(r.do(d, &aio.Op{Kind: aio.KindFdatasync, File: f}), nil)
		r.fails(r.file(d, &aio.FileOp{Kind: aio.FileSync, File: f}), nil)
		r.fails(r.file(d, &aio.FileOp{Kind: aio.FileClose, File: f}), nil)
	}
}

func misaligned(r *rig) {
	d := r.open(small)
	f := r.newFile(d, "f", 64<<10)
	b := r.memory(d, 8192, 1)
	for _, op := range []aio.Op{
		{Kind: aio.KindWrite, File: f, Buf: b[:4096], Off: 100},
		{Kind: aio.KindWrite, File: f, Buf: b[:100]},
		{Kind: aio.KindRead, File: f, Buf: b[1:4097]},
		{Kind: aio.KindRead, File: f, Buf: b[:4096], Off: -4096},
	} {
		r.fails(r.do(d, &op), syscall.EINVAL)
	}
}
