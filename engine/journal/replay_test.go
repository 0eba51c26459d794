package journal

import (
	"encoding/binary"
	"errors"
	"slices"
	"syscall"
	"testing"

	"github.com/mqd-broker/mqd/engine/aio"
)

// roundPos is where the newest round with this LSN lies.
func (b *bench) roundPos(lsn uint64) int64 {
	b.t.Helper()
	pos := int64(0)
	best := uint64(0)
	for p := int64(RingStart); p < b.region.Size(); p += BlockSize {
		h, err := DecodeHeader(b.region.data[p:])
		if err == nil && h.LSN == lsn && h.Pos == p && h.Incarnation >= best {
			pos, best = p, h.Incarnation
		}
	}
	if pos == 0 {
		b.t.Fatalf("round %d is nowhere", lsn)
	}
	return pos
}

// rot flips a bit.
func (b *bench) rot(at int64) { b.region.data[at] ^= 0x10 }

// reseal corrects the checksum of the round at pos after a test has changed its
// header or table.
func (b *bench) reseal(pos int64) {
	raw := b.region.data[pos:]
	size := HeaderSize + int(binary.BigEndian.Uint32(raw[offTable:]))
	binary.BigEndian.PutUint32(raw[offCRC:], checksum(raw[:size]))
}

func TestAnEmptyJournalReplaysAndOpensAgainAndAgain(t *testing.T) {
	b := newBench(t, testSize, Options{})
	for life := uint64(2); life < 6; life++ {
		res := b.reopen()
		if res.Ending != EndClean || res.LastLSN != 0 || b.j.Incarnation() != life || res.AnchorFlaw != nil {
			t.Fatalf("life %d: incarnation %d, last round %d", life, b.j.Incarnation(), res.LastLSN)
		}
	}
	if b.write(10, NeedFlushed) == 0 {
		t.Fatal("LSN 0")
	}
}

func TestLivesFollowEachOther(t *testing.T) {
	b := newBench(t, testSize, Options{})
	last := uint64(0)
	for range 6 {
		for range 3 {
			if lsn := b.write(500, NeedFlushed); lsn <= last {
				t.Fatalf("LSN %d after %d", lsn, last)
			} else {
				last = lsn
			}
		}
		b.reopen()
	}
	res, list := b.scan()
	wantBases(t, list, 0, 18)
	if !res.Intact() || res.LastLSN != last {
		t.Fatalf("last round %d, damage %v", res.LastLSN, res.Damages)
	}
}

func TestATornNewestRoundIsDropped(t *testing.T) {
	for name, tear := range map[string]func(b *bench, pos int64){
		"header": func(b *bench, pos int64) { clear(b.region.data[pos : pos+512]) },
		"body":   func(b *bench, pos int64) { clear(b.region.data[pos+1024 : pos+1536]) },
		"all":    func(b *bench, pos int64) { clear(b.region.data[pos : pos+BlockSize]) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, testSize, Options{})
			for range 3 {
				b.write(3000, NeedFlushed)
			}
			tear(b, b.roundPos(3))
			res, list := b.scan()
			wantBases(t, list, 0, 2)
			if !res.Intact() || res.LastLSN != 2 {
				t.Fatalf("last round %d, damage %v", res.LastLSN, res.Damages)
			}
			if name == "body" && (res.Ending != EndTorn || res.Dropped.FirstLSN != 3 || res.Dropped.LastLSN != 3) {
				t.Fatalf("ending %v, dropped %+v", res.Ending, res.Dropped)
			}
			b.reopen()
			b.base = 2
			b.write(3000, NeedFlushed)
			_, list = b.scan()
			wantBases(t, list, 0, 3)
		})
	}
}

// ghosts leaves a torn round 3 and an intact round 4 behind it.
func ghosts(t *testing.T) *bench {
	b := newBench(t, testSize, Options{MaxInFlight: 2})
	b.write(3000, NeedFlushed)
	b.write(3000, NeedFlushed)
	b.add(3000, NeedFlushed)
	b.turn()
	b.add(3000, NeedFlushed)
	b.turn()
	b.region.perform(1) // of the two in flight, the later one
	if b.obs.flushed != 2 {
		t.Fatalf("flushed watermark %d", b.obs.flushed)
	}
	return b
}

