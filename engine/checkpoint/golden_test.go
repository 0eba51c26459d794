package checkpoint

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/mqd-broker/mqd/engine/producers"
)

var update = flag.Bool("update", false, "write golden files that do not exist")

func id(first byte) [16]byte {
	var b [16]byte
	for i := range b {
		b[i] = first + byte(i)
	}
	return b
}

// goldenSnapshot has every field set to a value of its own.
func goldenSnapshot() *Snapshot {
	s := &Snapshot{
		Header: Header{
			Node: id(0x10), Journal: id(0x30), Shard: 2, Shards: 3, Flags: FlagClean, Sequence: 7,
			LSN: 0x0102030405060708, Incarnation: 9, Wall: 1_800_000_000_000_000_000, AppendTime: 1_800_000_000_000_000_001,
			Boot: id(0x50), Device: 0xfe01, Mount: 0xfe02,
		},
		Slots: []Slot{{Slot: 3, Term: 12, Index: 99}, {Slot: 63, Term: MaxTerm, Index: 1 << 40}},
		Partitions: []Partition{
			{
				Topic: id(0x70), Partition: 4, Slot: 3, Class: 3, Term: 12, SegmentBase: 1000, End: 123_456,
				NextOffset: 5000, LogStart: 77, Reserved: 0, MaxTimestamp: 1_700_000_000_000, NewestAppend: 1_800_000_000_000_000_000,
				Producers: []producers.State{
					{ID: 0x0807060504030201, Epoch: 0x0a0b, Jumps: true, N: 1, Batches: [producers.Window]producers.Batch{{Base: 4999, AppendTime: 1_800_000_000_000_000_000, Sequence: 1<<31 - 1, Count: 1}}},
					{ID: 0, N: 5, Batches: [producers.Window]producers.Batch{
						{Base: 1000, AppendTime: 11, Sequence: 0, Count: 10}, {Base: 1010, AppendTime: 12, Sequence: 10, Count: 1},
						{Base: 2000, AppendTime: 13, Sequence: 11, Count: 2}, {Base: 2002, AppendTime: 14, Sequence: 13, Count: 3},
						{Base: 4000, AppendTime: 15, Sequence: 16, Count: 900},
					}},
				},
			},
			{Topic: id(0x90), Partition: 0, Slot: 63, Class: 1, Term: 13, NextOffset: 9000, Reserved: 12_000, MaxTimestamp: -1 << 63},
			{Topic: id(0xb0), Partition: 1<<32 - 1, Slot: 63, Class: 2},
		},
	}
	e := &s.Partitions[1].Epochs
	e.Begin(3, 0, ReasonStart)
	e.Begin(5, 100, ReasonMove)
	e.BeginAfterGap(13, 4000, 8000, ReasonCrash)
	return s
}

// salvagedSnapshot is one in which offsets were given up: within an epoch, over the end of
// one, before a gap and at the end of the log.
func salvagedSnapshot() *Snapshot {
	s := goldenSnapshot()
	for _, r := range [][2]int64{{20, 30}, {90, 110}, {3900, 4000}, {8990, 9000}} {
		if err := s.Partitions[1].Epochs.GiveUp(r[0], r[1]); err != nil {
			panic(err)
		}
	}
	return s
}

// forsakenSnapshot is one whose journal is given up.
func forsakenSnapshot() *Snapshot {
	s := goldenSnapshot()
	s.Flags = FlagForsaken
	return s
}

func goldenNode() Node {
	return Node{ID: id(0x10), Created: 1_790_000_000_000_000_000, Slots: 64, Shards: 3, Starts: 12}
}

// encode writes s by the writer.
func encode(w *Writer, s *Snapshot) []byte {
	w.Begin(s.Slots)
	for i := range s.Partitions {
		w.Add(&s.Partitions[i])
	}
	return w.Finish(&s.Header)
}

func goldenFiles() map[string][]byte {
	n := goldenNode()
	return map[string][]byte{
		"checkpoint-2b.bin":          encode(new(Writer), goldenSnapshot()),
		"checkpoint-2b-salvaged.bin": encode(new(Writer), salvagedSnapshot()),
		"checkpoint-2b-forsaken.bin": encode(new(Writer), forsakenSnapshot()),
		"node-1.bin":                 AppendNode(nil, &n),
	}
}

func TestFilesAreByteForByteTheGoldenOnes(t *testing.T) {
	for name, got := range goldenFiles() {
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
			t.Errorf("%s differs at byte %d of %d (golden %d)", name, i, len(got), len(want))
		}
	}
}

func TestGoldenFilesDecode(t *testing.T) {
	files := goldenFiles()
	s, err := Decode(files["checkpoint-2b.bin"])
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "checkpoint", s, goldenSnapshot())
	if s, err = Decode(files["checkpoint-2b-salvaged.bin"]); err != nil {
		t.Fatal(err)
	}
	equal(t, "salvaged checkpoint", s, salvagedSnapshot())
	n, err := DecodeNode(files["node-1.bin"])
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "node", n, goldenNode())
}

// What earlier versions could write is read: the first has everything but producers, and
// both have a number where zeros stand now.
func TestEarlierFilesAreRead(t *testing.T) {
	first := goldenSnapshot()
	first.Partitions[0].Producers = nil
	for name, want := range map[string]*Snapshot{
		"checkpoint-1.bin":          first,
		"checkpoint-2.bin":          goldenSnapshot(),
		"checkpoint-2-salvaged.bin": salvagedSnapshot(),
		"checkpoint-2-forsaken.bin": forsakenSnapshot(),
	} {
		data, err := os.ReadFile(filepath.Join("testdata", "golden", name))
		if err != nil {
			t.Fatal(err)
		}
		s, err := Decode(data)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, name, s, want)
		if at := headerBytes + len(s.Slots)*slotBytes; allZero(data[at+pUnused : at+pSegmentBase]) {
			t.Errorf("%s has zeros where a number was", name)
		}
	}
}

// equal fails t unless got is deeply equal to want.
func equal(t testing.TB, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%s:\n got %+v\nwant %+v", what, got, want)
	}
}
