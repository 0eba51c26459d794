package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func wantGolden(t *testing.T, name string, got []byte) {
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
		at := 0
		for at < min(len(got), len(want)) && got[at] == want[at] {
			at++
		}
		t.Fatalf("%s: %d bytes, expected %d; first difference at %d", name, len(got), len(want), at)
	}
}

var goldenAnchor = Anchor{
	UUID:     [16]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
	Sequence: 0x1112131415161718, Shard: 0x21222324, Incarnation: 0x3132333435363738,
	HeadLSN: 0x4142434445464748, HeadPos: 0x5000, HeadPrevLSN: 0x4142434445464740, HeadPrevCRC: 0x51525354,
	FlushedLSN: 0x6162636465666768, ResumeLSN: 0x71, StartLSN: 0x7273747576777879,
	Size: 0x800000, Created: 0x0182838485868788, Limit: 0x91000,
}

// goldenHeader is what a round does not determine itself.
var goldenHeader = Header{
	UUID: goldenAnchor.UUID, Incarnation: 0x0102030405060708, PrevLSN: 0x1f, PrevCRC: 0xa1a2a3a4,
	AppendTime: 0x18a1b1c1d1e1f101, CheckpointLSN: 0x11, FlushedLSN: 0x1e, ResumeLSN: 0x0a, StartLSN: 0x0b,
}

// goldenRound seals a round of the given entries.
func goldenRound(t *testing.T, fill func(add func(e Entry, body []byte))) []byte {
	t.Helper()
	s, err := newSlot(nil, &memDriver{}, 64, 64*BlockSize)
	if err != nil {
		t.Fatal(err)
	}
	s.begin(0x20, 0x7000)
	fill(func(e Entry, body []byte) { s.add(&e, [][]byte{body}, len(body)) })
	h := goldenHeader
	return s.seal(&h)
}

func goldenEntry(k Kind, i int) Entry {
	return Entry{
		Kind: k, Flags: 0x80 | FlagRequired, Slot: 0x0203, Term: 0x04050607, Index: 0x08090a0b0c0d0e0f,
		Topic: [16]byte{0xb0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0xbf}, Partition: 0x10111213,
		BaseOffset: 0x1415161718191a1b + int64(i),
	}
}

func goldenRounds(t *testing.T) map[string][]byte {
	return map[string][]byte{
		"round-mark.bin": goldenRound(t, func(add func(Entry, []byte)) { add(Entry{Kind: KindMark}, nil) }),
		"round-wrap.bin": goldenRound(t, func(add func(Entry, []byte)) { add(Entry{Kind: KindWrap}, nil) }),
		"round-small.bin": goldenRound(t, func(add func(Entry, []byte)) {
			add(goldenEntry(KindBatch, 0), testBatch(0x1415161718191a1b, 180))
		}),
		"round-entries.bin": goldenRound(t, func(add func(Entry, []byte)) {
			for i := range 5 {
				add(goldenEntry(KindBatch, i), testBatch(0x1415161718191a1b+int64(i), 180*i))
			}
			add(goldenEntry(KindTail, 5), bytes.Repeat([]byte("tail "), 300))
			add(goldenEntry(KindCheckpoint, 6), []byte("checkpoint 7"))
		}),
		"round-large.bin": goldenRound(t, func(add func(Entry, []byte)) {
			add(goldenEntry(KindBatch, 0), testBatch(0x1415161718191a1b, 180))
			add(goldenEntry(KindBatch, 1), testBatch(0x1415161718191a1c, 4*BlockSize))
		}),
	}
}

func TestAnchorsAreStoredAsTheGoldenFileSays(t *testing.T) {
	b := bytes.Repeat([]byte{0xff}, BlockSize)
	goldenAnchor.Encode(b)
	wantGolden(t, "anchor-2.bin", b)
	a, err := DecodeAnchor(b)
	if err != nil || a != goldenAnchor {
		t.Fatalf("decoded %+v, %v", a, err)
	}
}