func TestAGhostBehindATornRoundIsDroppedForGood(t *testing.T) {
	b := ghosts(t)
	res := b.reopen()
	if res.Ending != EndTorn || res.LastLSN != 2 || res.Dropped.FirstLSN != 3 || res.Dropped.LastLSN != 4 || res.NextLSN != 5 {
		t.Fatalf("%v after round %d, dropped %+v, next %d", res.Ending, res.LastLSN, res.Dropped, res.NextLSN)
	}
	// A life that writes nothing changes nothing.
	if res := b.reopen(); res.LastLSN != 2 || res.NextLSN != 5 {
		t.Fatalf("second replay: last %d, next %d", res.LastLSN, res.NextLSN)
	}
	// The new round takes exactly the place of the torn one, so the ghost lies
	// where the next round is expected.
	b.base = 2
	if lsn := b.write(3000, NeedFlushed); lsn != 5 || b.roundPos(5)+BlockSize != b.roundPos(4) {
		t.Fatalf("round %d at %d, the ghost at %d", lsn, b.roundPos(5), b.roundPos(4))
	}
	res, list := b.scan()
	wantBases(t, list, 0, 3)
	if res.LastLSN != 5 || !res.Intact() {
		t.Fatalf("last round %d, damage %v", res.LastLSN, res.Damages)
	}
}

func TestAGhostDoesNotReplaceADamagedRound(t *testing.T) {
	b := ghosts(t)
	saved := b.roundPos(4)
	keep := slices.Clone(b.region.data[saved : saved+BlockSize])
	b.reopen()
	b.base = 2
	b.add(6000, NeedFlushed) // two blocks, over the ghost
	b.run()
	b.silence(2)
	b.rot(b.roundPos(5) + 9)
	copy(b.region.data[saved:], keep) // the second block of the damaged round brings the ghost back
	res, list := b.scan()
	wantBases(t, list, 0, 2)
	if len(res.Damages) != 1 || res.Damages[0].LastLSN != 5 || res.LastLSN != 6 {
		t.Fatalf("damage %v, last round %d", res.Damages, res.LastLSN)
	}
}

func TestADroppedRoundThatCanBeReadAgainStaysDropped(t *testing.T) {
	for name, released := range map[string]uint64{"at the head": 2, "in the chain": 1} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, testSize, Options{})
			b.write(3000, NeedFlushed)
			b.write(3000, NeedFlushed)
			b.j.Release(released)
			b.run()
			b.write(3000, NeedFlushed)
			pos := b.roundPos(3)
			b.rot(pos + 2000)
			if res := b.reopen(); res.LastLSN != 2 || res.Ending != EndTorn {
				t.Fatalf("ending %v after round %d", res.Ending, res.LastLSN)
			}
			b.rot(pos + 2000)
			if res := b.reopen(); res.LastLSN != 2 || !res.Intact() {
				t.Fatalf("round %d came back, damage %v", res.LastLSN, res.Damages)
			}
		})
	}
}

func TestARoundMustNameTheHeaderBeforeIt(t *testing.T) {
	b := newBench(t, testSize, Options{})
	for range 3 {
		b.write(3000, NeedFlushed)
	}
	pos := b.roundPos(3)
	b.rot(pos + offPrevCRC)
	b.reseal(pos)
	res, list := b.scan()
	wantBases(t, list, 0, 2)
	if res.Ending != EndTorn {
		t.Fatalf("ending %v", res.Ending)
	}
}

func TestRotInTheLastAcknowledgedRoundAfterSilenceIsCorruption(t *testing.T) {
	for name, at := range map[string]int64{"header": 70, "table": HeaderSize + 40} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, testSize, Options{})
			b.write(3000, NeedFlushed)
			b.write(3000, NeedFlushed)
			b.silence(10)
			pos := b.roundPos(2)
			b.rot(pos + at)
			res, list := b.scan()
			wantBases(t, list, 0, 1)
			if res.Ending != EndClean || len(res.Damages) != 1 {
				t.Fatalf("ending %v, damage %v", res.Ending, res.Damages)
			}
			d := res.Damages[0]
			if d.Kind != DamageRound || d.FirstLSN != 2 || d.LastLSN != 2 || d.Pos != pos || d.End != pos+BlockSize || !errors.Is(d, ErrChecksum) {
				t.Fatalf("damage %+v: %v", d, d)
			}
			// It stays, and is reported again, until a checkpoint releases it.
			b.reopen()
			b.base = 7
			b.write(100, NeedFlushed)
			res, list = b.scan()
			if len(res.Damages) != 1 || len(list) != 2 || list[1].e.BaseOffset != 7 {
				t.Fatalf("after another life: damage %v, %d entries", res.Damages, len(list))
			}
			b.j.Release(3)
			b.run()
			if res, _ = b.scan(); !res.Intact() {
				t.Fatalf("after the release: %v", res.Damages)
			}
		})
	}
}

