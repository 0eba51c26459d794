package ringbuf

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"
)

const (
	benchCapacity = 1024
	patience      = 256 // vain polls in a row before the CPU is offered to others
)

// idle counts vain polls and now and then lets others run.
type idle int

func (i *idle) poll() {
	*i++
	if *i >= patience {
		*i = 0
		relax()
	}
}

// onTwoCPUs runs both functions, each on a thread pinned to its own CPU, and
// measures the first.
func onTwoCPUs(b *testing.B, measured, other func()) {
	b.Helper()
	if runtime.NumCPU() < 2 {
		b.Skip("needs two CPUs: one thread pinned to each")
	}
	ready, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		undo := pin(b, 1)
		defer undo()
		close(ready)
		other()
	}()
	undo := pin(b, 0)
	defer undo()
	<-ready
	b.ReportAllocs()
	b.ResetTimer()
	measured()
	<-done
	b.StopTimer()
}

// BenchmarkThroughput sends descriptors of 64 bytes from one pinned thread to
// another, publishing and releasing every so many.
func BenchmarkThroughput(b *testing.B) {
	for _, batch := range []int{1, 4, 16, 64, 256} {
		b.Run(fmt.Sprintf("ring/batch=%d", batch), func(b *testing.B) {
			r := NewSPSC[descriptor](benchCapacity)
			onTwoCPUs(b, func() { produce(r, b.N, batch) }, func() { consume(r, b.N, batch) })
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "M/s")
		})
	}
	b.Run("channel", func(b *testing.B) {
		c := make(chan descriptor, benchCapacity)
		onTwoCPUs(b, func() {
			for range b.N {
				c <- descriptor{}
			}
		}, func() {
			for range b.N {
				<-c
			}
		})
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "M/s")
	})
}

func produce(r *SPSC[descriptor], messages, batch int) {
	var vain idle
	var v descriptor
	for sent := 0; sent < messages; {
		v.words[0] = uint64(sent)
		if !r.Push(v) {
			r.Publish()
			vain.poll()
			continue
		}
		sent++
		if sent%batch == 0 {
			r.Publish()
		}
	}
	r.Publish()
}

func consume(r *SPSC[descriptor], messages, batch int) {
	var vain idle
	for taken := 0; taken < messages; {
		if _, ok := r.Take(); !ok {
			r.Release()
			vain.poll()
			continue
		}
		taken++
		if taken%batch == 0 {
			r.Release()
		}
	}
	r.Release()
}

// BenchmarkOneWay sends a descriptor to another pinned thread and back, one at a
// time. Half of a round trip is the one-way latency; its median and p99 contain
// half of a clock reading each.
func BenchmarkOneWay(b *testing.B) {
	b.Run("ring", func(b *testing.B) {
		there, back := NewSPSC[descriptor](benchCapacity), NewSPSC[descriptor](benchCapacity)
		pop := func(r *SPSC[descriptor]) descriptor {
			var vain idle
			for {
				if v, ok := r.Pop(); ok {
					return v
				}
				vain.poll()
			}
		}
		push := func(r *SPSC[descriptor], v descriptor) {
			if !r.Push(v) {
				b.Error("a ring with one message is full")
			}
			r.Publish()
		}
		pingPong(b,
			func() { push(there, descriptor{}); pop(back) },
			func() { push(back, pop(there)) })
	})
	b.Run("channel", func(b *testing.B) {
		there, back := make(chan descriptor, benchCapacity), make(chan descriptor, benchCapacity)
		pingPong(b,
			func() { there <- descriptor{}; <-back },
			func() { back <- <-there })
	})
}

// pingPong measures b.N round trips, one by one.
func pingPong(b *testing.B, ping, pong func()) {
	trips := make([]time.Duration, b.N)
	onTwoCPUs(b, func() {
		last := time.Now()
		for i := range trips {
			ping()
			now := time.Now()
			trips[i], last = now.Sub(last), now
		}
	}, func() {
		for range b.N {
			pong()
		}
	})
	slices.Sort(trips)
	b.ReportMetric(float64(trips[len(trips)/2])/2, "p50-ns")
	b.ReportMetric(float64(trips[len(trips)*99/100])/2, "p99-ns")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/2, "ns/one-way")
}

// BenchmarkMeshTurn is what a message costs the two shards of a mesh without any
// memory traffic between cores: both run on one thread, in turns of 16 requests.
func BenchmarkMeshTurn(b *testing.B) {
	const batch = 16
	for _, shards := range []int{2, 8, 64} {
		b.Run(fmt.Sprintf("shards=%d", shards), func(b *testing.B) {
			m := NewMesh[descriptor](shards, batch)
			asking, answering := m.Port(0), m.Port(shards-1)
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N / batch {
				for range batch {
					asking.Send(shards-1, descriptor{})
				}
				asking.Publish()
				asking.TakeSleepers()
				for from, v, ok := answering.NextRequest(); ok; from, v, ok = answering.NextRequest() {
					answering.Reply(from, v)
				}
				answering.Publish()
				answering.TakeSleepers()
				for _, _, ok := asking.NextReply(); ok; _, _, ok = asking.NextReply() {
				}
			}
		})
	}
}
