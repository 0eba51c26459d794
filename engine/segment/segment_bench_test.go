package segment

import (
	"bytes"
	"io"
	"testing"
)

func BenchmarkIndexAdd(b *testing.B) {
	ix := NewIndex(ID{}, DefaultIndexInterval, nil)
	x := Batch{Size: 12_000, BaseOffset: -64}
	for b.Loop() {
		if ix.End() > DefaultSegmentBytes {
			ix.Release()
			ix, x.BaseOffset = NewIndex(ID{}, DefaultIndexInterval, nil), -64
		}
		x.Pos, x.BaseOffset = ix.End(), x.BaseOffset+64
		x.LastOffset = x.BaseOffset + 63
		ix.Add(&x)
	}
}

func BenchmarkIndexFloor(b *testing.B) {
	ix := NewIndex(ID{}, DefaultIndexInterval, nil)
	x := Batch{Size: DefaultIndexInterval, BaseOffset: -1}
	for ix.Fits(x.Size, x.LastOffset+1, DefaultSegmentBytes) {
		x.Pos, x.BaseOffset = ix.End(), x.BaseOffset+1
		x.LastOffset = x.BaseOffset
		ix.Add(&x)
	}
	offset := int64(1)
	for b.Loop() {
		offset = (offset*48271 + 11) % ix.NextOffset()
		if e, ok := ix.Floor(offset); !ok || e.Offset != offset {
			b.Fatal(e)
		}
	}
}

func BenchmarkScan(b *testing.B) {
	for name, values := range map[string][]int{"1x180": {180}, "64x180": make64(180)} {
		b.Run(name, func(b *testing.B) {
			l := newTestLog(testID)
			rng := newRand(b, 61)
			for len(l.data) < 8<<20 {
				l.append(b, rng, values...)
			}
			b.SetBytes(int64(len(l.data)))
			for b.Loop() {
				if _, err := Scan(bytes.NewReader(l.data), l.options(), func(*Batch) error { return nil }); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func make64(n int) []int {
	values := make([]int, 64)
	for i := range values {
		values[i] = n
	}
	return values
}

func BenchmarkCheckRegions(b *testing.B) {
	data := make([]byte, readBytes)
	l := newJobReader(io.NewSectionReader(bytes.NewReader(data), 0, readBytes), readBytes)
	regions, err := l.allRegions()
	if err != nil {
		b.Fatal(err)
	}
	ix := NewIndex(ID{}, DefaultIndexInterval, nil)
	ix.sealed = &Sealed{LogBytes: readBytes, regions: regions}
	b.SetBytes(readBytes)
	for b.Loop() {
		if err := CheckRegions(ix, 0, data); err != nil {
			b.Fatal(err)
		}
	}
}
