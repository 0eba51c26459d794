package checkpoint

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// drawHistory makes a table and, for every offset, the epoch that wrote it, gapOwner for
// none.
func drawHistory(t *rapid.T) (table EpochTable, owner []int32) {
	epoch := rapid.Int32Range(0, 3).Draw(t, "first epoch")
	table.Begin(epoch, 0, ReasonStart)
	for range rapid.IntRange(1, 8).Draw(t, "epochs") {
		for range rapid.IntRange(0, 12).Draw(t, "records") {
			owner = append(owner, epoch)
		}
		from := int64(len(owner))
		for range rapid.IntRange(0, 5).Draw(t, "gap") {
			owner = append(owner, gapOwner)
		}
		epoch += rapid.Int32Range(1, 3).Draw(t, "epoch")
		if to := int64(len(owner)); to > from {
			table.BeginAfterGap(epoch, from, to, ReasonCrash)
		} else {
			table.Begin(epoch, to, ReasonStart)
		}
	}
	for range 4 {
		owner = append(owner, epoch)
	}
	return table, owner
}

// TestWhatIsGivenUpIsAGapAndNothingElseIs gives up ranges of a random history, one after
// the other, and holds the table, also one that has been written and read again, against
// the owner of every offset.
func TestWhatIsGivenUpIsAGapAndNothingElseIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table, owner := drawHistory(t)
		for range rapid.IntRange(1, 6).Draw(t, "ranges") {
			from := rapid.IntRange(0, len(owner)-1).Draw(t, "from")
			to := rapid.IntRange(from+1, len(owner)).Draw(t, "to")
			if err := table.GiveUp(int64(from), int64(to)); err != nil {
				t.Fatal(err)
			}
			for i := from; i < to; i++ {
				owner[i] = gapOwner
			}
		}
		newest, _ := table.Last()
		next := newest.Epoch + 1 // and the log goes on
		table.Begin(next, int64(len(owner)), ReasonStart)
		owner = append(owner, next)
		s := Snapshot{Partitions: []Partition{{NextOffset: int64(len(owner)), Epochs: table}}, Slots: []Slot{}}
		read, err := Decode(encode(new(Writer), &s))
		if err != nil {
			t.Fatalf("%v: %+v", err, table.list)
		}
		if got := read.Partitions[0].Epochs; !reflect.DeepEqual(got, table) {
			t.Fatalf("read %+v, written %+v", got, table)
		}
		whole := int64(len(owner))
		for at := range whole {
			end := at
			for end < whole && owner[end] == gapOwner {
				end++
			}
			if got := table.SkipGap(at); got != end {
				t.Fatalf("behind the gap at %d comes %d, expected %d: %+v", at, got, end, table.list)
			}
			if owner[at] != gapOwner {
				if epoch, ok := table.EpochAt(at); !ok || epoch != owner[at] {
					t.Fatalf("offset %d is of epoch %d, expected %d: %+v", at, epoch, owner[at], table.list)
				}
			}
			if !table.AllowsGap(at, end) || end+1 < whole && table.AllowsGap(at, end+1) {
				t.Fatalf("a jump from %d to %d is not judged right: %+v", at, end, table.list)
			}
		}
	})
}

func TestNothingIsGivenUpWhereHistoryIsNotKnown(t *testing.T) {
	var table EpochTable
	if err := table.GiveUp(3, 4); !errors.Is(err, ErrHistory) {
		t.Errorf("an empty table: %v", err)
	}
	table.Begin(1, 100, ReasonStart)
	if err := table.GiveUp(99, 101); !errors.Is(err, ErrHistory) || table.Len() != 1 {
		t.Errorf("below the first epoch: %v, %d entries", err, table.Len())
	}
	for i := range int64(MaxEpochs - 1) {
		if err := table.GiveUp(200+10*i, 205+10*i); err != nil {
			t.Fatal(err)
		}
	}
	if err := table.GiveUp(100_000, 100_001); !errors.Is(err, ErrHistory) || table.Len() != MaxEpochs || table.Coarse() != 0 {
		t.Errorf("a full table: %v, %d entries, coarse below %d", err, table.Len(), table.Coarse())
	}
}

// An older program must not take a table in which offsets were given up for one that it
// understands.
func TestATableWithLossesIsARequiredFeature(t *testing.T) {
	b := encode(new(Writer), salvagedSnapshot())
	if got := binary.BigEndian.Uint32(b[hRequired:]); got != needGivenUp {
		t.Fatalf("required features %d", got)
	}
	if got := binary.BigEndian.Uint32(encode(new(Writer), goldenSnapshot())[hRequired:]); got != 0 {
		t.Fatalf("required features %d without losses", got)
	}
	for required, want := range map[uint32]error{0: ErrDamaged, 2: ErrUnsupported, 3: ErrUnsupported} {
		binary.BigEndian.PutUint32(b[hRequired:], required)
		binary.BigEndian.PutUint32(b[hCRC:], crc32.Checksum(b[:hCRC], castagnoli))
		if _, err := Decode(b); !errors.Is(err, want) {
			t.Errorf("required features %d: %v", required, err)
		}
	}
}