func TestRotInABodyLosesThatEntryAlone(t *testing.T) {
	b := newBench(t, testSize, Options{})
	for range 3 {
		b.add(1000, NeedFlushed)
	}
	b.run()
	b.silence(10)
	pos := b.roundPos(1)
	body := pos + HeaderSize + 3*EntrySize
	for _, at := range []int64{1061 + 500, 1061 + 2} { // in what the CRC covers, and in the prefix
		b.rot(body + at)
		res, list := b.scan()
		if len(list) != 2 || list[0].e.BaseOffset != 0 || list[1].e.BaseOffset != 2 {
			t.Fatalf("found %d entries", len(list))
		}
		if len(res.Damages) != 1 {
			t.Fatalf("damage %v", res.Damages)
		}
		d := res.Damages[0]
		if d.Kind != DamageBody || d.FirstLSN != 1 || d.Pos != pos || d.Entry.BaseOffset != 1 || d.Entry.Length != 1061 {
			t.Fatalf("damage %+v: %v", d, d)
		}
		s, err := NewScanner(b.d)
		if err != nil {
			t.Fatal(err)
		}
		again := 0
		if err := s.Revisit(b.region, res, func(_ *Header, e *Entry, _ []byte) error {
			if e.BaseOffset == 1 {
				t.Fatal("the damaged batch was handed out")
			}
			again++
			return nil
		}); err != nil || again != 2 {
			t.Fatalf("second visit: %d entries, %v", again, err)
		}
		b.rot(body + at)
	}
}

// Whatever byte of it is hit: what was acknowledged without a flush may be in it, so that
// a replay must not take it for nothing.
func TestRotInAnUnprovenRoundIsATornTail(t *testing.T) {
	for _, lives := range []int{1, 3} {
		b := newBench(t, testSize, Options{})
		b.write(1000, NeedFlushed)
		for range lives - 1 {
			b.reopen()
		}
		lsn := b.write(1000, NeedFlushed)
		pos := b.roundPos(lsn)
		for at := range int64(HeaderSize + EntrySize + 1000) {
			b.rot(pos + at)
			res, list := b.scan()
			if len(list) != 1 || res.Ending != EndTorn || !res.Intact() || res.Dropped.FirstLSN != lsn {
				t.Fatalf("byte %d, life %d: %d entries, ending %v, dropped %+v, damage %v", at, lives, len(list), res.Ending, res.Dropped, res.Damages)
			}
			b.rot(pos + at) // back again
		}
	}
}

func TestSeveralDamagedRoundsAreFoundOneByOne(t *testing.T) {
	b := newBench(t, testSize, Options{})
	for range 20 {
		b.write(3000, NeedFlushed)
	}
	b.silence(2)
	for _, lsn := range []uint64{1, 5, 6, 13, 20} {
		b.rot(b.roundPos(lsn) + 50)
	}
	res, list := b.scan()
	if len(list) != 15 || len(res.Damages) != 4 || res.LastLSN != 21 {
		t.Fatalf("%d entries, damage %v", len(list), res.Damages)
	}
	if d := res.Damages[1]; d.FirstLSN != 5 || d.LastLSN != 6 {
		t.Fatalf("damage %v", d)
	}
	b.reopen()
	b.write(100, NeedFlushed)
	if res, _ := b.scan(); len(res.Damages) != 4 {
		t.Fatalf("after another life: %v", res.Damages)
	}
}

func TestAMisdirectedWriteIsDamageAtBothPlaces(t *testing.T) {
	b := newBench(t, testSize, Options{})
	for range 5 {
		b.write(3000, NeedFlushed)
	}
	to, from := b.roundPos(2), b.roundPos(6-1)
	b.silence(2)
	copy(b.region.data[to:to+BlockSize], b.region.data[from:from+BlockSize])
	clear(b.region.data[from : from+BlockSize])
	res, list := b.scan()
	if len(list) != 3 || len(res.Damages) != 2 || res.Damages[0].FirstLSN != 2 || res.Damages[1].FirstLSN != 5 {
		t.Fatalf("%d entries, damage %v", len(list), res.Damages)
	}
}

