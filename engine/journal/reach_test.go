package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/mqd-broker/mqd/engine/aio"
)

// reachBench is a journal of which the limit is far from the head.
func reachBench(t *testing.T) *bench {
	return newBench(t, 512*BlockSize, Options{RoundBytes: 4 * BlockSize, MaxBody: 3 * BlockSize, Reach: 40 * BlockSize})
}

func TestAReplayLooksNoFurtherThanTheLimit(t *testing.T) {
	b := reachBench(t)
	for range 3 * 512 { // three laps
		b.write(3000, NeedFlushed)
		if lsn := b.j.WrittenLSN(); lsn%50 == 0 {
			b.j.Release(lsn - 20)
			b.run()
		}
	}
	want, list := b.scan()
	live := int(want.Rounds)
	s, err := NewScanner(b.d)
	if err != nil {
		t.Fatal(err)
	}
	c := newReadCounter(b.region)
	res, err := s.Scan(c, nil)
	if err != nil || res.Entries != uint64(len(list)) {
		t.Fatalf("%d entries, %v; expected %d", res.Entries, err, len(list))
	}
	if n, _ := c.total(); n > live+40+2*windowBytes/BlockSize || n < live {
		t.Fatalf("%d blocks read; %d rounds are live", n, live)
	}
}

// withoutAnchor is a region of which one anchor cannot be read.
type withoutAnchor struct {
	Region
	block int64
}

func (r withoutAnchor) Read(op *aio.Op, buf []byte, off int64) {
	if off == r.block {
		off = 3 * BlockSize // zeros
	}
	r.Region.Read(op, buf, off)
}

