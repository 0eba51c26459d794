package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"testing"
)

func TestATruncatedIndexIsNeverTaken(t *testing.T) {
	files := goldenFiles(t)
	for _, name := range []string{"index-1-sealed.index", "index-1-damaged.index"} {
		data := files[name]
		for n := range data {
			if _, err := Decode(data[:n], testID, nil); !errors.Is(err, ErrRebuild) {
				t.Fatalf("%s cut to %d of %d bytes: %v", name, n, len(data), err)
			}
		}
		if _, err := Decode(append(bytes.Clone(data), 0), testID, nil); !errors.Is(err, ErrRebuild) {
			t.Fatalf("%s with a byte more: %v", name, err)
		}
	}
	data := files["index-1-open.index"]
	for n := range data {
		want := max(n-headerBytes, 0) / entryBytes
		if ix := salvage(data[:n], testID); ix.Len() != want {
			t.Fatalf("open index cut to %d of %d bytes: %d entries, want %d", n, len(data), ix.Len(), want)
		}
	}
	longer := append(bytes.Clone(data), make([]byte, 5000)...)
	equal(t, "open index with space behind it", salvage(longer, testID), salvage(data, testID))
}

func TestEverySingleBitFlipIsDetected(t *testing.T) {
	for name, data := range goldenFiles(t) {
		if name == "log-1.log" {
			continue
		}
		whole := salvage(data, testID).Len()
		for i := range len(data) * 8 {
			var good bool
			data[i/8] ^= 1 << (i % 8)
			switch name {
			case "index-1-open.index": // each entry vouches for itself, and the header is of no use
				good = i/8 < headerBytes || salvage(data, testID).Len() == whole-1
			default:
				_, err := Decode(data, testID, nil)
				good = errors.Is(err, ErrRebuild)
			}
			data[i/8] ^= 1 << (i % 8)
			if !good {
				t.Fatalf("%s: bit %d of byte %d flipped is not noticed", name, i%8, i/8)
			}
		}
	}
}

func TestGarbageIsNeverTaken(t *testing.T) {
	rng := newRand(t, 3)
	for n := range 300 {
		data := make([]byte, rng.IntN(3*headerBytes))
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		if n%2 == 0 && len(data) >= 4 {
			binary.BigEndian.PutUint32(data, headerMagic)
		}
		if _, err := Decode(data, testID, nil); !errors.Is(err, ErrRebuild) {
			t.Fatalf("%d bytes of garbage: %v", len(data), err)
		}
	}
}

func TestAnIndexOfAnotherSegmentIsNotTaken(t *testing.T) {
	files := goldenFiles(t)
	for name, id := range map[string]ID{
		"topic":     {Topic: [16]byte{15: 1}, Partition: testID.Partition, Base: testID.Base},
		"partition": {Topic: testID.Topic, Partition: 8, Base: testID.Base},
		"base":      {Topic: testID.Topic, Partition: testID.Partition, Base: 1001},
	} {
		if _, err := Decode(files["index-1-sealed.index"], id, nil); !errors.Is(err, ErrIndexIdentity) || !errors.Is(err, ErrRebuild) {
			t.Errorf("another %s, sealed: %v", name, err)
		}
		if ix := salvage(files["index-1-open.index"], id); ix.Len() != 0 {
			t.Errorf("another %s, open: %d entries", name, ix.Len())
		}
	}
}

func TestNewerVersionsAreRefusedByName(t *testing.T) {
	for field, change := range map[string]func(b []byte){
		"version":           func(b []byte) { binary.BigEndian.PutUint16(b[hVersion:], 2) },
		"required features": func(b []byte) { b[hRequired+3] = 0x10 },
	} {
		data := bytes.Clone(goldenFiles(t)["index-1-sealed.index"])
		change(data)
		resum(data)
		_, err := Decode(data, testID, nil)
		var ie *IndexError
		if !errors.As(err, &ie) || ie.Kind != ErrUnsupported || ie.Field != field || errors.Is(err, ErrRebuild) {
			t.Errorf("%s: %v", field, err)
		}
	}
	data := bytes.Clone(goldenFiles(t)["index-1-sealed.index"])
	data[hOptional] = 0xff
	resum(data)
	if _, err := Decode(data, testID, nil); err != nil {
		t.Errorf("an optional feature: %v", err)
	}
}

