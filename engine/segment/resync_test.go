package segment

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/mqd-broker/mqd/batch"
)

// walked is what a walk over damaged bytes tells.
type walked struct {
	batches []Batch
	damage  []Range
}

// walkBuffer serves all walks of tests, which run one after the other.
var walkBuffer = AlignedBuffer(readBytes)

func walk(t testing.TB, data []byte, o ScanOptions, hints *Index) walked {
	t.Helper()
	var w walked
	s := newScanner(&logReader{r: bytes.NewReader(data), end: o.To, buf: walkBuffer}, o)
	err := s.walk(hints, func(b *Batch) { w.batches = append(w.batches, *b) }, func(r Range) { w.damage = append(w.damage, r) })
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// lost checks that exactly the batches from first to last are missing, as one
// range.
func (l *testLog) lost(t testing.TB, what string, w walked, first, last int) {
	t.Helper()
	want := append(facts(l.batches[:first]), facts(l.batches[last+1:])...)
	if len(w.batches) != len(want) {
		t.Fatalf("%s: %d of %d batches left, want %d; damage %+v", what, len(w.batches), len(l.batches), len(want), w.damage)
	}
	equal(t, what, w.batches, want)
	if len(w.damage) != 1 {
		t.Fatalf("%s: damage %+v", what, w.damage)
	}
	r := w.damage[0]
	r.Check = CheckNone
	equal(t, what+": range", r, Range{
		FromOffset: l.batches[first].BaseOffset, ToOffset: l.batches[last].LastOffset + 1,
		FromPos: l.batches[first].Pos, ToPos: l.batches[last].End(),
	})
}

func TestOneFlippedBitCostsExactlyOneBatch(t *testing.T) {
	rng := newRand(t, 21)
	l := randomLog(t, testID, rng, 12_000)
	data := bytes.Clone(l.data)
	hints := l.index(1024)
	at := 0
	for i := range data {
		if int64(i) >= l.batches[at].End() {
			at++
		}
		bit := byte(1) << rng.IntN(8)
		data[i] ^= bit
		l.lost(t, "without an index", walk(t, data, l.options(), nil), at, at)
		l.lost(t, "with an index", walk(t, data, l.options(), hints), at, at)
		data[i] ^= bit
	}
}

// TestEveryByteOfASegmentIsWatched flips a bit of each byte of a segment of 64 KiB, and
// walks over what is around it: the batch that has it is lost, and nothing else.
func TestEveryByteOfASegmentIsWatched(t *testing.T) {
	rng := newRand(t, 26)
	l := randomLog(t, testID, rng, 64<<10)
	data := bytes.Clone(l.data)
	hints := l.index(DefaultIndexInterval)
	at := 0
	for i := range data {
		if int64(i) >= l.batches[at].End() {
			at++
		}
		bit := byte(1) << rng.IntN(8)
		data[i] ^= bit
		first, last := max(0, at-2), min(at+6, len(l.batches)-1)
		o := l.options()
		o.From, o.Offset = l.batches[first].Pos, l.batches[first].BaseOffset
		o.To, o.EndOffset = l.batches[last].End(), l.batches[last].LastOffset+1
		w := walk(t, data, o, hints)
		if b := &l.batches[at]; len(w.batches) != last-first || len(w.damage) != 1 ||
			w.damage[0].FromOffset != b.BaseOffset || w.damage[0].ToOffset != b.LastOffset+1 {
			t.Fatalf("byte %d, of batch %d: %d of %d batches left, damage %+v", i, at, len(w.batches), last-first+1, w.damage)
		}
		data[i] ^= bit
	}
}

func TestOneFlippedHeaderBitCostsExactlyOneBatch(t *testing.T) {
	rng := newRand(t, 22)
	l := newTestLog(testID)
	l.newEpoch(3)
	for range 20 { // equal sizes, so that a wrong length can lead to a batch
		l.append(t, rng, 512-batch.HeaderSize-9)
	}
	data := bytes.Clone(l.data)
	for _, at := range []int{0, 1, 7, len(l.batches) - 2, len(l.batches) - 1} {
		pos := int(l.batches[at].Pos) * 8
		for bit := pos; bit < pos+batch.HeaderSize*8; bit++ {
			data[bit/8] ^= 1 << (bit % 8)
			l.lost(t, "flipped header bit", walk(t, data, l.options(), nil), at, at)
			data[bit/8] ^= 1 << (bit % 8)
		}
	}
}

func TestDamageOverSeveralBatchesIsOneRange(t *testing.T) {
	rng := newRand(t, 23)
	l := randomLog(t, testID, rng, 2*readBytes)
	n := len(l.batches)
	for name, c := range map[string]struct {
		first, last int
		spoil       func(b []byte)
	}{
		"zeros":         {10, 30, func(b []byte) { clear(b) }},
		"garbage":       {10, 30, func(b []byte) { fill(b, 0x02) }},
		"first batches": {0, 5, func(b []byte) { clear(b) }},
		"last batches":  {n - 5, n - 1, func(b []byte) { clear(b) }},
		"last batch":    {n - 1, n - 1, func(b []byte) { clear(b) }},
		"everything":    {0, n - 1, func(b []byte) { clear(b) }},
	} {
		data := bytes.Clone(l.data)
		c.spoil(data[l.batches[c.first].Pos:l.batches[c.last].End()])
		l.lost(t, name, walk(t, data, l.options(), nil), c.first, c.last)
		l.lost(t, name+", with an index", walk(t, data, l.options(), l.index(DefaultIndexInterval)), c.first, c.last)
	}
}

func fill(b []byte, c byte) {
	for i := range b {
		b[i] = c
	}
}

func TestSeveralDamagedBatchesAreSeveralRanges(t *testing.T) {
	rng := newRand(t, 24)
	l := randomLog(t, testID, rng, 60_000)
	data := bytes.Clone(l.data)
	var want []Range
	for i := 3; i < len(l.batches); i += 7 {
		b := l.batches[i]
		data[b.Pos+batch.HeaderSize+2] ^= 1
		want = append(want, Range{b.BaseOffset, b.LastOffset + 1, b.Pos, b.End(), CheckCRC})
	}
	equal(t, "ranges", walk(t, data, l.options(), nil).damage, want)
}

func TestABatchInsideABodyIsNotTakenForOne(t *testing.T) {
	rng := newRand(t, 25)
	l := newTestLog(testID)
	l.append(t, rng, 100)

	// The body of the next batch holds a whole log whose offsets would fit.
	inner := newTestLog(ID{Base: l.next + 5})
	for range 10 {
		inner.append(t, rng, 50)
	}
	b := batch.NewBuilder(nil, batch.MaxSize)
	if err := b.Append(&batch.Record{Value: append(inner.data, bytes.Repeat([]byte{'x'}, 500)...)}); err != nil {
		t.Fatal(err)
	}
	l.appendRaw(t, b.Finish(batch.CodecNone))
	for range 20 {
		l.append(t, rng, 300)
	}
	for name, change := range map[string]func(raw []byte){
		"body":   func(raw []byte) { raw[len(raw)-1] ^= 1 },
		"magic":  func(raw []byte) { raw[batch.AtMagic] ^= 1 },
		"length": func(raw []byte) { raw[batch.AtLength] ^= 0x40 },
	} {
		data := bytes.Clone(l.data)
		change(data[l.batches[1].Pos:l.batches[1].End()])
		l.lost(t, name, walk(t, data, l.options(), l.index(DefaultIndexInterval)), 1, 1)
	}
}

func TestAWrongIndexDoesNotMisleadTheResync(t *testing.T) {
	rng := newRand(t, 26)
	l := randomLog(t, testID, rng, 30_000)
	wrong := randomLog(t, testID, rng, 60_000).index(MinIndexInterval)
	data := bytes.Clone(l.data)
	data[l.batches[9].Pos+batch.AtLength+2] ^= 1
	l.lost(t, "another log's index", walk(t, data, l.options(), wrong), 9, 9)
}

func TestMissingBatchesAreReportedWithoutBytes(t *testing.T) {
	rng := newRand(t, 27)
	l := randomLog(t, testID, rng, 5000)
	cut := func(i, k int) []byte {
		return append(bytes.Clone(l.data[:l.batches[i].Pos]), l.data[l.batches[k].End():]...)
	}
	n := len(l.batches)
	for name, c := range map[string]struct{ first, last int }{
		"in the middle": {3, 5}, "at the start": {0, 2}, "at the end": {n - 2, n - 1}, "all but the last": {0, n - 2},
	} {
		data := cut(c.first, c.last)
		o := l.options()
		o.To = int64(len(data))
		w := walk(t, data, o, nil)
		if len(w.batches) != n-(c.last-c.first+1) || len(w.damage) != 1 {
			t.Errorf("%s: %d batches, damage %+v", name, len(w.batches), w.damage)
			continue
		}
		want := Range{FromOffset: l.batches[c.first].BaseOffset, ToOffset: l.batches[c.last].LastOffset + 1, FromPos: l.batches[c.first].Pos, ToPos: l.batches[c.first].Pos}
		got := w.damage[0]
		got.Check = CheckNone
		equal(t, name, got, want)
	}
}

func TestForeignBatchesAreDamage(t *testing.T) {
	rng := newRand(t, 28)
	l := newTestLog(testID)
	for range 12 {
		l.append(t, rng, 200)
	}
	// A misdirected write: batch 2 stands where batch 6 belongs as well.
	data := bytes.Clone(l.data)
	copy(data[l.batches[6].Pos:l.batches[6].End()], l.data[l.batches[2].Pos:l.batches[2].End()])
	l.lost(t, "an older batch", walk(t, data, l.options(), nil), 6, 6)
	data = bytes.Clone(l.data)
	copy(data[l.batches[6].Pos:l.batches[6].End()], l.data[l.batches[9].Pos:l.batches[9].End()])
	l.lost(t, "a later batch", walk(t, data, l.options(), nil), 6, 6)
}

func TestDamageNextToARecordedGapLeavesTheGapAlone(t *testing.T) {
	rng := newRand(t, 29)
	l := newTestLog(testID)
	l.newEpoch(3)
	for i := range 12 {
		if i == 6 {
			l.gap(1000)
			l.newEpoch(8)
		}
		l.append(t, rng, 200)
	}
	for _, at := range []int{5, 6} {
		data := bytes.Clone(l.data)
		data[l.batches[at].End()-1] ^= 1
		w := walk(t, data, l.options(), nil)
		b := l.batches[at]
		from := b.BaseOffset
		if at == 6 {
			from -= 1000 // the gap is not told from the damage before it is jumped
		}
		equal(t, "ranges", w.damage, []Range{{from, b.LastOffset + 1, b.Pos, b.End(), CheckCRC}})
		if len(w.batches) != 11 {
			t.Errorf("%d batches left", len(w.batches))
		}
	}
}

func TestACompactedLogLosesNoMoreThanTheDamage(t *testing.T) {
	rng := newRand(t, 30)
	l := newTestLog(testID)
	for i := range 30 {
		if i%3 == 2 {
			l.next += 40
		}
		l.append(t, rng, 256-batch.HeaderSize-9)
	}
	o := l.options()
	o.Chain = Compacted(nil)
	if w := walk(t, l.data, o, nil); len(w.damage) != 0 {
		t.Fatalf("damage in a whole log: %+v", w.damage)
	}
	data := bytes.Clone(l.data)
	for _, at := range []int{4, 5, 6, 29} {
		pos := int(l.batches[at].Pos)
		for bit := range batch.HeaderSize * 8 {
			data[pos+bit/8] ^= 1 << (bit % 8)
			w := walk(t, data, o, nil)
			data[pos+bit/8] ^= 1 << (bit % 8)
			// Small changes of offset or epoch can pass where offsets may jump.
			if field := bit / 8; field < batch.AtLength || field >= batch.AtLeaderEpoch && field < batch.AtMagic {
				if len(w.batches) < 29 {
					t.Fatalf("bit %d of batch %d: %d batches left", bit, at, len(w.batches))
				}
				continue
			}
			if len(w.batches) != 29 || len(w.damage) != 1 {
				t.Fatalf("bit %d of batch %d: %d batches left, damage %+v", bit, at, len(w.batches), w.damage)
			}
		}
	}
}

func TestTheEndOfDamageIsExactWhenTheEndOfTheLogIsKnown(t *testing.T) {
	rng := newRand(t, 31)
	l := randomLog(t, testID, rng, 4000)
	last := len(l.batches) - 1
	data := bytes.Clone(l.data)
	binary.BigEndian.PutUint32(data[l.batches[last].Pos+batch.AtLastOffsetDelta:], 99)
	l.lost(t, "known end", walk(t, data, l.options(), nil), last, last)
	o := l.options()
	o.EndOffset = 0
	w := walk(t, data, o, nil)
	if r := w.damage[0]; r.ToOffset != l.batches[last].BaseOffset+100 || r.ToPos != int64(len(data)) {
		t.Errorf("unknown end: %+v", r)
	}
	o.Tail = TailZeros
	data = append(data, make([]byte, 10_000)...)
	o.To = int64(len(data))
	w = walk(t, data, o, nil)
	if r := w.damage[0]; r.ToPos != int64(len(l.data)) {
		t.Errorf("zeros behind the damage are part of it: %+v", r)
	}
}