// wantWholeSearchToAgree holds a replay against one that searches all of the ring.
func wantWholeSearchToAgree(t *testing.T, d aio.Driver, r Region, res *Result) {
	t.Helper()
	all, err := Scan(d, withoutAnchor{r, res.otherBlock}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if all.LastLSN != res.LastLSN || all.NextLSN != res.NextLSN || all.NextPos != res.NextPos || all.Ending != res.Ending ||
		all.Dropped.LastLSN != res.Dropped.LastLSN || len(all.Damages) != len(res.Damages) || all.ProvenLSN != res.ProvenLSN {
		t.Fatalf("a replay found %+v, one that searches everything %+v", res, all)
	}
}

// Where one anchor cannot be read it may have been a newer one, which allowed more than
// the one that counts.
func TestWithADamagedAnchorEverythingIsSearched(t *testing.T) {
	b := reachBench(t)
	res, _ := b.scan()
	old := bytes.Clone(b.region.data[otherBlock(res.otherBlock):][:BlockSize])
	first := b.write(3000, NeedFlushed)
	var last uint64
	for range 80 {
		last = b.write(3000, NeedFlushed)
	}
	b.silence(2)
	for pos := b.roundPos(first); pos < b.roundPos(last); pos += BlockSize {
		b.rot(pos + offPrevLSN)
	}
	res, _ = b.scan()
	copy(b.region.data[res.otherBlock:], old)
	b.rot(otherBlock(res.otherBlock) + ancCreated)
	res, list := b.scan()
	if a := res.Anchor; a.Limit == 0 || a.Limit >= b.roundPos(last) {
		t.Fatalf("nothing lies behind the limit at %d", a.Limit)
	}
	if len(res.Damages) != 1 || len(list) != 1 || list[0].lsn != last {
		t.Fatalf("damage %v, %d entries", res.Damages, len(list))
	}
}

// An anchor of version 1 says nothing of where rounds are not.
func TestWithAnAnchorOfVersion1EverythingIsSearched(t *testing.T) {
	b := reachBench(t)
	for range 470 { // so that the head is not where the ring begins
		b.write(3000, NeedFlushed)
		b.j.Release(b.j.WrittenLSN())
		b.run()
	}
	first := b.write(3000, NeedFlushed)
	var last uint64
	for range 80 {
		last = b.write(3000, NeedFlushed)
	}
	b.silence(2)
	for i := range int64(anchorCount) {
		block := b.region.data[i*BlockSize:][:BlockSize]
		clear(block[ancLimit:anchorSize])
		binary.BigEndian.PutUint16(block[offVersion:], 1)
		binary.BigEndian.PutUint32(block[offCRC:], checksum(block))
	}
	for pos := b.roundPos(first); pos != b.roundPos(last); pos = b.j.ring.after(pos, BlockSize) {
		b.rot(pos + offPrevLSN)
	}
	res, list := b.scan()
	if len(res.Damages) != 1 || len(list) != 1 || list[0].lsn != last {
		t.Fatalf("damage %v, %d entries", res.Damages, len(list))
	}
}

// staleBench is a journal whose anchors are both older than the newest, which a device
// that lies may leave: rounds of the last life lie behind their limits.
func staleBench(t *testing.T, release bool) (b *bench, lsns []uint64) {
	b = reachBench(t)
	for range 10 {
		b.write(3000, NeedFlushed)
	}
	old := bytes.Clone(b.region.data[:anchorCount*BlockSize])
	for i := range 100 {
		lsns = append(lsns, b.write(3000, NeedFlushed))
		if release && i == 10 {
			b.j.Release(5)
			b.run()
		}
	}
	b.silence(2)
	copy(b.region.data, old)
	return b, lsns
}

// span are the numbers from from up to to.
func span(from, to int) (list []int) {
	for i := from; i < to; i++ {
		list = append(list, i)
	}
	return list
}

func TestWhatIsFoundBehindAStaleLimitIsSearchedFurther(t *testing.T) {
	for name, c := range map[string]struct {
		release bool
		rot     []int
	}{
		"a round knows of a later release":   {true, []int{15, 80}},
		"the chain passes the limit":         {false, []int{80}},
		"it passes the limit behind a break": {false, []int{8, 80}},
		"all behind the round is lost":       {true, span(12, 70)},
	} {
		b, lsns := staleBench(t, c.release)
		for _, i := range c.rot {
			b.rot(b.roundPos(lsns[i]) + offPrevLSN)
		}
		res, list := b.scan()
		if len(list) == 0 || list[len(list)-1].lsn != lsns[99] || len(res.Damages) == 0 {
			t.Errorf("%s: %d entries, damage %v", name, len(list), res.Damages)
		}
	}
}

func TestNothingIsWrittenBehindTheLimitOfADurableAnchor(t *testing.T) {
	b := reachBench(t)
	from, written := b.j.tail, 0
	step := func() (anchor int) {
		b.turn()
		for i := 0; i < len(b.region.wait); {
			if b.region.wait[i].Off < RingStart {
				i++ // anchors stay on their way
				continue
			}
			b.region.perform(i)
			b.turn()
		}
		return len(b.region.wait)
	}
	waiting := 0
	for {
		if _, err := b.try(3000, NeedFlushed); errors.Is(err, ErrFull) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if written++; written > 400 {
			t.Fatal("the journal goes on without an anchor")
		}
		waiting = step()
	}
	if waiting != 1 || b.j.tail-from > 40*BlockSize || b.j.tail-from < 30*BlockSize {
		t.Fatalf("%d anchors on their way, %d bytes written", waiting, b.j.tail-from)
	}
	calls := b.obs.calls
	b.run()
	if b.obs.calls == calls {
		t.Fatal("nobody was told that there is room")
	}
	b.write(3000, NeedFlushed)
}

// A round that is filled goes on to the limit and not behind it: a crash may leave the
// anchor that has it, and no replay looks there.
func TestARoundDoesNotGrowBehindTheLimit(t *testing.T) {
	b := reachBench(t)
	for b.j.left > 2*BlockSize {
		b.add(100, NeedFlushed)
		b.runWithout() // the anchor with a further limit stays on its way
	}
	n := 0
	for ; ; n++ {
		if _, err := b.try(1000, NeedNone); err != nil {
			if !errors.Is(err, ErrFull) {
				t.Fatal(err)
			}
			break
		}
	}
	if s := b.j.filling; n == 0 || s == nil || int64(s.size()) > b.j.left {
		t.Fatalf("%d entries in %+v, and %d bytes are left", n, s, b.j.left)
	}
	b.run()
	b.write(1000, NeedFlushed)
	if res, list := b.scan(); len(res.Damages) > 0 || res.LastLSN != b.obs.flushed || list[len(list)-1].e.BaseOffset != b.base-1 {
		t.Fatalf("%+v", res)
	}
}
