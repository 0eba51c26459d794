package journal

import "testing"

// runWithout turns until nothing waits but anchors, which stay on their way.
func (b *bench) runWithout() {
	b.turn()
	for i := 0; i < len(b.region.wait); {
		if b.region.wait[i].Off < RingStart && b.region.wait[i].Buf != nil {
			i++
			continue
		}
		b.region.perform(i)
		b.turn()
		i = 0
	}
}

// The newest round and its mark may lie anywhere before the limit of the anchor, the mark
// right before it too; where there is no room for the mark, it comes as soon as a further
// anchor is durable. Then damage to the round is reported.
func TestTheNewestRoundIsProvenWhereverTheLimitLies(t *testing.T) {
	exact, noRoom, wraps := 0, 0, 0
	for before := 0; before < 70; before += 3 {
		for more := range 9 {
			b := newBench(t, 64*BlockSize, Options{RoundBytes: 2 * BlockSize, MaxBody: BlockSize})
			for range before {
				b.write(100, NeedFlushed)
				if b.j.Free() < b.j.Capacity()/2 {
					b.j.Release(b.j.WrittenLSN() - 3)
					b.run()
				}
			}
			lsn := b.write(100, NeedFlushed)
			for i := range more { // while an anchor, if one goes, is on its way
				if next, err := b.try(3900*((i+before)%2), NeedFlushed); err == nil {
					lsn = next
				}
				b.runWithout()
			}
			b.now += 2e6
			b.runWithout()
			if b.j.needsProof() {
				noRoom++
				b.run()
				b.silence(2)
			}
			if b.obs.flushed < lsn || b.j.needsProof() {
				t.Fatalf("%d and %d rounds: flushed %d of %d, proof wanted: %v", before, more, b.obs.flushed, lsn, b.j.needsProof())
			}
			b.region.wait = nil // a crash: the anchor on its way is lost
			res, list := b.scan()
			if limit := res.Anchor.Limit; limit != 0 && limit == b.j.tail {
				exact++
			}
			pos := b.roundPos(lsn)
			if pos == RingStart {
				wraps++
			}
			b.rot(pos + offPrevLSN)
			after, left := b.scan()
			if d := after.Damages; len(d) != 1 || d[0].FirstLSN != lsn || d[0].LastLSN != lsn || len(left) != len(list)-1 {
				t.Fatalf("%d and %d rounds: round %d at %d, limit %d, tail %d: %d of %d entries, ending %v, damage %v",
					before, more, lsn, pos, res.Anchor.Limit, b.j.tail, len(left), len(list), after.Ending, d)
			}
		}
	}
	if exact == 0 || noRoom == 0 || wraps == 0 {
		t.Fatalf("the mark was right before the limit %d times, without room %d times, the round at the start of the ring %d times: the test does not test",
			exact, noRoom, wraps)
	}
}
