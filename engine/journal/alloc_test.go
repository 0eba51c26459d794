package journal

import "testing"

func TestAppendAndKickAllocateNothing(t *testing.T) {
	for name, o := range map[string]Options{
		"dsync":       {},
		"write+flush": {Method: MethodWriteFlush},
		"in flight 4": {MaxInFlight: 4},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, 512*BlockSize, o)
			b.region.quiet = true
			small, large := testBatch(1, 180), testBatch(1, 20000)
			parts := [][]byte{small[:50], small[50:]}
			e := Entry{Kind: KindBatch, Topic: [16]byte{1}, BaseOffset: 1}
			turn := func() {
				for range 3 {
					if _, err := b.j.Append(&e, small, NeedFlushed); err != nil {
						t.Fatal(err)
					}
					if _, err := b.j.AppendVec(&e, parts, NeedWritten); err != nil {
						t.Fatal(err)
					}
					if _, err := b.j.Append(&e, large, NeedNone); err != nil {
						t.Fatal(err)
					}
				}
				b.silence(2)
				b.silence(2)
				b.j.Release(b.j.WrittenLSN())
				b.run()
			}
			turn()
			if n := testing.AllocsPerRun(200, turn); n != 0 {
				t.Fatalf("%v allocations a turn", n)
			}
			if s := b.j.Stats(); s.Wraps == 0 || s.Marks == 0 || s.Anchors == 0 {
				t.Fatalf("not everything was exercised: %+v", s)
			}
		})
	}
}

// BenchmarkScan replays a ring of 64 MiB, half of it in use.
func BenchmarkScan(b *testing.B) {
	bench := newBench(b, 64<<20, Options{})
	bench.region.quiet = true
	for bench.j.Free() > 32<<20 {
		for range 20 {
			bench.add(5000, NeedFlushed)
		}
		bench.run()
	}
	s, err := NewScanner(bench.d)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(64 << 20)
	b.ResetTimer()
	for range b.N {
		if _, err := s.Scan(bench.region, nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	bench := newBench(b, 4096*BlockSize, Options{})
	bench.region.quiet = true
	batch := testBatch(1, 11520)
	e := Entry{Kind: KindBatch, BaseOffset: 1}
	b.SetBytes(int64(len(batch)))
	b.ReportAllocs()
	for i := range b.N {
		if _, err := bench.j.Append(&e, batch, NeedFlushed); err != nil {
			b.Fatal(err)
		}
		if i%8 == 7 {
			bench.now += 1000
			bench.j.Kick(bench.now)
			bench.region.settle()
			bench.j.Release(bench.j.WrittenLSN())
			bench.region.settle()
		}
	}
}
