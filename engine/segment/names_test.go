package segment

import (
	"math"
	"strings"
	"testing"

	"github.com/mqd-broker/mqd/engine/aio"
)

func TestTopicDirectoriesShowNameAndID(t *testing.T) {
	id := [16]byte{0xde, 0xad, 0xbe, 0xef, 1}
	long := strings.Repeat("n", 249)
	for name, want := range map[string]string{
		"alerts":      "alerts.deadbeef",
		"a.b-c_D9":    "a.b-c_D9.deadbeef",
		"../../evil":  ".._.._evil.deadbeef",
		"a/b\x00\xff": "a_b__.deadbeef",
		"":            ".deadbeef",
		long:          long[:64] + ".deadbeef",
	} {
		got := TopicDir(name, id)
		if got != want {
			t.Errorf("TopicDir(%q) = %q, want %q", name, got, want)
		}
		shown, id4, ok := ParseTopicDir(got)
		if !ok || id4 != [4]byte{0xde, 0xad, 0xbe, 0xef} || shown+".deadbeef" != got {
			t.Errorf("ParseTopicDir(%q) = %q %x %v", got, shown, id4, ok)
		}
	}
	for _, name := range []string{"", "alerts", "alerts.deadbee", "alerts.DEADBEEF", "alertsxdeadbeef", "a/b.deadbeef", "alerts.deadbeef.deleted", strings.Repeat("n", 65) + ".deadbeef"} {
		if _, _, ok := ParseTopicDir(name); ok {
			t.Errorf("ParseTopicDir(%q) took it", name)
		}
	}
	if got := (ID{Topic: id, Partition: 3, Base: 5}).Dir("x"); got != "data/topics/x.deadbeef/3" {
		t.Errorf("Dir = %q", got)
	}
}

func TestPartitionDirectoriesAreDecimalNumbers(t *testing.T) {
	for _, p := range []uint32{0, 1, 10, math.MaxUint32} {
		if got, ok := ParsePartitionDir(PartitionDir(p)); !ok || got != p {
			t.Errorf("partition %d comes back as %d %v", p, got, ok)
		}
	}
	for _, name := range []string{"", "-1", "+1", "01", "4294967296", "1.deleted", "x", " 1"} {
		if _, ok := ParsePartitionDir(name); ok {
			t.Errorf("ParsePartitionDir(%q) took it", name)
		}
	}
}

func TestFileNamesTellTheirKind(t *testing.T) {
	for name, want := range map[string]struct {
		kind Kind
		base int64
	}{
		"00000000000000000000.log":               {KindLog, 0},
		"09223372036854775807.index":             {KindIndex, math.MaxInt64},
		"00000000000000000042.log.deleted":       {KindDeleted, 42},
		"00000000000000000042.index.deleted":     {KindDeleted, 42},
		"00000000000000000042.index.tmp":         {KindTemp, 42},
		"00000000000000000042.log.tmp":           {KindTemp, 42},
		"anything.orphan":                        {KindOrphan, 0},
		"09223372036854775808.log":               {KindUnknown, 0},
		"99999999999999999999.log":               {KindUnknown, 0},
		"0000000000000000000.log":                {KindUnknown, 0},
		"000000000000000000000.log":              {KindUnknown, 0},
		"0000000000000000000x.log":               {KindUnknown, 0},
		"-0000000000000000001.log":               {KindUnknown, 0},
		"00000000000000000042.timeindex":         {KindUnknown, 0},
		"00000000000000000042":                   {KindUnknown, 0},
		"notes.tmp":                              {KindUnknown, 0},
		"notes.deleted":                          {KindUnknown, 0},
		"00000000000000000042.log.deleted.x":     {KindUnknown, 0},
		"":                                       {KindUnknown, 0},
		".log":                                   {KindUnknown, 0},
		"\xff\xfe":                               {KindUnknown, 0},
		Deleted(LogName(42)):                     {KindDeleted, 42},
		Orphan(IndexName(42)):                    {KindOrphan, 0},
		"00000000000000000042.log.deleted.tmp":   {KindUnknown, 0},
		"00000000000000000042.index.tmp.deleted": {KindUnknown, 0},
	} {
		if kind, base := ParseName(name); kind != want.kind || base != want.base {
			t.Errorf("ParseName(%q) = %d, %d, want %d, %d", name, kind, base, want.kind, want.base)
		}
	}
	if !IsDeleted(Deleted("alerts.deadbeef")) || IsDeleted("alerts.deadbeef") {
		t.Error("IsDeleted does not know Deleted")
	}
}

