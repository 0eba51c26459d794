package native

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/net/wire"
)

// stored makes a batch as it is stored at an offset.
func stored(codec batch.Codec, attributes batch.Attributes, base int64, values ...[]byte) []byte {
	bl := batch.NewBuilder(nil, batch.MaxSize)
	for _, v := range values {
		if err := bl.Append(&batch.Record{Timestamp: 1, Value: v}); err != nil {
			panic(err)
		}
	}
	b := bl.Finish(codec)
	h, err := batch.ParseHeader(b)
	if err != nil {
		panic(err)
	}
	h.Attributes |= attributes
	h.Put(b)
	binary.BigEndian.PutUint32(b[batch.AtCRC:], batch.Checksum(b))
	batch.Stamp(b, base, 1)
	return b
}

func TestBatchesAreFoundWhereverTheirPiecesAreCut(t *testing.T) {
	var want [][]byte
	var all []byte
	for i := range 4 {
		b := stored(0, 0, int64(i), bytes.Repeat([]byte{byte(i)}, 10*i))
		want = append(want, b)
		all = append(all, b...)
	}
	var r pieceReader
	for i := range len(all) + 1 {
		for j := i; j <= len(all); j += 7 {
			r.begin([][]byte{all[:i], nil, all[i:j], all[j:]})
			for k, w := range want {
				if got := r.batch(); !bytes.Equal(got, w) {
					t.Fatalf("cut at %d and %d: batch %d has %d bytes, want %d", i, j, k, len(got), len(w))
				}
			}
			if r.batch() != nil {
				t.Fatalf("cut at %d and %d: one batch too many", i, j)
			}
		}
	}
}

// converted runs a conversion over batches, from an offset on.
func converted(from int64, limit int, batches ...[]byte) *plainWork {
	w := &plainWork{q: &fetchRequest{}}
	w.q.f.Offset = from
	w.next = 1000
	for _, b := range batches {
		if !w.add(b, limit) {
			break
		}
	}
	return w
}

func bodies(t *testing.T, b []byte) (offsets []int64) {
	t.Helper()
	it := batch.PlainFetched(b)
	for it.Next() {
		offsets = append(offsets, it.Offset())
	}
	if it.Err() != nil {
		t.Fatal(it.Err())
	}
	return offsets
}

func TestControlBatchesHoldNoMessages(t *testing.T) {
	w := converted(0, 1<<20, stored(0, 0, 0, []byte("a")), stored(0, batch.AttrControl|batch.AttrTransactional, 1, []byte("x")), stored(0, 0, 2, []byte("b")))
	if got := bodies(t, w.out); len(got) != 2 || got[1] != 2 || w.code != wire.CodeNone || w.next != 1000 {
		t.Errorf("offsets %v, code %v, next %d", got, w.code, w.next)
	}
}

func TestADamagedBatchIsReportedAndPassedOver(t *testing.T) {
	good, bad := stored(0, 0, 5, []byte("a"), []byte("b")), stored(batch.CodecGzip, 0, 7, bytes.Repeat([]byte("x"), 1000), []byte("y"))
	bad[len(bad)-3] ^= 1
	if w := converted(5, 1<<20, good, bad); len(bodies(t, w.out)) != 2 || w.code != wire.CodeNone || w.next != 7 {
		t.Errorf("behind a good one: %d bytes, code %v, next %d", len(w.out), w.code, w.next)
	}
	if w := converted(7, 1<<20, bad); len(w.out) != 0 || w.code != wire.CodeCorrupt || w.next != 9 {
		t.Errorf("alone: %d bytes, code %v, next %d", len(w.out), w.code, w.next)
	}
	if w := converted(7, 1<<20, []byte("this is not a batch, and too short for one")); w.code != wire.CodeCorrupt {
		t.Errorf("no batch: %v", w.code)
	}
}

func TestABatchThatDecompressesToTooMuchIsPassedOver(t *testing.T) {
	bomb := stored(batch.CodecZstd, 0, 3, make([]byte, batch.DefaultDecodeLimit+1))
	if w := converted(3, 1<<20, bomb); w.code != wire.CodeCorrupt || w.next != 4 || len(w.out) != 0 {
		t.Errorf("code %v, next %d, %d bytes", w.code, w.next, len(w.out))
	}
}

func TestTheFirstMessageIsSentHoweverLargeItIs(t *testing.T) {
	b := stored(0, 0, 10, []byte("small"), bytes.Repeat([]byte("x"), 5000), []byte("small"))
	for from, want := range map[int64]int64{10: 11, 11: 12, 12: 1000} {
		if w := converted(from, 30, b); len(bodies(t, w.out)) != 1 || bodies(t, w.out)[0] != from || w.next != want {
			t.Errorf("from %d: %v, next %d", from, bodies(t, w.out), w.next)
		}
	}
}