func TestAnchorsOfVersion1HaveNoLimit(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("testdata", "golden", "anchor.bin"))
	if err != nil {
		t.Fatal(err)
	}
	want := goldenAnchor
	want.Limit = 0
	if a, err := DecodeAnchor(b); err != nil || a != want {
		t.Fatalf("decoded %+v, %v", a, err)
	}
	binary.BigEndian.PutUint64(b[ancLimit:], uint64(goldenAnchor.Limit))
	binary.BigEndian.PutUint32(b[offCRC:], checksum(b))
	if _, err := DecodeAnchor(b); !errors.Is(err, ErrInvalid) {
		t.Fatalf("with a limit: %v", err)
	}
}

func TestRoundsAreStoredAsTheGoldenFilesSay(t *testing.T) {
	for name, round := range goldenRounds(t) {
		wantGolden(t, name, round)
		h, err := DecodeHeader(round)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if found, ok := h.VerifyHeader(round); !ok {
			t.Fatalf("%s: expected %#x, found %#x", name, h.CRC, found)
		}
		if h.LSN != 0x20 || h.Pos != 0x7000 || h.PrevCRC != goldenHeader.PrevCRC || h.AppendTime != goldenHeader.AppendTime ||
			h.Incarnation != goldenHeader.Incarnation || h.ResumeLSN != 0x0a || h.StartLSN != 0x0b || int(h.Total) != len(round) {
			t.Fatalf("%s: header %+v", name, h)
		}
		at := int(h.BodiesOffset)
		for i := range int(h.Entries) {
			e, err := DecodeEntry(round[HeaderSize+i*EntrySize:])
			if err != nil {
				t.Fatalf("%s: entry %d: %v", name, i, err)
			}
			if _, _, ok := CheckBody(&e, round[at:at+int(e.Length)]); !ok {
				t.Fatalf("%s: body %d does not fit its entry", name, i)
			}
			at += int(e.Length)
			if e.Kind.internal() {
				continue
			}
			want := goldenEntry(e.Kind, i)
			want.Length, want.Prefix, want.BodyCRC = e.Length, e.Prefix, e.BodyCRC
			if e != want {
				t.Fatalf("%s: entry %d: %+v", name, i, e)
			}
		}
	}
}

// Every byte of a round and of an anchor is under a checksum, padding excepted.
func TestEveryFlippedByteIsNoticed(t *testing.T) {
	b := make([]byte, BlockSize)
	goldenAnchor.Encode(b)
	for i := range b {
		b[i] ^= 4
		if _, err := DecodeAnchor(b); err == nil {
			t.Fatalf("anchor: byte %d flipped, not noticed", i)
		}
		b[i] ^= 4
	}
	round := goldenRounds(t)["round-entries.bin"]
	h, err := DecodeHeader(round)
	if err != nil {
		t.Fatal(err)
	}
	for i := range int(h.BodiesOffset + h.BodyBytes) {
		round[i] ^= 4
		if whole(round) {
			t.Fatalf("round: byte %d flipped, not noticed", i)
		}
		round[i] ^= 4
	}
}

// whole reports whether a round is intact.
func whole(round []byte) bool {
	h, err := DecodeHeader(round)
	if err != nil || int(h.Total) > len(round) {
		return false
	}
	if _, ok := h.VerifyHeader(round); !ok {
		return false
	}
	at := int(h.BodiesOffset)
	for i := range int(h.Entries) {
		e, err := DecodeEntry(round[HeaderSize+i*EntrySize:])
		if err != nil || uint64(at)+uint64(e.Length) > uint64(h.BodiesOffset)+uint64(h.BodyBytes) {
			return false
		}
		if _, _, ok := CheckBody(&e, round[at:at+int(e.Length)]); !ok {
			return false
		}
		at += int(e.Length)
	}
	return true
}

