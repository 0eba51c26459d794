package uring

import (
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
)

// idleMode is what a loop does while it waits for a completion.
type idleMode struct {
	name string
	wait time.Duration // of Poll
	idle func()        // after an empty Poll
}

var idleModes = []idleMode{
	{"poll-yield", 0, SchedYield},
	{"block", time.Second, func() {}},
}

// turn polls once, and idles if that brought nothing.
func (m idleMode) turn(b *testing.B, d *Driver) {
	n, err := d.Poll(m.wait)
	if err != nil { // not by check: that costs as much as an empty Poll
		b.Fatal(err)
	}
	if n == 0 {
		m.idle()
	}
}

// quantiles reports the median and the 99th percentile of durations in
// microseconds.
func quantiles(b *testing.B, ns []int64) {
	slices.Sort(ns)
	at := func(q float64) float64 { return float64(ns[int(q*float64(len(ns)-1))]) / 1e3 }
	b.ReportMetric(at(0.50), "p50-us")
	b.ReportMetric(at(0.99), "p99-us")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkDurableWrite is a 4 KiB O_DIRECT write with DSYNC, one in flight, over
// a file that has been written before.
func BenchmarkDurableWrite(b *testing.B) {
	for _, mode := range idleModes {
		b.Run(mode.name, func(b *testing.B) {
			d := open(b, aio.Options{ArenaBytes: 4 << 20}, Config{})
			const size = 16 << 20
			f := newFile(b, d, size)
			zeros := memory(b, d, 1<<20)
			clear(zeros)
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
					mode.turn(b, d)
				}
				took = append(took, d.clock.Now()-start)
				op.Off = (op.Off + 4096) % size
			}
			check(b, op.Err)
			quantiles(b, took)
		})
	}
}

// echo sends back what it receives.
type echo struct {
	d    *Driver
	sock aio.Sock
	send aio.Op
	vec  [1][]byte
}

func (e *echo) Complete(op *aio.Op) {
	switch {
	case op == &e.send:
		e.d.ReleaseBuf(aio.BufID(op.Tag))
	case len(op.Data) > 0:
		e.vec[0] = op.Data
		e.send = aio.Op{Kind: aio.KindSend, Sock: e.sock, Vec: e.vec[:], Owner: e, Tag: uint64(op.BufID)}
		e.d.Submit(&e.send)
	}
}

// BenchmarkPingPong is a message of 180 bytes there and back over loopback TCP,
// both ends on drivers of their own.
func BenchmarkPingPong(b *testing.B) {
	for _, mode := range idleModes {
		b.Run(mode.name, func(b *testing.B) {
			d := open(b, aio.Options{ArenaBytes: 1 << 20}, Config{})
			near, far := pair(b, d)
			var stop atomic.Bool
			peer := make(chan *Driver)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				runtime.LockOSThread()
				s, err := New(aio.Options{ArenaBytes: 1 << 20}, Config{})
				if err != nil {
					b.Error(err)
					return
				}
				e := &echo{d: s, sock: far}
				s.Submit(&aio.Op{Kind: aio.KindRecv, Sock: far, Owner: e})
				peer <- s
				for !stop.Load() {
					mode.turn(b, s)
				}
				if err := s.Close(); err != nil {
					b.Error(err)
				}
			}()
			s := <-peer
			const size = 180
			got := 0
			recv := aio.Op{Kind: aio.KindRecv, Sock: near, Owner: &log{then: func(op *aio.Op) {
				if len(op.Data) > 0 {
					got += len(op.Data)
					d.ReleaseBuf(op.BufID)
				}
			}}}
			d.Submit(&recv)
			send := aio.Op{Kind: aio.KindSend, Sock: near, Vec: [][]byte{memory(b, d, size)}, Owner: &log{}}
			took := make([]int64, 0, b.N)
			for b.Loop() {
				start := d.clock.Now()
				d.Submit(&send)
				for got = 0; got < size || send.InFlight(); {
					mode.turn(b, d)
				}
				took = append(took, d.clock.Now()-start)
			}
			quantiles(b, took)
			stop.Store(true)
			s.Wake()
			<-ended
		})
	}
}

// BenchmarkTurn is what the driver costs by itself: polls that find nothing, and
// operations that do nothing in the kernel.
func BenchmarkTurn(b *testing.B) {
	b.Run("empty-poll", func(b *testing.B) {
		d := open(b, small, Config{})
		_, err := d.Poll(time.Millisecond)
		check(b, err)
		for b.Loop() {
			if _, err := d.Poll(0); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, n := range []int{1, 8, 32} {
		b.Run(fmt.Sprintf("empty-reads-%d", n), func(b *testing.B) {
			d := open(b, aio.Options{Entries: 64, ArenaBytes: 1 << 20}, Config{})
			path := b.TempDir() + "/f"
			f, _, err := aio.OpenFile(d, path, aio.OpenWrite|aio.OpenCreate)
			check(b, err)
			buf := memory(b, d, 4096)
			ops := make([]aio.Op, n)
			o := &log{}
			for b.Loop() {
				for i := range ops {
					ops[i] = aio.Op{Kind: aio.KindRead, File: f, Buf: buf, Owner: o}
					d.Submit(&ops[i])
				}
				for d.InFlight() > 0 {
					if _, err := d.Poll(0); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/operation")
		})
	}
}