func TestDamageAtTheEndIsSteppedOver(t *testing.T) {
	b := newBench(t, testSize, Options{})
	b.write(3000, NeedFlushed)
	b.write(3000, NeedFlushed)
	b.j.Release(1) // the anchor proves round 2
	b.run()
	pos := b.roundPos(2)
	b.rot(pos + 50)
	res := b.reopen()
	if res.Ending != EndDamaged || res.LastLSN != 2 || res.NextPos == pos || len(res.Damages) != 1 || res.Damages[0].End != 0 {
		t.Fatalf("ending %v at round %d, next at %d, damage %v", res.Ending, res.LastLSN, res.NextPos, res.Damages)
	}
	b.base = 9
	b.write(100, NeedFlushed)
	b.write(100, NeedFlushed)
	res, list := b.scan()
	wantBases(t, list, 9, 2)
	if len(res.Damages) != 1 || res.Damages[0].FirstLSN != 2 || res.Damages[0].LastLSN != 2 {
		t.Fatalf("damage %v", res.Damages)
	}
	b.rot(pos + 50)
	if res, _ := b.scan(); len(res.Damages) != 0 && res.Damages[0].Pos == pos {
		t.Fatal("the damaged round was overwritten")
	}
	b.rot(pos + 50)
	b.j.Release(b.j.WrittenLSN())
	b.run()
	if res, _ := b.scan(); !res.Intact() || b.j.Fill() != 0 {
		t.Fatalf("after the release: %v, fill %d", res.Damages, b.j.Fill())
	}
}

func TestOneAnchorIsEnough(t *testing.T) {
	b := newBench(t, testSize, Options{})
	for range 4 {
		b.write(100, NeedFlushed)
	}
	b.j.Release(2)
	b.run()
	for block := range int64(2) {
		b.rot(block*BlockSize + 70)
		res, list := b.scan()
		if len(list) < 2 || !res.Intact() || res.AnchorFlaw == nil {
			t.Fatalf("anchor %d damaged: %d entries, %v, flaw %v", block, len(list), res.Damages, res.AnchorFlaw)
		}
		b.rot(block*BlockSize + 70)
	}
	b.rot(70)
	b.rot(BlockSize + 70)
	if _, _, err := scanAll(b.d, b.region); !errors.Is(err, ErrAnchor) || !errors.Is(err, ErrChecksum) {
		t.Fatalf("both anchors damaged: %v", err)
	}
}

func TestAnAnchorOfYesterdayFindsTheHead(t *testing.T) {
	b := newBench(t, testSize, Options{})
	yesterday := slices.Clone(b.region.data[:2*BlockSize])
	for i := 0; b.j.Stats().Wraps < 3; i++ {
		b.write(3000+i%11*900, NeedFlushed)
		if b.j.Free() < 20*BlockSize {
			b.j.Release(b.j.WrittenLSN() - 10)
			b.run()
		}
	}
	b.silence(2)
	_, today := b.scan()
	copy(b.region.data, yesterday)
	res, list := b.scan()
	if !res.AnchorStale || !res.Intact() || res.HeadLSN > today[0].lsn {
		t.Fatalf("stale %v, head %d, damage %v", res.AnchorStale, res.HeadLSN, res.Damages)
	}
	from := list[0].e.BaseOffset
	if from > today[0].e.BaseOffset {
		t.Fatalf("entries from %d on are missing", today[0].e.BaseOffset)
	}
	wantBases(t, list, from, b.base-from)
	b.reopen()
	b.write(100, NeedFlushed)
	if res, _ := b.scan(); res.AnchorStale || !res.Intact() {
		t.Fatalf("after another life: %v", res.Damages)
	}
}

func TestUnreadableBlocksAreDamage(t *testing.T) {
	b := newBench(t, testSize, Options{})
	for range 5 {
		b.write(3000, NeedFlushed)
	}
	b.silence(2)
	bad := b.roundPos(3)
	b.region.refuse = func(op *aio.Op) error {
		if op.Kind == aio.KindRead && op.Off <= bad && bad < op.Off+int64(len(op.Buf)) {
			return syscall.EIO
		}
		return nil
	}
	res, list := b.scan()
	if len(list) != 4 || len(res.Damages) != 1 || res.Damages[0].FirstLSN != 3 || res.Unreadable == 0 {
		t.Fatalf("%d entries, damage %v, %d unreadable blocks", len(list), res.Damages, res.Unreadable)
	}
	b.region.refuse = func(op *aio.Op) error {
		if op.Kind == aio.KindRead && op.Off >= RingStart {
			return syscall.EIO
		}
		return nil
	}
	big := newBench(t, 512*BlockSize, Options{})
	big.region.refuse = b.region.refuse
	if _, _, err := scanAll(big.d, big.region); !errors.Is(err, ErrUnreadable) || !errors.Is(err, syscall.EIO) {
		t.Fatalf("a dead device: %v", err)
	}
}