func TestInvalidFieldsAreRefused(t *testing.T) {
	put32 := func(off int, v uint32) func([]byte) {
		return func(b []byte) { binary.BigEndian.PutUint32(b[off:], v) }
	}
	put64 := func(off int, v uint64) func([]byte) {
		return func(b []byte) { binary.BigEndian.PutUint64(b[off:], v) }
	}
	golden := goldenRounds(t)["round-entries.bin"]
	for name, change := range map[string]func([]byte){
		"flags":            func(b []byte) { b[offFlags] = 1 },
		"reserved":         put32(offReserved, 1),
		"no entries":       func(b []byte) { put32(offEntries, 0)(b); put32(offTable, 0)(b) },
		"huge count":       put32(offEntries, 0xffffffff),
		"huge table":       put32(offTable, 0xffffff00),
		"count and table":  put32(offEntries, 6),
		"bodies in table":  put32(offBodies, HeaderSize),
		"bodies far":       put32(offBodies, 1<<20),
		"body bytes":       put32(offBodyBytes, 0xffffffff),
		"total":            put32(offTotal, 0xfffff000),
		"LSN 0":            put64(offLSN, 0),
		"previous LSN":     put64(offPrevLSN, 0x1e),
		"flushed ahead":    put64(offFlushed, 0x20),
		"checkpoint ahead": put64(offCheckpoint, 0x20),
		"start ahead":      put64(offStart, 0x21),
		"resume ahead":     put64(offResume, 0x0b),
		"incarnation 0":    put64(offIncarnation, 0),
		"position":         put64(offPos, 0x7001),
		"position low":     put64(offPos, BlockSize),
	} {
		b := bytes.Clone(golden)
		change(b)
		if _, err := DecodeHeader(b); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, change := range map[string]func([]byte){
		"kind 0":      func(b []byte) { b[entKind] = 0 },
		"term":        func(b []byte) { b[entTerm] = 0x80 },
		"short batch": put32(entLength, PrefixSize-1),
		"padding":     func(b []byte) { b[entPad+2] = 1 },
		"reserved":    put32(entReserved, 1),
	} {
		b := make([]byte, EntrySize)
		e := goldenEntry(KindBatch, 0)
		e.Length = 500
		e.Encode(b)
		change(b)
		if _, err := DecodeEntry(b); !errors.Is(err, ErrInvalid) {
			t.Errorf("entry %s: %v", name, err)
		}
	}
}

// The byte tables of the document are contiguous and as long as the code says.
func TestTheDocumentsTablesFitTheCode(t *testing.T) {
	text, err := os.ReadFile("../../docs/format/journal.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile(`(?m)^\| (\d+) \| (\d+) \| ([^|]+) \|`)
	sizes := map[string]int{"Anchor": anchorSize, "Round header": HeaderSize, "Entry": EntrySize}
	offsets := map[string]int{
		"head position": ancHeadPos, "region size": ancSize, "sequence": ancSequence,
		"position": offPos, "append time": offAppendTime, "bodies offset": offBodies, "flushed LSN of the round": offFlushed,
		"prefix": entPrefix, "body CRC": entBodyCRC, "base offset": entBaseOffset,
	}
	seen := 0
	for _, section := range strings.Split(string(text), "\n## ")[1:] {
		size, ok := sizes[strings.SplitN(section, "\n", 2)[0]]
		if !ok {
			continue
		}
		at := 0
		for _, m := range row.FindAllStringSubmatch(section, -1) {
			off, n := atoi(t, m[1]), atoi(t, m[2])
			if off != at {
				t.Errorf("%q: field %q at %d, expected %d", section[:12], m[3], off, at)
			}
			if want, ok := offsets[m[3]]; ok {
				seen++
				if want != off {
					t.Errorf("field %q at %d, in the code at %d", m[3], off, want)
				}
			}
			at = off + n
		}
		if at != size {
			t.Errorf("%q: table of %d bytes, expected %d", section[:12], at, size)
		}
		delete(sizes, strings.SplitN(section, "\n", 2)[0])
	}
	if len(sizes) != 0 || seen != len(offsets) {
		t.Errorf("tables missing: %v; %d of %d fields seen", sizes, seen, len(offsets))
	}
}

func atoi(t *testing.T, s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
