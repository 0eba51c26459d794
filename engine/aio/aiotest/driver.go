package aiotest

import (
	"unsafe"

	"github.com/mqd-broker/mqd/engine/aio"
)

var driverTests = []test{
	{"has a name", func(r *rig) {
		if r.open(small).Name() == "" {
			r.Fatal("the driver has no name")
		}
	}},
	{"memory is aligned and apart", allocates},
	{"memory runs out with an error", func(r *rig) {
		d := r.open(aio.Options{Entries: 8, ArenaBytes: 64 << 10, RecvBuffers: 2, RecvBufferBytes: 4096})
		for range 1000 {
			if _, err := d.Alloc(8192); err != nil {
				r.fails(err, aio.ErrNoMemory)
				return
			}
		}
		r.Fatal("an arena of 64 KiB gave 8 MB away")
	}},
	{"random numbers differ", func(r *rig) {
		d, seen := r.open(small), map[uint64]bool{}
		for range 100 {
			seen[d.Rand()] = true
		}
		if len(seen) < 100 {
			r.Fatalf("100 random numbers have %d values", len(seen))
		}
	}},
	{"clocks run forward", func(r *rig) {
		d := r.open(small)
		c := d.Clock()
		last, wall := c.Now(), c.Wall()
		const year2020 = 1577836800e9
		if wall < year2020 {
			r.Fatalf("wall time is %d", wall)
		}
		for range 100 {
			_, err := d.Poll(0)
			r.check(err)
			now := c.Now()
			if now < last {
				r.Fatalf("time went back from %d to %d", last, now)
			}
			last = now
		}
	}},
}

func allocates(r *rig) {
	d := r.open(small)
	var all [][]byte
	for _, n := range []int{4096, 1, 4097, 65536, 100, 1 << 20} {
		b, err := d.Alloc(n)
		r.check(err)
		if len(b) != n {
			r.Fatalf("asked for %d bytes, got %d", n, len(b))
		}
		if p := uintptr(unsafe.Pointer(unsafe.SliceData(b))); p%aio.BlockSize != 0 {
			r.Fatalf("memory at %#x is not aligned", p)
		}
		all = append(all, b)
	}
	for i, b := range all {
		fill(b, byte(i))
	}
	for i, b := range all {
		for j, v := range b {
			if v != pattern(int64(j), byte(i)) {
				r.Fatalf("allocation %d was overwritten at %d by another", i, j)
			}
		}
	}
}
