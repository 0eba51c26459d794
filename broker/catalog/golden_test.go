package catalog

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden files")

// id makes a topic id for tests.
func id(n byte) TopicID { return TopicID{0: n, 7: 0xee, 15: n} }

// goldenNode is the node of the golden snapshot.
var goldenNode = [16]byte{0xd0, 15: 0x0d}

// goldenCommands are written as golden files, by name.
var goldenCommands = map[string]Command{
	"create": {
		Kind: CreateTopic, ID: id(1), Name: "alerts.eu-west_1", Partitions: 12,
		Created: time.Date(2026, 2, 3, 4, 5, 6, 7, time.UTC).UnixNano(),
		Changes: []Change{
			{Key: KeyDurability, Action: Set, Value: int64(Memory)},
			{Key: KeyFlushInterval, Action: Set, Value: int64(20 * time.Millisecond)},
			{Key: KeyMaxMessageBytes, Action: Set, Value: 1 << 20},
		},
	},
	"create-defaults": {Kind: CreateTopic, ID: id(2), Name: "a", Partitions: 1},
	"alter": {
		Kind: AlterTopic, ID: id(1), Changes: []Change{
			{Key: KeyDurability, Action: Set, Value: int64(Flushed)},
			{Key: KeySegmentBytes, Action: Set, Value: 64 << 20},
			{Key: KeyFlushInterval, Action: Unset},
			{Key: KeyTimestampType, Action: Set, Value: int64(LogAppendTime)},
		},
	},
	"delete": {Kind: DeleteTopic, ID: id(2)},
	"retention": {
		Kind: AlterTopic, ID: id(1), Changes: []Change{
			{Key: KeyRetentionTime, Action: Set, Value: 3_600_000},
			{Key: KeyRetentionBytes, Action: Set, Value: 1 << 40},
			{Key: KeySegmentTime, Action: Set, Value: Unlimited},
		},
	},
	"partitions": {Kind: AddPartitions, ID: id(1), Partitions: 100_000},
	"producers":  {Kind: AllocateProducers, First: 0, Count: 1000},
}

// goldenState is what the golden commands make, with one more topic.
func goldenState(t testing.TB) *State {
	t.Helper()
	s := New()
	more := Command{Kind: CreateTopic, ID: id(3), Name: "zebra", Partitions: 3, Created: 1}
	for i, name := range []string{"create", "create-defaults", "alter", "delete", "", "producers"} {
		c, ok := goldenCommands[name]
		if !ok {
			c = more
		}
		if err := s.Apply(int64(i), c.Append(nil)); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// golden compares got with a golden file.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", "golden", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s:\n got %x\nwant %x", path, got, want)
	}
}

func TestRecordsAreTheGoldenBytes(t *testing.T) {
	for name, c := range goldenCommands {
		record := c.Append(nil)
		golden(t, "record-v1-"+name+".bin", record)
		back, err := Decode(record)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if !reflect.DeepEqual(back, c) {
			t.Errorf("%s: got %+v, want %+v", name, back, c)
		}
	}
}

func TestASnapshotIsTheGoldenBytes(t *testing.T) {
	s := goldenState(t)
	b := s.Snapshot().Append(nil, goldenNode)
	golden(t, "snapshot-v2.bin", b)
	back, node, err := DecodeSnapshot(b)
	if err != nil {
		t.Fatal(err)
	}
	if node != goldenNode {
		t.Errorf("node %x, want %x", node, goldenNode)
	}
	if !reflect.DeepEqual(back, s) {
		t.Errorf("got %+v, want %+v", back, s)
	}
}

// What the first version wrote is read: it has everything but producer ids.
func TestASnapshotOfTheFirstVersionIsRead(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("testdata", "golden", "snapshot-v1.bin"))
	if err != nil {
		t.Fatal(err)
	}
	back, _, err := DecodeSnapshot(b)
	if err != nil {
		t.Fatal(err)
	}
	want := goldenState(t)
	if back.Next() != want.Next()-1 || len(back.Image().Topics()) != len(want.Image().Topics()) ||
		!reflect.DeepEqual(back.Tombstones(), want.Tombstones()) || back.NextProducer() != 0 {
		t.Errorf("got %+v, want %+v without producers", back, want)
	}
}
