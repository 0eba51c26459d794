package timesearch

import (
	"testing"

	"github.com/mqd-broker/mqd/batch"
)

// three are three batches of two records each, from offset 10 and time 100 on, a
// record every 10 ms.
func three(t *testing.T, c batch.Codec) []byte {
	t.Helper()
	var all []byte
	for i := range int64(3) {
		b := batch.NewBuilder(nil, 1<<16)
		for k := range int64(2) {
			rec := batch.Record{Value: []byte("a value that is a value that is a value"), Timestamp: 100 + (2*i+k)*10}
			if err := b.Append(&rec); err != nil {
				t.Fatal(err)
			}
		}
		one := b.Finish(c)
		batch.Stamp(one, 10+2*i, 1)
		all = append(all, one...)
	}
	return all
}

func TestJobFindsTheFirstRecordAtOrAfter(t *testing.T) {
	for _, codec := range []batch.Codec{batch.CodecNone, batch.CodecGzip, batch.CodecZstd} {
		all := three(t, codec)
		for time := int64(90); time <= 160; time += 5 {
			// Batches lie across pieces.
			j := Job{Time: time, Pieces: [][]byte{all[:17], all[17:90], all[90:]}}
			if err := j.Run(nil); err != nil {
				t.Fatal(err)
			}
			n := max(0, (time-100+9)/10)
			want := Job{Found: n < 6, Offset: 10 + n, Timestamp: 100 + 10*n}
			if j.Found != want.Found || j.Found && (j.Offset != want.Offset || j.Timestamp != want.Timestamp) {
				t.Fatalf("codec %v, time %d: found %v, offset %d, timestamp %d; expected %+v", codec, time, j.Found, j.Offset, j.Timestamp, want)
			}
		}
	}
}

func TestJobRefusesADamagedBatch(t *testing.T) {
	all := three(t, batch.CodecNone)
	all[len(all)/2] ^= 1
	if err := (&Job{Time: 1 << 40, Pieces: [][]byte{all}}).Run(nil); err == nil {
		t.Fatal("a damaged batch was searched")
	}
}
