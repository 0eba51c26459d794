package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"github.com/mqd-broker/mqd/batch"
)

// options are those under which l is whole.
func (l *testLog) options() ScanOptions {
	return ScanOptions{
		Path: l.id.LogName(), To: int64(len(l.data)), Offset: l.id.Base, EndOffset: l.next, Chain: l.chain,
	}
}

// scanAll scans data and returns what it saw.
func scanAll(data []byte, o ScanOptions) ([]Batch, ScanEnd, error) {
	var seen []Batch
	end, err := Scan(bytes.NewReader(data), o, func(b *Batch) error {
		seen = append(seen, *b)
		return nil
	})
	return seen, end, err
}

// facts are batches as a scan tells them.
func facts(list []Batch) []Batch {
	list = append([]Batch(nil), list...)
	for i := range list {
		list[i].AppendTime = 0
	}
	return list
}

func TestScanSeesEveryBatchOfALog(t *testing.T) {
	rng := newRand(t, 11)
	l := newTestLog(testID)
	l.newEpoch(3)
	for i := range 40 {
		switch {
		case i == 7:
			l.gap(100)
			l.newEpoch(9)
		case i == 20: // larger than the reader's buffer
			l.append(t, rng, 3*readBytes)
		case i%2 == 0:
			l.append(t, rng, rng.IntN(9000))
		default:
			l.append(t, rng, 0, 0, 1)
		}
	}
	seen, end, err := scanAll(l.data, l.options())
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "batches", seen, facts(l.batches))
	equal(t, "end", end, ScanEnd{Pos: int64(len(l.data)), Offset: l.next})

	for i, b := range l.batches {
		o := l.options()
		o.From, o.Offset = b.Pos, b.BaseOffset
		seen, _, err := scanAll(l.data, o)
		if err != nil {
			t.Fatalf("from batch %d: %v", i, err)
		}
		equal(t, "batches from the middle", seen, facts(l.batches[i:]))
	}
	o := l.options()
	o.Chain = Compacted(nil)
	if _, _, err := scanAll(l.data, o); err != nil {
		t.Errorf("as a compacted log: %v", err)
	}
	stop := errors.New("enough")
	if _, err := Scan(bytes.NewReader(l.data), l.options(), func(*Batch) error { return stop }); err != stop {
		t.Errorf("the callback's error comes back as %v", err)
	}
}

func TestScanStopsAtTheFirstThingThatIsWrong(t *testing.T) {
	rng := newRand(t, 12)
	l := randomLog(t, testID, rng, 9000)
	at := len(l.batches) / 2
	b := l.batches[at]
	pos := int(b.Pos)
	resealed := func(d []byte, change func(batch []byte)) {
		raw := d[pos : pos+int(b.Size)]
		change(raw)
		binary.BigEndian.PutUint32(raw[batch.AtCRC:], batch.Checksum(raw))
	}
	for name, c := range map[string]struct {
		change func(d []byte)
		check  Check
	}{
		"magic":            {func(d []byte) { d[pos+batch.AtMagic] = 1 }, CheckMagic},
		"negative length":  {func(d []byte) { d[pos+batch.AtLength] = 0x80 }, CheckLength},
		"short length":     {func(d []byte) { copy(d[pos+batch.AtLength:], []byte{0, 0, 0, 48}) }, CheckLength},
		"length past end":  {func(d []byte) { copy(d[pos+batch.AtLength:], []byte{0, 1, 0, 0}) }, CheckLength},
		"huge length":      {func(d []byte) { copy(d[pos+batch.AtLength:], []byte{0x7f, 0xff, 0xff, 0xff}) }, CheckLength},
		"body":             {func(d []byte) { d[pos+80] ^= 1 }, CheckCRC},
		"stored crc":       {func(d []byte) { d[pos+batch.AtCRC] ^= 1 }, CheckCRC},
		"offset too low":   {func(d []byte) { d[pos+7] ^= 0xff }, CheckOffset},
		"offset too high":  {func(d []byte) { d[pos+1] = 9 }, CheckOffset},
		"epoch":            {func(d []byte) { d[pos+batch.AtLeaderEpoch+3] ^= 4 }, CheckEpoch},
		"offset delta":     {func(d []byte) { resealed(d, func(b []byte) { b[batch.AtLastOffsetDelta] = 0xff }) }, CheckFields},
		"record count":     {func(d []byte) { resealed(d, func(b []byte) { b[batch.AtCount+2] = 1 }) }, CheckFields},
		"zeros in between": {func(d []byte) { clear(d[pos : pos+int(b.Size)]) }, CheckMagic},
	} {
		data := bytes.Clone(l.data)
		c.change(data)
		seen, end, err := scanAll(data, l.options())
		var ce *CorruptError
		if !errors.As(err, &ce) || ce.Check != c.check || ce.Pos != b.Pos || ce.Offset != b.BaseOffset || ce.Path != l.id.LogName() {
			t.Errorf("%s: %v, want a failed check of %v at %d", name, err, c.check, pos)
			continue
		}
		if len(seen) != at || end.Pos != b.Pos || end.Offset != b.BaseOffset {
			t.Errorf("%s: saw %d batches up to %+v", name, len(seen), end)
		}
	}
}