// What stops the reading for another reason says nothing about the medium.
func TestAReadingThatIsCutShortFindsNoDamage(t *testing.T) {
	for _, err := range []error{syscall.ENOMEM, aio.ErrClosed} {
		b := newBench(t, testSize, Options{})
		for range 5 {
			b.write(3000, NeedFlushed)
		}
		bad := b.roundPos(3)
		b.region.refuse = func(op *aio.Op) error {
			if op.Kind == aio.KindRead && op.Off <= bad && bad < op.Off+int64(len(op.Buf)) {
				return err
			}
			return nil
		}
		if res, _, got := scanAll(b.d, b.region); !errors.Is(got, err) {
			t.Fatalf("%v: the scan ends with %v, damage %v", err, got, res.Damages)
		}
	}
}

func TestAnotherJournalsRoundsMeanNothing(t *testing.T) {
	b := newBench(t, testSize, Options{})
	for range 5 {
		b.write(3000, NeedFlushed)
	}
	if err := Create(b.d, b.region, Identity{Shard: 1}); err != nil {
		t.Fatal(err)
	}
	res := b.reopen()
	if res.LastLSN != 0 || res.NextLSN != 1 || res.Ending != EndClean || res.Anchor.UUID == [16]byte{1, 2, 3} {
		t.Fatalf("last round %d, next %d, ending %v", res.LastLSN, res.NextLSN, res.Ending)
	}
}

func TestUnknownKinds(t *testing.T) {
	b := newBench(t, testSize, Options{})
	b.add(100, NeedNone)
	if _, err := b.j.Append(&Entry{Kind: KindHardState, Term: 3}, []byte("vote"), NeedFlushed); err != nil {
		t.Fatal(err)
	}
	b.run()
	res, list := b.scan()
	if len(list) != 1 || res.Unknown != 1 {
		t.Fatalf("%d entries and %d unknown ones", len(list), res.Unknown)
	}
	pos := b.roundPos(1)
	b.region.data[pos+HeaderSize+EntrySize+entFlags] = FlagRequired
	b.reseal(pos)
	_, _, err := scanAll(b.d, b.region)
	var kind *KindError
	if !errors.As(err, &kind) || kind.Kind != KindHardState || !errors.Is(err, ErrVersion) {
		t.Fatalf("a required kind that is unknown: %v", err)
	}
}

func TestNewerFormatsAreRefused(t *testing.T) {
	for name, change := range map[string]func(block []byte){
		"version": func(block []byte) { block[offVersion+1] = AnchorVersion + 1 },
		"feature": func(block []byte) { block[ancRequired+7] = 1 },
	} {
		b := newBench(t, testSize, Options{})
		block := b.region.data[:BlockSize]
		change(block)
		binary.BigEndian.PutUint32(block[offCRC:], checksum(block))
		if _, _, err := scanAll(b.d, b.region); !errors.Is(err, ErrVersion) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRegionsThatHoldNoJournalAreTold(t *testing.T) {
	d := &memDriver{region: newMemRegion(testSize)}
	if _, _, err := scanAll(d, d.region); !errors.Is(err, ErrNotJournal) {
		t.Fatalf("zeros: %v", err)
	}
	b := newBench(t, testSize, Options{})
	b.region.data = b.region.data[:testSize-BlockSize]
	if _, _, err := scanAll(b.d, b.region); !errors.Is(err, ErrRegion) {
		t.Fatalf("a region that was cut: %v", err)
	}
	d.region = newMemRegion(MinRegion - BlockSize)
	if err := Create(d, d.region, Identity{}); !errors.Is(err, ErrRegion) {
		t.Fatalf("a region that is too small: %v", err)
	}
}

func TestTheVisitorsErrorEndsTheScan(t *testing.T) {
	b := newBench(t, testSize, Options{})
	b.write(100, NeedFlushed)
	b.write(100, NeedFlushed)
	stop := errors.New("stop")
	calls := 0
	_, err := Scan(b.d, b.region, func(*Header, *Entry, []byte) error { calls++; return stop })
	if !errors.Is(err, stop) || calls != 1 {
		t.Fatalf("%d calls, %v", calls, err)
	}
}
