package portable

import (
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
	"golang.org/x/sys/unix"
)

// idleModes are what a loop does while it waits for a completion.
var idleModes = []struct {
	name string
	wait time.Duration // of Poll
	idle func()        // after an empty Poll
}{
	{"poll-yield", 0, func() { _, _, _ = syscall.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }},
	{"block", time.Second, func() {}},
}

// BenchmarkDurableWrite is a 4 KiB O_DIRECT write with DSYNC, one in flight, over a
// file that has been written before.
func BenchmarkDurableWrite(b *testing.B) {
	for _, mode := range idleModes {
		b.Run(mode.name, func(b *testing.B) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			d := open(b, Config{})
			const size = 16 << 20
			f := newFile(b, d, aio.OpenDirect)
			zeros, err := d.Alloc(1 << 20)
			check(b, err)
			for off := int64(0); off < size; off += 1 << 20 {
				check(b, aio.WriteAt(d, f, zeros, off, 0))
			}
			check(b, aio.Fdatasync(d, f))
			op := aio.Op{Kind: aio.KindWrite, File: f, Buf: zeros[:4096], Flags: aio.FlagDSYNC, Owner: &log{}}
			took := make([]int64, 0, b.N)
			for b.Loop() {
				start := d.clock.Now()
				d.Submit(&op)
				for op.InFlight() {
					n, err := d.Poll(mode.wait)
					if err != nil {
						b.Fatal(err)
					}
					if n == 0 {
						mode.idle()
					}
				}
				took = append(took, d.clock.Now()-start)
				op.Off = (op.Off + 4096) % size
			}
			check(b, op.Err)
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2])/1e3, "p50-us")
			b.ReportMetric(float64(took[len(took)*99/100])/1e3, "p99-us")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkManyReads is 4 KiB O_DIRECT reads, 32 in flight.
func BenchmarkManyReads(b *testing.B) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	d := open(b, Config{})
	const size, flying = 16 << 20, 32
	f := newFile(b, d, aio.OpenDirect)
	mem, err := d.Alloc(1 << 20)
	check(b, err)
	for off := int64(0); off < size; off += 1 << 20 {
		check(b, aio.WriteAt(d, f, mem, off, 0))
	}
	left := 0
	o := &log{then: func(op *aio.Op) {
		if left > 0 && op.Err == nil {
			left--
			op.Off = (op.Off + 4096*flying) % size
			d.Submit(op)
		}
	}}
	ops := make([]aio.Op, flying)
	left = b.N
	b.ResetTimer()
	for i := range ops {
		ops[i] = aio.Op{Kind: aio.KindRead, File: f, Buf: mem[i*4096:][:4096], Off: int64(i) * 4096, Owner: o}
		d.Submit(&ops[i])
	}
	for d.InFlight() > 0 {
		n, err := d.Poll(0)
		if err != nil {
			b.Fatal(err)
		}
		if n == 0 {
			_, _, _ = syscall.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "reads/s")
	b.ReportMetric(0, "ns/op")
}
