package journal

import (
	"slices"
	"testing"
)

// nearEnd is a journal whose next round of three blocks needs a wrap.
func nearEnd(t *testing.T) *bench {
	b := newBench(t, testSize, Options{})
	for b.j.tail < testSize-2*BlockSize {
		b.write(3000, NeedFlushed)
		if b.j.Free() < 20*BlockSize {
			b.j.Release(b.j.WrittenLSN() - 3)
			b.run()
		}
	}
	b.region.took()
	return b
}

func TestAWrapRoundGoesWithTheRoundThatNeedsIt(t *testing.T) {
	b := nearEnd(t)
	last := b.j.WrittenLSN()
	lsn := b.add(9000, NeedNone)
	if lsn != last+2 {
		t.Fatalf("round %d after %d and a wrap", lsn, last)
	}
	b.turn()
	b.wantLog()
	b.add(10, NeedFlushed)
	b.turn()
	if got := b.region.took(); len(got) != 2 || got[0][:5] != "dsync" || got[1][:5] != "dsync" {
		t.Fatalf("submitted %q", got)
	}
	b.region.perform(1)
	if b.j.WrittenLSN() != last {
		t.Fatalf("written watermark %d while the wrap is in flight", b.j.WrittenLSN())
	}
	b.run()
	res, list := b.scan()
	if res.LastLSN != lsn || !res.Intact() || list[len(list)-1].lsn != lsn || b.roundPos(lsn) != RingStart {
		t.Fatalf("last round %d, damage %v", res.LastLSN, res.Damages)
	}
}

func TestTheHeadMayBeAWrapThatIsNotWrittenYet(t *testing.T) {
	for _, submit := range []bool{false, true} {
		b := nearEnd(t)
		b.add(9000, NeedFlushed)
		b.j.Release(b.j.WrittenLSN())
		b.region.perform(0)
		base := b.base - 1
		if submit {
			b.run()
		}
		res, list := b.scan()
		if !res.Intact() || res.HeadLSN != res.Anchor.HeadPrevLSN+1 || (len(list) == 1) != submit {
			t.Fatalf("head %d, %d entries, damage %v", res.HeadLSN, len(list), res.Damages)
		}
		b.run()
		for range 30 {
			b.write(4000, NeedFlushed)
			if b.j.Free() < 10*BlockSize {
				break
			}
		}
		if res, list = b.scan(); !res.Intact() || list[0].e.BaseOffset != base {
			t.Fatalf("damage %v, first batch %d", res.Damages, list[0].e.BaseOffset)
		}
	}
}

func TestPaddingIsZeroInUsedBuffers(t *testing.T) {
	b := newBench(t, 512*BlockSize, Options{Rounds: 2})
	for range 4 {
		for range 9 {
			b.add(6*BlockSize, NeedFlushed)
		}
		b.run()
	}
	for name, n := range map[string]int{"small": 5000, "large": 5*BlockSize + 1000} {
		pos := b.roundPos(b.write(n, NeedFlushed))
		h, err := DecodeHeader(b.region.data[pos:])
		if err != nil {
			t.Fatal(err)
		}
		round := b.region.data[pos : pos+int64(h.Total)]
		if !zero(round[h.Size():h.BodiesOffset]) || !zero(round[h.BodiesOffset+h.BodyBytes:]) {
			t.Errorf("%s round: padding is not zero", name)
		}
		if want := blocks(h.Size()); n > moveLimit && int(h.BodiesOffset) != want || n <= moveLimit && int(h.BodiesOffset) != h.Size() {
			t.Errorf("%s round: bodies at %d", name, h.BodiesOffset)
		}
	}
}

func TestAnchorsAreWrittenInTurn(t *testing.T) {
	b := newBench(t, testSize, Options{})
	s, err := NewScanner(b.d)
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		before, _ := s.ReadAnchors(b.region)
		b.write(100, NeedFlushed)
		b.j.Release(b.j.WrittenLSN())
		b.run()
		after, flaws := s.ReadAnchors(b.region)
		older := 0
		if before[1].Sequence < before[0].Sequence {
			older = 1
		}
		if flaws[0] != nil || flaws[1] != nil || after[1-older] != before[1-older] ||
			after[older].Sequence != before[1-older].Sequence+1 || after[older].HeadPrevLSN != b.j.WrittenLSN() {
			t.Fatalf("anchors before %+v, after %+v", before, after)
		}
	}
}

func TestTheLiveQueueFindsRoundsByLSN(t *testing.T) {
	q := newLiveQueue(ring{end: RingStart + 8*BlockSize})
	lsns := []uint64{3, 4, 9, 10, 20}
	for range 5 { // so that it goes round
		for _, lsn := range lsns {
			q.push(live{lsn: lsn})
		}
		for lsn := range uint64(25) {
			want := 0
			for want < len(lsns) && lsns[want] <= lsn {
				want++
			}
			if got := q.after(lsn); got != want {
				t.Fatalf("after %d: index %d, expected %d", lsn, got, want)
			}
		}
		q.drop(q.n)
	}
}

func TestRoundsBehindAnUnprovenGapAreDroppedEvenBehindDamage(t *testing.T) {
	b := newBench(t, testSize, Options{MaxInFlight: 2})
	b.write(3000, NeedFlushed)
	b.write(3000, NeedFlushed)
	for range 2 {
		b.add(3000, NeedFlushed)
		b.turn()
	}
	b.region.perform(1) // round 4, which proves round 2; round 3 is never written
	b.region.wait = nil
	pos := b.roundPos(2)
	b.rot(pos + 2000)
	b.rot(pos + 70)
	res, list := b.scan()
	wantBases(t, list, 0, 1)
	if res.Ending != EndDamaged || len(res.Damages) != 1 || res.Damages[0].LastLSN != 2 || res.Dropped.FirstLSN != 4 || res.LastLSN != 2 {
		t.Fatalf("ending %v at %d, damage %v, dropped %+v", res.Ending, res.LastLSN, res.Damages, res.Dropped)
	}
	damaged := slices.Clone(b.region.data[pos : pos+BlockSize])
	b.reopen()
	b.base = 50
	b.write(100, NeedFlushed)
	res, list = b.scan()
	if len(list) != 2 || list[1].e.BaseOffset != 50 || len(res.Damages) != 1 || !slices.Equal(damaged, b.region.data[pos:pos+BlockSize]) {
		t.Fatalf("%d entries, damage %v", len(list), res.Damages)
	}
}
