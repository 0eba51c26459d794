package catalog

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"reflect"
	"testing"
)

// reseal makes both checksums of a snapshot right again.
func reseal(b []byte) []byte {
	if len(b) < snapHeaderSize+snapCRCSize {
		return b
	}
	be := binary.BigEndian
	be.PutUint64(b[atSnapLength:], uint64(len(b)))
	be.PutUint32(b[atSnapHeaderCRC:], crc32.Checksum(b[:atSnapHeaderCRC], castagnoli))
	be.PutUint32(b[len(b)-snapCRCSize:], crc32.Checksum(b[:len(b)-snapCRCSize], castagnoli))
	return b
}

func TestASnapshotCutAnywhereIsDamaged(t *testing.T) {
	b := goldenState(t).Snapshot().Append(nil, goldenNode)
	for n := range b {
		if _, _, err := DecodeSnapshot(b[:n]); !errors.Is(err, ErrDamaged) {
			t.Errorf("cut to %d of %d bytes: %v", n, len(b), err)
		}
		cut := append([]byte(nil), b[:n]...)
		if _, _, err := DecodeSnapshot(reseal(cut)); err == nil {
			t.Errorf("cut to %d of %d bytes and sealed again, it is accepted", n, len(b))
		}
	}
}

func TestASnapshotWithAnyByteChangedIsDamaged(t *testing.T) {
	b := goldenState(t).Snapshot().Append(nil, goldenNode)
	for i := range b {
		b[i] ^= 0x40
		if _, _, err := DecodeSnapshot(b); !errors.Is(err, ErrDamaged) {
			t.Errorf("byte %d changed: %v", i, err)
		}
		b[i] ^= 0x40
	}
}

func TestASnapshotOfANewerProgramIsNotCalledDamaged(t *testing.T) {
	for name, at := range map[string]int{"version": atSnapVersion + 1, "features": atSnapFeatures + 7} {
		b := goldenState(t).Snapshot().Append(nil, goldenNode)
		b[at] += 2
		if _, _, err := DecodeSnapshot(reseal(b)); !errors.Is(err, ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestASnapshotThatContradictsItselfIsDamaged(t *testing.T) {
	topic := func(n byte, name string) *Topic {
		return &Topic{ID: id(n), Name: name, Partitions: 1, Version: 1}
	}
	for name, z := range map[string]Snapshot{
		"two topics of one id":   {image: &Image{version: 5, topics: []*Topic{topic(1, "a"), topic(1, "b")}}},
		"two topics of one name": {image: &Image{version: 5, topics: []*Topic{topic(1, "a"), topic(2, "a")}}},
		"names out of order":     {image: &Image{version: 5, topics: []*Topic{topic(1, "b"), topic(2, "a")}}},
		"a version to come":      {image: &Image{version: 0, topics: []*Topic{topic(1, "a")}}},
		"no partition":           {image: &Image{version: 5, topics: []*Topic{{ID: id(1), Name: "a", Version: 1}}}},
		"an id of zeros":         {image: &Image{version: 5, topics: []*Topic{{Name: "a", Partitions: 1, Version: 1}}}},
		"a tombstone to come":    {image: &Image{version: 5}, tombstones: []Tombstone{{id(1), "a", 5}}},
		"tombstones in a mess":   {image: &Image{version: 5}, tombstones: []Tombstone{{id(1), "a", 3}, {id(2), "b", 3}}},
		"one topic twice dead":   {image: &Image{version: 5}, tombstones: []Tombstone{{id(1), "a", 2}, {id(1), "b", 3}}},
		"a negative producer":    {image: &Image{version: 5}, producers: -1},
		"a topic dead and alive": {image: &Image{version: 5, topics: []*Topic{topic(1, "a")}}, tombstones: []Tombstone{{id(1), "a", 2}}},
	} {
		if _, _, err := DecodeSnapshot(z.Append(nil, goldenNode)); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestASnapshotStaysWhileItsStateGoesOn(t *testing.T) {
	s := goldenState(t)
	z := s.Snapshot()
	before := z.Append(nil, goldenNode)
	mustApply(t, s, Command{Kind: DeleteTopic, ID: id(1)})
	s.Forget(s.Next())
	mustApply(t, s, Command{Kind: DeleteTopic, ID: id(3)})
	if after := z.Append(nil, goldenNode); !reflect.DeepEqual(before, after) {
		t.Error("a snapshot changed with its state")
	}
}

func FuzzDecodeSnapshot(f *testing.F) {
	f.Add(goldenState(f).Snapshot().Append(nil, goldenNode), true)
	f.Add(New().Snapshot().Append(nil, goldenNode), true)
	f.Fuzz(func(t *testing.T, b []byte, seal bool) {
		if seal {
			b = reseal(append([]byte(nil), b...))
		}
		s, node, err := DecodeSnapshot(b)
		if err != nil {
			if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrUnsupported) {
				t.Fatalf("an error of no kind: %v", err)
			}
			return
		}
		if b[atSnapVersion+1] != snapshotVersion {
			return // what is written again is of this version
		}
		if again := s.Snapshot().Append(nil, node); string(again) != string(b) {
			t.Fatalf("%x is written again as %x", b, again)
		}
	})
}
