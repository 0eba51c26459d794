package inspect

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mqd-broker/mqd/engine/checkpoint"
	"github.com/mqd-broker/mqd/engine/journal"
)

// golden reads a golden file of the package that has the format.
func golden(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(path)))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// shown is what is shown of a file, in words.
func shown(t *testing.T, name string, b []byte) string {
	t.Helper()
	var out strings.Builder
	err := Content(name, bytes.NewReader(b), int64(len(b)), func(it *Item) error {
		line, err := json.Marshal(it)
		if err != nil || !json.Valid(line) {
			t.Errorf("%s: %v", line, err)
		}
		out.WriteString(it.String() + "\n")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// wants checks that a text has parts, in this order.
func wants(t *testing.T, text string, parts ...string) {
	t.Helper()
	rest := text
	for _, part := range parts {
		_, after, ok := strings.Cut(rest, part)
		if !ok {
			t.Fatalf("%q is not there, or not in its place, in\n%s", part, text)
		}
		rest = after
	}
}

// flipped is b with a bit changed.
func flipped(b []byte, at int) []byte {
	b = slices.Clone(b)
	b[at] ^= 4
	return b
}

const goldenLog = "engine/segment/testdata/golden/log-1.log"

func TestGoldenFilesAreShown(t *testing.T) {
	for _, c := range []struct {
		name, path string
		parts      []string
	}{
		{"mqd.node", "engine/checkpoint/testdata/golden/node-1.bin", []string{"form node file", "  node: id ", "slots ", "starts "}},
		{"x", "engine/checkpoint/testdata/golden/checkpoint-2.bin", []string{"partition: topic ", "producer: id 0", "batch: base offset 4000, records 900, sequence 16"}},
		{"x", "engine/checkpoint/testdata/golden/checkpoint-1.bin", []string{"form checkpoint", "header: node ", "slots: first ", "partition: topic ", "epoch: "}},
		{"catalog.a", "broker/catalog/testdata/golden/snapshot-v1.bin", []string{"form catalog snapshot", "topic: name ", "setting: key ", "tombstone: name "}},
		{"1.index", "engine/segment/testdata/golden/index-1-sealed.index", []string{"form index", "header: form sealed", "entry: number 0", "footer: log bytes "}},
		{"1.index", "engine/segment/testdata/golden/index-1-open.index", []string{"header: form open", "entry: number 0"}},
		{"1.index", "engine/segment/testdata/golden/index-1-damaged.index", []string{"header: form sealed", "quarantine: offset "}},
		{"1.log", goldenLog, []string{"form log", "batch: position 0", "codec ", "state whole", "end: position ", "end of the file"}},
		{"journal-0", "engine/journal/testdata/golden/anchor.bin", []string{"form journal", "anchor: number 0, uuid ", "head lsn "}},
	} {
		wants(t, shown(t, c.name, golden(t, c.path)), c.parts...)
	}
}

func TestDamageIsShownAndWhatIsBehindIt(t *testing.T) {
	log := golden(t, goldenLog)
	whole := strings.Count(shown(t, "x.log", log), "state whole")
	if whole < 3 {
		t.Fatalf("the golden log shows %d batches", whole)
	}
	body := shown(t, "x.log", flipped(log, 70))
	wants(t, body, "batch: position 0", "DAMAGED", "state whole")
	if n := strings.Count(body, "state whole"); n != whole-1 {
		t.Errorf("a damaged body hides %d batches", whole-n)
	}
	// A length that leads nowhere costs no other batch either.
	length := shown(t, "x.log", flipped(log, 11))
	wants(t, length, "damage: position 0", "next position ", "state whole")
	if n := strings.Count(length, "state whole"); n != whole-1 {
		t.Errorf("a damaged length hides %d batches:\n%s", whole-n, length)
	}
	wants(t, shown(t, "x.log", append(slices.Clone(log), make([]byte, 8192)...)), "zeros up to the end of the file")

	ix := golden(t, "engine/segment/testdata/golden/index-1-sealed.index")
	entries := strings.Count(shown(t, "x.index", ix), " entry: ")
	hurt := shown(t, "x.index", flipped(ix, indexHeader+3))
	wants(t, hurt, "damage: ", "damage: position 4096, reason the entry's checksum")
	if n := strings.Count(hurt, " entry: "); n != entries-1 {
		t.Errorf("%d of %d entries are shown", n, entries)
	}
	for _, name := range []string{"checkpoint-0.a", "mqd.node", "catalog.b", "journal-3", "7.index"} {
		wants(t, shown(t, name, []byte("garbage")), "damage: position ")
	}
}

// ring0 makes a journal of rounds of one mark each, behind each other.
func ring0(rounds int) []byte {
	b := make([]byte, journal.MinRegion)
	a := journal.Anchor{Sequence: 3, Incarnation: 1, HeadLSN: 1, HeadPos: journal.RingStart, StartLSN: 1, Size: journal.MinRegion}
	a.Encode(b)
	a.Sequence = 2
	a.Encode(b[journal.BlockSize:])
	crc := uint32(0)
	for i := range rounds {
		pos := journal.RingStart + i*journal.BlockSize
		e := journal.Entry{Kind: journal.KindMark}
		e.Encode(b[pos+journal.HeaderSize:])
		h := journal.Header{
			Incarnation: 1, LSN: uint64(i + 1), PrevLSN: uint64(i), PrevCRC: crc, FlushedLSN: uint64(i), Pos: int64(pos), StartLSN: 1,
			Entries: 1, BodiesOffset: journal.HeaderSize + journal.EntrySize, Total: journal.BlockSize,
		}
		h.Seal(b[pos:])
		crc = h.CRC
	}
	return b
}

func TestAJournalIsShownToItsEndAndBehindBreaks(t *testing.T) {
	b := ring0(4)
	wants(t, shown(t, "journal-0", b), "anchor: number 0", "anchor: number 1", "round: lsn 1, position 16384", "entry: kind mark",
		"round: lsn 4", "end: position 32768, last lsn 4, reason round: expected 0x4d514452")
	hurt := flipped(b, journal.RingStart+journal.BlockSize+40)
	wants(t, shown(t, "journal-0", hurt), "round: lsn 1", "break: position 20480", "next position 24576", "round: lsn 3", "round: lsn 4", "end: ")
	wants(t, shown(t, "journal-0", flipped(b, 50)), "damage: position 0", "anchor: number 1", "round: lsn 4")
	wants(t, shown(t, "journal-0", flipped(flipped(b, 50), journal.BlockSize+50)), "damage: position 0", "damage: position 4096", "no anchor")
	wants(t, shown(t, "journal-0", b[:journal.RingStart+2*journal.BlockSize]), "round: lsn 2", "end: ")
}

// What stands behind the newest round is of an earlier lap.
func TestRoundsOfAnEarlierLapAreNotShown(t *testing.T) {
	b := ring0(6)
	before, err := journal.DecodeHeader(b[journal.RingStart+3*journal.BlockSize:])
	if err != nil {
		t.Fatal(err)
	}
	a, err := journal.DecodeAnchor(b)
	if err != nil {
		t.Fatal(err)
	}
	a.Sequence, a.HeadLSN, a.HeadPos = 4, 5, journal.RingStart+4*journal.BlockSize
	a.HeadPrevLSN, a.HeadPrevCRC = 4, before.CRC
	a.Encode(b)
	text := shown(t, "journal-0", b)
	wants(t, text, "round: lsn 5", "round: lsn 6", "end: position 40960, last lsn 6")
	if strings.Contains(text, "round: lsn 1,") || strings.Contains(text, "break: ") {
		t.Errorf("rounds of an earlier lap are shown:\n%s", text)
	}
}

func TestWhatIsNoFileOfADataDirectoryIsNamed(t *testing.T) {
	err := Content("README", strings.NewReader("text"), 4, func(*Item) error { return nil })
	if !errors.Is(err, ErrUnknown) {
		t.Errorf("found %v", err)
	}
}

func TestAnErrorOfTheReceiverEndsTheShowing(t *testing.T) {
	enough := errors.New("enough")
	b, n := ring0(9), 0
	err := Content("journal-0", bytes.NewReader(b), int64(len(b)), func(*Item) error {
		if n++; n == 4 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) || n != 4 {
		t.Errorf("%d items, %v", n, err)
	}
}

// Whatever a file holds, it is shown in lines, with an end.
func FuzzContent(f *testing.F) {
	names := []string{"mqd.node", "checkpoint-0.a", "catalog.a", "00000000000000000000.index", "journal-0", "00000000000000000000.log", "__catalog.00000000/0/00000000000000000000.log", "x"}
	for _, path := range []string{
		"engine/checkpoint/testdata/golden/node-1.bin", "engine/checkpoint/testdata/golden/checkpoint-1.bin", "engine/checkpoint/testdata/golden/checkpoint-2.bin",
		"broker/catalog/testdata/golden/snapshot-v1.bin", "engine/segment/testdata/golden/index-1-sealed.index",
		"engine/segment/testdata/golden/index-1-open.index", goldenLog, "engine/journal/testdata/golden/anchor.bin",
	} {
		b := golden(f, path)
		for i := range names {
			f.Add(uint8(i), b)
		}
	}
	f.Add(uint8(4), ring0(20))
	f.Add(uint8(5), ring0(3))
	f.Fuzz(func(t *testing.T, name uint8, b []byte) {
		ended := false
		err := Content(names[int(name)%len(names)], bytes.NewReader(b), int64(len(b)), func(it *Item) error {
			if line, err := json.Marshal(it); err != nil || !json.Valid(line) || strings.Contains(it.String(), "\n") {
				t.Errorf("%s: %v", line, err)
			}
			ended = it.Type != "file"
			return nil
		})
		if err != nil && !errors.Is(err, ErrUnknown) || err == nil && !ended && len(b) > 0 {
			t.Errorf("%v, ended %v", err, ended)
		}
	})
}

// Slots next to each other that know the same take one line.
func TestSlotsThatKnowTheSameAreShownAsOne(t *testing.T) {
	known, err := checkpoint.Decode(golden(t, "engine/checkpoint/testdata/golden/checkpoint-1.bin"))
	if err != nil {
		t.Fatal(err)
	}
	var slots []checkpoint.Slot
	for n := range uint16(9) {
		slot := checkpoint.Slot{Slot: n, Term: 4, Index: 7}
		switch {
		case n == 3:
			continue
		case n == 6:
			slot.Term = 5
		case n > 6:
			slot.Index = 8
		}
		slots = append(slots, slot)
	}
	var w checkpoint.Writer
	w.Begin(slots)
	wants(t, shown(t, "checkpoint-0.a", w.Finish(&known.Header)), "slots: first 0, last 2, term 4, index 7", "slots: first 4, last 5, term 4",
		"slots: first 6, last 6, term 5", "slots: first 7, last 8, term 4, index 8")
}