func TestScanKnowsHowALogMayEnd(t *testing.T) {
	rng := newRand(t, 13)
	l := randomLog(t, testID, rng, 3000)
	zeros := make([]byte, 300_000)
	padded := append(bytes.Clone(l.data), zeros...)
	dirty := bytes.Clone(padded)
	dirty[len(dirty)-1] = 1
	cut := l.batches[len(l.batches)-1].Pos
	for name, c := range map[string]struct {
		data  []byte
		tail  Tail
		end   int64
		check Check
	}{
		"exactly":                   {l.data, TailExact, l.next, CheckNone},
		"exactly, zeros allowed":    {l.data, TailZeros, l.next, CheckNone},
		"zeros":                     {padded, TailZeros, l.next, CheckNone},
		"few zeros":                 {padded[:len(l.data)+5], TailZeros, l.next, CheckNone},
		"zeros, not allowed":        {padded, TailExact, l.next, CheckMagic},
		"few zeros, not allowed":    {padded[:len(l.data)+5], TailExact, l.next, CheckEnd},
		"something behind zeros":    {dirty, TailZeros, l.next, CheckTail},
		"within a batch":            {l.data[:len(l.data)-1], TailExact, l.next, CheckLength},
		"within a header":           {l.data[:cut+60], TailExact, l.next, CheckEnd},
		"a batch early":             {l.data[:cut], TailExact, l.next, CheckEnd},
		"a batch early, then zeros": {append(bytes.Clone(l.data[:cut]), zeros...), TailZeros, l.next, CheckEnd},
		"a batch early, unknown":    {l.data[:cut], TailExact, 0, CheckNone},
		"later than it should":      {l.data, TailExact, l.next - 1, CheckOffset},
	} {
		o := l.options()
		o.To, o.Tail, o.EndOffset = int64(len(c.data)), c.tail, c.end
		_, _, err := scanAll(c.data, o)
		var ce *CorruptError
		switch {
		case c.check == CheckNone && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.check != CheckNone && (!errors.As(err, &ce) || ce.Check != c.check):
			t.Errorf("%s: %v, want a failed check of %v", name, err, c.check)
		}
	}
	o := l.options()
	o.To += 5000 // the file is shorter than it should be
	if _, _, err := scanAll(l.data, o); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a log that is shorter than said: %v", err)
	}
	broken := errors.New("broken")
	if _, err := Scan(brokenReader{broken}, o, func(*Batch) error { return nil }); !errors.Is(err, broken) {
		t.Errorf("a reader's error comes back as %v", err)
	}
}

type brokenReader struct{ err error }

func (r brokenReader) ReadAt([]byte, int64) (int, error) { return 0, r.err }

// alignedOnly fails on any read that direct I/O would refuse.
type alignedOnly struct {
	t *testing.T
	io.ReaderAt
}

func (r alignedOnly) ReadAt(b []byte, off int64) (int, error) {
	if off%RegionBytes != 0 || len(b)%RegionBytes != 0 || len(b) > readBytes {
		r.t.Errorf("read of %d bytes at %d", len(b), off)
	}
	return r.ReaderAt.ReadAt(b, off)
}

func TestScanReadsAlignedAndInBoundedPieces(t *testing.T) {
	l := randomLog(t, testID, newRand(t, 15), 3*readBytes)
	data := bytes.Clone(l.data)
	data[len(data)/2] ^= 0x10
	s := newScanner(newJobReader(alignedOnly{t, bytes.NewReader(data)}, int64(len(data))), l.options())
	if err := s.walk(l.index(DefaultIndexInterval), func(*Batch) {}, func(Range) {}); err != nil {
		t.Fatal(err)
	}
	want := newJobReader(bytes.NewReader(data), int64(len(data)))
	if _, err := want.allRegions(); err != nil {
		t.Fatal(err)
	}
	equal(t, "regions", s.regions, want.regions)
}

func FuzzScan(f *testing.F) {
	l := goldenLog(f)
	f.Add(l.data, int64(0), l.next)
	f.Add(l.data[:5000], int64(10), int64(0))
	bad := bytes.Clone(l.data)
	bad[1570] ^= 4
	f.Add(bad, int64(0), int64(0))
	f.Fuzz(func(t *testing.T, data []byte, zeros, end int64) {
		if zeros > 0 && zeros < 10_000 {
			data = append(data, make([]byte, zeros)...)
		}
		for _, o := range []ScanOptions{
			{To: int64(len(data)), Offset: testID.Base, EndOffset: end},
			{To: int64(len(data)), Offset: testID.Base, EndOffset: end, Chain: Compacted(l.chain)},
			{To: int64(len(data)), Offset: testID.Base, Tail: TailZeros, Chain: l.chain},
		} {
			fuzzWalk(t, data, o, nil)
			fuzzWalk(t, data, o, l.index(MinIndexInterval))
		}
	})
}

// fuzzWalk walks data and checks that batches and ranges cover it in order,
// without an overlap, and that every batch is whole.
func fuzzWalk(t *testing.T, data []byte, o ScanOptions, hints *Index) {
	pos, next := int64(0), o.Offset
	s := newScanner(newLogReader(bytes.NewReader(data), o.To), o)
	err := s.walk(hints, func(b *Batch) {
		if b.Pos != pos || b.BaseOffset < next || b.LastOffset < b.BaseOffset {
			t.Fatalf("batch %+v after position %d, offset %d", b, pos, next)
		}
		raw := data[b.Pos:b.End()]
		if h, err := batch.ParseHeader(raw); err != nil || batch.Checksum(raw) != h.CRC {
			t.Fatalf("batch %+v is not whole: %v", b, err)
		}
		pos, next = b.End(), b.LastOffset+1
	}, func(r Range) {
		if r.FromPos != pos || r.FromOffset != next || r.ToPos < pos || r.ToOffset < next || r.ToPos == pos && r.ToOffset == next {
			t.Fatalf("range %+v after position %d, offset %d", r, pos, next)
		}
		pos, next = r.ToPos, r.ToOffset
	})
	if err != nil {
		t.Fatal(err)
	}
	if o.Tail == TailExact && pos != o.To {
		t.Fatalf("the walk ends at %d of %d", pos, o.To)
	}
}
