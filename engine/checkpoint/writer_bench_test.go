package checkpoint

import "testing"

func BenchmarkWriterAdd(b *testing.B) {
	var w Writer
	p := goldenSnapshot().Partitions[1]
	w.Begin(nil)
	for b.Loop() {
		if w.Len() > 4<<20 {
			w.Finish(&Header{})
			w.Begin(nil)
		}
		w.Add(&p)
	}
}
