package segment

import (
	"bytes"
	"encoding/hex"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/mqd-broker/mqd/batch"
)

var update = flag.Bool("update", false, "write golden files that do not exist")

// goldenLog is a log that no random source and no builder takes part in: five
// batches, a recorded gap, two epochs.
func goldenLog(t testing.TB) *testLog {
	l := newTestLog(testID)
	l.newEpoch(3)
	for i, size := range []int{1500, 3000, 200, 2500, 1000} {
		if i == 2 {
			l.gap(50)
			l.newEpoch(4)
		}
		record := []byte{0, 0, 0, 0, 1} // attributes, deltas, empty key -1 as zigzag
		record = append(record, bytes.Repeat([]byte{byte('a' + i)}, size)...)
		h := batch.Header{
			Length: int32(batch.HeaderSize - batch.LengthPrefix + len(record)), Magic: batch.Magic,
			BaseTimestamp: 1_700_000_000_000 + int64(i), MaxTimestamp: 1_700_000_000_100 - int64(i),
			LastOffsetDelta: int32(i), Count: int32(i + 1), ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1,
		}
		raw := append(make([]byte, batch.HeaderSize), record...)
		h.Put(raw)
		h.CRC = batch.Checksum(raw)
		h.Put(raw)
		l.appendRaw(t, raw)
	}
	return l
}

// goldenFiles are the encodings of every form, by the name of their file.
func goldenFiles(t testing.TB) map[string][]byte {
	l := goldenLog(t)
	open := l.index(DefaultIndexInterval)
	data := AppendHeader(nil, open, 1_800_000_000_000_000_000)
	data = AppendEntries(data, open, 0, open.Len())

	_, fs := newDisk(t)
	whole := sealed(t, fs, l)

	rotten := goldenLog(t)
	rotten.data[rotten.batches[1].Pos+100] ^= 1
	_, fs = newDisk(t)
	damaged := sealed(t, fs, rotten)
	return map[string][]byte{
		"log-1.log":             l.data,
		"index-1-open.index":    data,
		"index-1-sealed.index":  AppendSealed(nil, whole, 1_800_000_000_000_000_000),
		"index-1-damaged.index": AppendSealed(nil, damaged, 1_800_000_000_000_000_000),
	}
}

func TestFilesAreByteForByteTheGoldenOnes(t *testing.T) {
	for name, got := range goldenFiles(t) {
		path := filepath.Join("testdata", "golden", name)
		want, err := os.ReadFile(path)
		if os.IsNotExist(err) && *update {
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			i := 0
			for i < len(got) && i < len(want) && got[i] == want[i] {
				i++
			}
			t.Errorf("%s differs at byte %d of %d (golden %d): %s", name, i, len(got), len(want), hex.EncodeToString(got[i:min(i+16, len(got))]))
		}
	}
}

func TestGoldenIndexesDecode(t *testing.T) {
	l := goldenLog(t)
	want := l.index(DefaultIndexInterval)
	for name, data := range goldenFiles(t) {
		switch name {
		case "index-1-open.index":
			ix := salvage(data, testID)
			if ix.Len() != want.Len() || ix.NewestAppend() != want.At(want.Len()-1).AppendTime {
				t.Errorf("open: %+v, want %+v", ix, want)
			}
			for i := range want.Len() {
				equal(t, name, ix.At(i), want.At(i))
			}
		case "index-1-sealed.index":
			ix, err := Decode(data, testID, nil)
			if err != nil {
				t.Fatal(err)
			}
			s := ix.Sealed()
			ix.sealed = nil
			equal(t, name, ix, want)
			if s.Batches != 5 || s.Records != 15 || s.MinTimestamp != 1_700_000_000_000 || s.LogBytes != int64(len(l.data)) || s.Flags != 0 {
				t.Errorf("sealed: %+v", s)
			}
		case "index-1-damaged.index":
			ix, err := Decode(data, testID, nil)
			if err != nil {
				t.Fatal(err)
			}
			b := l.batches[1]
			equal(t, name, ix.Quarantine(), []Range{{
				FromOffset: b.BaseOffset, ToOffset: b.LastOffset + 1, FromPos: b.Pos, ToPos: b.End(), Check: CheckCRC,
			}})
		}
	}
}