// resum computes all checksums of an index file again, as far as its counts are
// inside the file, so that a change gets past them.
func resum(data []byte) {
	be := binary.BigEndian
	put := func(at int, b []byte) { be.PutUint32(data[at:], crc32.Checksum(b, castagnoli)) }
	if len(data) < headerBytes+footerBytes {
		return
	}
	put(hCRC, data[:hCRC])
	f := len(data) - footerBytes
	entries, regions := int64(be.Uint32(data[f+fEntries:])), int64(be.Uint32(data[f+fRegions:]))
	at := headerBytes + entries*entryBytes
	ranges := at + regions*regionBytes
	if at <= int64(f) && ranges <= int64(f) {
		for i := headerBytes; int64(i) < at; i += entryBytes {
			be.PutUint32(data[i+eCRC:], crc32.Update(entrySeed(testID), castagnoli, data[i:i+eCRC]))
		}
		put(f+fEntriesCRC, data[headerBytes:at])
		put(f+fRegionsCRC, data[at:ranges])
		put(f+fRangesCRC, data[ranges:f])
	}
	copy(data[f+fHeaderCRC:], data[hCRC:hCRC+4])
	put(f+fCRC, data[f:f+fCRC])
}

// TestRulesHoldWhereChecksumsDo changes fields behind the checksums' back.
func TestRulesHoldWhereChecksumsDo(t *testing.T) {
	whole := goldenFiles(t)["index-1-damaged.index"]
	foot := len(whole) - footerBytes
	ranges := foot - rangeBytes
	for name, change := range map[string]func(b []byte){
		"order of positions": func(b []byte) { copy(b[headerBytes+entryBytes:], b[headerBytes:headerBytes+entryBytes]) },
		"order of offsets":   func(b []byte) { clear(b[headerBytes+entryBytes+eRel:][:4]) },
		"order of times":     func(b []byte) { b[headerBytes+eMaxBefore] = 0x7f },
		"last entry":         func(b []byte) { binary.BigEndian.PutUint32(b[headerBytes+entryBytes+ePos:], 1<<30) },
		"regions":            func(b []byte) { binary.BigEndian.PutUint64(b[foot+fLogBytes:], 1) },
		"negative log":       func(b []byte) { b[foot+fLogBytes] = 0x80 },
		"first offset":       func(b []byte) { clear(b[foot+fFirstOffset:][:8]) },
		"next offset":        func(b []byte) { clear(b[foot+fNextOffset:][:8]) },
		"entries":            func(b []byte) { binary.BigEndian.PutUint32(b[foot+fEntries:], 0xffffffff) },
		"ranges":             func(b []byte) { binary.BigEndian.PutUint32(b[foot+fRanges:], 0xffffffff) },
		"range upside down":  func(b []byte) { clear(b[ranges+rToOffset:][:8]) },
		"range past the end": func(b []byte) { b[ranges+rToPos] = 0xff },
		"form":               func(b []byte) { b[hForm] = 9 },
		"interval":           func(b []byte) { clear(b[hInterval:][:4]) },
		"flags":              func(b []byte) { b[foot+fFlags] = 0xff },
	} {
		data := bytes.Clone(whole)
		change(data)
		resum(data)
		if _, err := Decode(data, testID, nil); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func FuzzDecodeIndex(f *testing.F) {
	for name, data := range goldenFiles(f) {
		if name != "log-1.log" {
			f.Add(data)
			f.Add(data[:len(data)/2])
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for range 2 {
			if ix, err := Decode(data, testID, nil); err == nil {
				again := AppendSealed(nil, ix, int64(binary.BigEndian.Uint64(data[hCreated:])))
				back, err := Decode(again, testID, nil)
				if err != nil {
					t.Fatalf("what decodes does not encode: %v", err)
				}
				equal(t, "index", back, ix)
				useIndex(ix)
			} else if !errors.Is(err, ErrRebuild) && !errors.Is(err, ErrUnsupported) {
				t.Fatal(err)
			}
			useIndex(salvage(data, testID))
			resum(data) // once more, past the checksums
		}
	})
}

// useIndex calls everything that reads an index.
func useIndex(ix *Index) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 8 {
		offset := ix.id.Base + rng.Int64N(10_000)
		ix.Floor(offset)
		ix.FloorPos(offset)
		ix.FirstAtOrAfterTime(offset)
		ix.Quarantined(offset)
		ix.QuarantinedPos(offset)
	}
	if ix.sealed != nil {
		_ = CheckRegions(ix, 0, make([]byte, 8192))
	}
}
