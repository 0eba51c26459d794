package sim_test

import (
	"testing"
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
)

// BenchmarkDurableWrite is the cost of one simulated DSYNC write of 4 KiB.
func BenchmarkDurableWrite(b *testing.B) {
	for name, mode := range map[string]sim.Mode{"virtual": sim.Virtual, "real": sim.RealTime} {
		b.Run(name, func(b *testing.B) {
			w := sim.New(sim.Options{Seed: 1, Mode: mode})
			d := w.Driver(aio.Options{})
			f, _, err := aio.OpenFile(d, "/f", aio.OpenWrite|aio.OpenCreate)
			if err != nil {
				b.Fatal(err)
			}
			buf, err := d.Alloc(4096)
			if err != nil {
				b.Fatal(err)
			}
			buf[0] = 1
			o := &counter{}
			op := aio.Op{Kind: aio.KindWrite, File: f, Buf: buf, Flags: aio.FlagDSYNC, Owner: o}
			b.ReportAllocs()
			for b.Loop() {
				d.Submit(&op)
				for op.InFlight() {
					if _, err := d.Poll(time.Second); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

type counter struct{ n int }

func (c *counter) Complete(*aio.Op) { c.n++ }