func FuzzParseName(f *testing.F) {
	for _, s := range []string{LogName(7), IndexName(7), Deleted(LogName(7)), Orphan("x"), IndexName(1) + ".tmp", "alerts.deadbeef"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		kind, base := ParseName(name)
		switch {
		case base < 0:
			t.Fatalf("negative base %d", base)
		case kind == KindLog && LogName(base) != name, kind == KindIndex && IndexName(base) != name:
			t.Fatalf("%q parses as %d but is not its name", name, base)
		case (kind == KindLog || kind == KindIndex) && (aio.IsTemp(name) || IsDeleted(name)):
			t.Fatalf("%q is data and a leftover", name)
		}
		if shown, id, ok := ParseTopicDir(name); ok && TopicDir(shown, [16]byte{id[0], id[1], id[2], id[3]}) != name {
			t.Fatalf("topic directory %q does not come back", name)
		}
	})
}

func TestListingSortsSegmentsAndReportsTheRest(t *testing.T) {
	_, fs := newDisk(t)
	for name, size := range map[string]int{
		LogName(500): 10, IndexName(500): 5, LogName(20): 7, LogName(1000): 0,
		IndexName(30): 0, IndexName(900): 8, // logs lost
		IndexName(20) + ".tmp": 1, Deleted(LogName(1)): 1, Deleted(IndexName(1)): 1,
		"README": 1, "12.log": 1, "zzz.orphan": 1, "core.tmp": 1,
	} {
		put(t, fs, name, make([]byte, size))
	}
	if err := fs.Mkdir(testDir + "/" + LogName(777)); err != nil {
		t.Fatal(err)
	}
	l, err := List(fs, testDir)
	if err != nil {
		t.Fatal(err)
	}
	want := Listing{
		Segments:  []File{{20, 7, -1}, {500, 10, 5}, {1000, 0, -1}},
		Lost:      []File{{30, 0, 0}, {900, 0, 8}},
		Leftovers: []string{Deleted(IndexName(1)), Deleted(LogName(1)), IndexName(20) + ".tmp"},
		Unknown:   []string{LogName(777), "12.log", "README", "core.tmp", "zzz.orphan"},
	}
	equal(t, "listing", l, want)
	if _, err := List(fs, testDir+"/none"); !aio.IsNotExist(err) {
		t.Errorf("a missing directory gives %v", err)
	}
}

func TestAllocationDoublesAndThenAddsThirtyTwoMiB(t *testing.T) {
	const ki, mi = int64(1 << 10), int64(1 << 20)
	var steps []int64
	for at := int64(0); at < 512*mi; {
		next := NextAllocation(at, at+1, DefaultSegmentBytes)
		steps = append(steps, next)
		at = next
	}
	want := []int64{256 * ki, 512 * ki, mi, 2 * mi, 4 * mi, 8 * mi, 16 * mi, 32 * mi, 64 * mi, 96 * mi}
	equal(t, "first steps", steps[:len(want)], want)
	if last := steps[len(steps)-1]; last != DefaultSegmentBytes || len(steps) != 23 {
		t.Errorf("%d steps to %d", len(steps), last)
	}
	for _, c := range []struct{ allocated, need, segment, want int64 }{
		{0, 1, MinSegmentBytes, MinSegmentBytes},
		{MinSegmentBytes, MinSegmentBytes, MinSegmentBytes, MinSegmentBytes},
		{0, 3 * mi, 64 * mi, 4 * mi},             // more than one step at once
		{0, 20 * ki, MinSegmentBytes, 20 * ki},   // a batch larger than the segment
		{0, 20*ki + 1, MinSegmentBytes, 24 * ki}, // whole blocks
		{256 * ki, 290_000, 300_000, 303_104},    // odd segment size
		{256 * ki, 10 * ki, 512 * mi, 256 * ki},  // enough already
		{480 * mi, 500 * mi, 500 * mi, 500 * mi}, // stops at the segment size
		{500 * mi, 501 * mi, 500 * mi, 501 * mi}, // unless it must not
	} {
		if got := NextAllocation(c.allocated, c.need, c.segment); got != c.want {
			t.Errorf("NextAllocation(%d, %d, %d) = %d, want %d", c.allocated, c.need, c.segment, got, c.want)
		}
	}
}
