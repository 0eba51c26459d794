package batch

import "testing"

// The benchmarks use 64 messages of 180 bytes on average, the project's usual
// batch. ns/msg is what the budgets are stated in.
const benchMessages = 64

func perMessage(b *testing.B, size int) {
	b.SetBytes(int64(size))
	b.ReportAllocs()
	b.Cleanup(func() {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchMessages, "ns/msg")
	})
}

func BenchmarkCheck(b *testing.B) {
	batch := build(b, alerts(benchMessages), CodecNone)
	perMessage(b, len(batch))
	for b.Loop() {
		if _, err := Check(batch, 1<<20); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkStamp(b *testing.B) {
	batch := build(b, alerts(benchMessages), CodecNone)
	perMessage(b, len(batch))
	var offset int64
	for b.Loop() {
		Stamp(batch, offset, 1)
		offset += benchMessages
	}
}

func BenchmarkBuilderAppend(b *testing.B) {
	rs := alerts(benchMessages)
	batch := build(b, rs, CodecNone)
	builder := NewBuilder(make([]byte, 0, len(batch)), len(batch))
	perMessage(b, len(batch))
	for b.Loop() {
		builder.Reset(batch[:0])
		for i := range rs {
			if err := builder.Append(&rs[i]); err != nil {
				b.Fatal(err)
			}
		}
		builder.Finish(CodecNone)
	}
}

func BenchmarkIterate(b *testing.B) {
	batch := build(b, alerts(benchMessages), CodecNone)
	h, err := Check(batch, MaxSize)
	if err != nil {
		b.Fatal(err)
	}
	perMessage(b, len(batch))
	var n int
	for b.Loop() {
		it := h.Records(batch[AtRecords:])
		for it.Next() {
			n += len(it.Record().Value)
		}
		if it.Err() != nil {
			b.Fatal(it.Err())
		}
	}
	if n == 0 {
		b.Fatal("no values")
	}
}

func benchPlain(b *testing.B) []byte {
	p := NewPlainBuilder(nil, MaxSize)
	for _, r := range alerts(benchMessages) {
		if err := p.Append(r.Value); err != nil {
			b.Fatal(err)
		}
	}
	return p.Finish()
}

func BenchmarkCheckPlain(b *testing.B) {
	plain := benchPlain(b)
	perMessage(b, len(plain))
	for b.Loop() {
		if _, err := CheckPlain(plain, MaxSize); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPlainToBatch(b *testing.B) {
	plain := benchPlain(b)
	dst := make([]byte, 0, 2*len(plain))
	perMessage(b, len(plain))
	for b.Loop() {
		if _, err := PlainToBatch(dst, plain, 1); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendPlainFetch(b *testing.B) {
	batch := build(b, alerts(benchMessages), CodecNone)
	h, err := Check(batch, MaxSize)
	if err != nil {
		b.Fatal(err)
	}
	dst := make([]byte, 0, 2*len(batch))
	perMessage(b, len(batch))
	for b.Loop() {
		it := h.Records(batch[AtRecords:])
		if _, _, err := AppendPlainFetch(dst, &it, 0, MaxSize); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCompress(b *testing.B) {
	src := text(12_000)
	for _, c := range allCodecs[1:] {
		b.Run(c.String(), func(b *testing.B) {
			perMessage(b, len(src))
			var dst []byte
			for b.Loop() {
				dst = Compress(dst[:0], c, src)
			}
		})
	}
}

func BenchmarkDecompress(b *testing.B) {
	src := text(12_000)
	for _, c := range allCodecs[1:] {
		b.Run(c.String(), func(b *testing.B) {
			perMessage(b, len(src))
			z := Compress(nil, c, src)
			dst := make([]byte, 0, len(src))
			for b.Loop() {
				if _, err := Decompress(dst, with(c), z, len(src)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
