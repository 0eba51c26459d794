package journal

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
)

func TestARoundGoesAtOnceAndTheNextFillsMeanwhile(t *testing.T) {
	b := newBench(t, testSize, Options{})
	first := b.add(100, NeedFlushed)
	b.turn()
	b.wantLog("dsync 1")
	second, third := b.add(100, NeedFlushed), b.add(100, NeedFlushed)
	b.turn()
	b.wantLog()
	if first != 1 || second != 2 || third != 2 {
		t.Fatalf("LSNs %d, %d, %d; expected 1, 2, 2", first, second, third)
	}
	b.region.settle()
	if b.obs.written != 1 || b.obs.flushed != 1 {
		t.Fatalf("after round 1: watermarks %d/%d", b.obs.written, b.obs.flushed)
	}
	b.turn()
	b.wantLog("dsync 2")
	b.region.settle()
	res, list := b.scan()
	wantBases(t, list, 0, 3)
	if res.LastLSN != 2 || res.Ending != EndClean || !res.Intact() {
		t.Fatalf("replay ended %v at round %d", res.Ending, res.LastLSN)
	}
	for _, f := range list {
		want := testBatch(f.e.BaseOffset, 100)
		if f.body != string(want) || !bytes.Equal(f.e.Prefix[:], want[:PrefixSize]) {
			t.Fatalf("batch %d is not what was appended", f.e.BaseOffset)
		}
		if f.e.Index != f.lsn || f.e.Slot != 3 || f.e.Term != 9 || f.e.Partition != 4 || f.e.Topic[0] != 0xaa {
			t.Fatalf("entry %+v of round %d is not what was appended", f.e, f.lsn)
		}
	}
}

func TestAnEntryInPiecesIsWrittenAsOne(t *testing.T) {
	b := newBench(t, testSize, Options{})
	body := testBatch(5, 700)
	_, err := b.j.AppendVec(&Entry{Kind: KindBatch, Index: 77, BaseOffset: 5}, [][]byte{body[:3], nil, body[3:400], body[400:]}, NeedWritten)
	if err != nil {
		t.Fatal(err)
	}
	tail := []byte("the partial last block of a segment")
	if _, err := b.j.Append(&Entry{Kind: KindTail, BodyCRC: 1}, tail, NeedNone); err != nil {
		t.Fatal(err)
	}
	b.run()
	_, list := b.scan()
	if len(list) != 2 || list[0].body != string(body) || list[0].e.Index != 77 {
		t.Fatalf("found %d entries, the first %+v", len(list), list[0].e)
	}
	if list[1].body != string(tail) || list[1].e.Kind != KindTail || list[1].e.BodyCRC != BodyCRC(tail) {
		t.Fatalf("the fragment came back as %+v", list[1])
	}
}

func TestEntriesThatNobodyWaitsForGoOnlyWhenTold(t *testing.T) {
	b := newBench(t, testSize, Options{})
	b.add(100, NeedNone)
	b.turn()
	b.wantLog()
	b.j.KickAll(b.now)
	b.wantLog("write 1")
	b.add(100, NeedNone)
	b.j.KickAll(b.now)
	b.wantLog()
	b.region.settle()
	b.turn()
	b.wantLog("write 2")
}

func TestBehindAPlainRoundDurabilityTakesAFlush(t *testing.T) {
	b := newBench(t, testSize, Options{})
	b.write(100, NeedWritten)
	b.wantLog("write 1")
	if b.obs.written != 1 || b.obs.flushed != 0 {
		t.Fatalf("watermarks %d/%d after a plain write", b.obs.written, b.obs.flushed)
	}
	b.add(100, NeedFlushed)
	b.turn()
	b.wantLog("write 2")
	b.region.perform(0)
	b.wantLog("flush")
	if b.obs.written != 2 || b.obs.flushed != 0 {
		t.Fatalf("watermarks %d/%d before the flush", b.obs.written, b.obs.flushed)
	}
	b.add(100, NeedFlushed)
	b.turn()
	b.wantLog()
	b.region.perform(0)
	if b.obs.flushed != 2 {
		t.Fatalf("flushed watermark %d after the flush", b.obs.flushed)
	}
	b.turn()
	b.wantLog("dsync 3")
}

func TestWithoutDSYNCEveryDurableRoundIsFlushed(t *testing.T) {
	b := newBench(t, testSize, Options{Method: MethodWriteFlush})
	b.write(100, NeedFlushed)
	b.wantLog("write 1", "flush")
	b.write(100, NeedFlushed)
	b.wantLog("write 2", "flush")
	b.j.Release(1)
	b.region.settle()
	b.wantLog("write anchor", "flush")
	if b.j.Released() != 1 {
		t.Fatalf("released up to %d", b.j.Released())
	}
}

func TestFlushCoversWhatIsWrittenAndInFlight(t *testing.T) {
	b := newBench(t, testSize, Options{})
	b.write(100, NeedWritten)
	b.add(100, NeedWritten)
	b.turn()
	if lsn := b.j.Flush(); lsn != 2 {
		t.Fatalf("flush up to %d, expected 2", lsn)
	}
	b.wantLog("write 1", "write 2")
	b.region.perform(0)
	b.wantLog("flush")
	b.region.perform(0)
	if b.j.FlushedLSN() != 2 {
		t.Fatalf("flushed watermark %d", b.j.FlushedLSN())
	}
	b.j.Flush()
	b.wantLog()
}

func TestWatermarksMoveAsAPrefixWithSeveralInFlight(t *testing.T) {
	b := newBench(t, testSize, Options{MaxInFlight: 3})
	for range 3 {
		b.add(100, NeedFlushed)
		b.turn()
	}
	b.add(100, NeedFlushed)
	b.turn()
	b.wantLog("dsync 1", "dsync 2", "dsync 3")
	b.region.perform(2)
	b.region.perform(1)
	b.turn()
	b.wantLog()
	if b.obs.calls != 0 {
		t.Fatalf("progress %d/%d while round 1 is in flight", b.obs.written, b.obs.flushed)
	}
	b.region.perform(0)
	if b.obs.written != 3 || b.obs.flushed != 3 {
		t.Fatalf("watermarks %d/%d", b.obs.written, b.obs.flushed)
	}
	b.turn()
	b.wantLog("dsync 4")
}

func TestAFlushDoesNotCoverARoundWrittenDuringIt(t *testing.T) {
	b := newBench(t, testSize, Options{MaxInFlight: 2})
	b.write(100, NeedWritten)
	b.j.Flush()
	b.add(100, NeedFlushed)
	b.turn()
	b.wantLog("write 1", "flush", "write 2")
	b.region.perform(1)
	b.wantLog()
	b.region.perform(0)
	b.wantLog("flush")
	if b.obs.flushed != 1 {
		t.Fatalf("flushed watermark %d, the second flush is not done", b.obs.flushed)
	}
	b.region.perform(0)
	if b.obs.flushed != 2 {
		t.Fatalf("flushed watermark %d", b.obs.flushed)
	}
}

func TestALargeBatchIsARoundAlone(t *testing.T) {
	b := newBench(t, 256*BlockSize, Options{RoundBytes: 4 * BlockSize, MaxBody: 20 * BlockSize})
	lsns := []uint64{b.add(100, NeedFlushed), b.add(15*BlockSize, NeedFlushed), b.add(100, NeedFlushed)}
	if lsns[0] != 1 || lsns[1] != 2 || lsns[2] != 3 {
		t.Fatalf("LSNs %v", lsns)
	}
	if _, err := b.try(18*BlockSize, NeedFlushed); !errors.Is(err, ErrFull) {
		t.Fatalf("a second large batch while the buffer is taken: %v", err)
	}
	if _, err := b.try(20*BlockSize, NeedFlushed); !errors.Is(err, ErrTooLarge) {
		t.Fatalf("a batch larger than allowed: %v", err)
	}
	b.run()
	b.write(18*BlockSize, NeedFlushed)
	_, list := b.scan()
	wantBases(t, list, 0, 4)
	for _, f := range list {
		if f.body != string(testBatch(f.e.BaseOffset, len(f.body)-61)) {
			t.Fatalf("batch %d is not what was appended", f.e.BaseOffset)
		}
	}
}

func TestFullBuffersAreErrFull(t *testing.T) {
	b := newBench(t, testSize, Options{Rounds: 2, RoundBytes: 2 * BlockSize})
	var err error
	n := 0
	for ; err == nil && n < 100; n++ {
		_, err = b.try(3000, NeedFlushed)
	}
	if !errors.Is(err, ErrFull) || n != 5 {
		t.Fatalf("append %d: %v", n, err)
	}
	b.run()
	if _, err := b.try(3000, NeedFlushed); err != nil {
		t.Fatalf("after progress: %v", err)
	}
}

func TestAFullRingIsErrFullAndNothingIsOverwritten(t *testing.T) {
	b := newBench(t, testSize, Options{})
	written := int64(0)
	for {
		_, err := b.try(3000, NeedFlushed)
		if errors.Is(err, ErrFull) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		written++
		b.run()
	}
	if written < 40 {
		t.Fatalf("only %d rounds of a block fit into %d blocks", written, testSize/BlockSize)
	}
	b.silence(10)
	// What makes room may still be written.
	for range 2 {
		if _, err := b.j.Append(&Entry{Kind: KindTail}, make([]byte, 3000), NeedFlushed); err != nil {
			t.Fatalf("a tail fragment in a full ring: %v", err)
		}
		b.run()
	}
	res, list := b.scan()
	if res.HeadLSN != 1 || res.Ending != EndClean {
		t.Fatalf("head %d, ending %v", res.HeadLSN, res.Ending)
	}
	wantBases(t, list[:written], 0, written)
	b.j.Release(10)
	b.run()
	if _, err := b.try(3000, NeedFlushed); err != nil {
		t.Fatalf("after a release: %v", err)
	}
	b.run()
	res, _ = b.scan()
	if res.HeadLSN != 11 || !res.Intact() {
		t.Fatalf("head %d after the release of 10", res.HeadLSN)
	}
}

func TestSpaceIsFreeOnlyWhenTheAnchorIsDurable(t *testing.T) {
	b := newBench(t, testSize, Options{})
	for b.j.Free() >= BlockSize {
		b.write(3000, NeedFlushed)
	}
	b.region.took()
	b.j.Release(5)
	b.j.Release(20)
	b.wantLog("dsync anchor")
	if _, err := b.try(3000, NeedFlushed); !errors.Is(err, ErrFull) {
		t.Fatalf("append before the anchor is durable: %v", err)
	}
	calls := b.obs.calls
	b.region.perform(0)
	if b.j.Released() != 5 || b.obs.calls == calls {
		t.Fatalf("released %d, %d reports", b.j.Released(), b.obs.calls-calls)
	}
	b.wantLog("dsync anchor")
	b.region.settle()
	if b.j.Released() != 20 {
		t.Fatalf("released %d", b.j.Released())
	}
	b.write(3000, NeedFlushed)
	res, _ := b.scan()
	if res.HeadLSN != 21 || !res.Intact() {
		t.Fatalf("head %d", res.HeadLSN)
	}
}

func TestTheRingIsUsedManyTimes(t *testing.T) {
	for seed := range uint64(5) {
		rng := rand.New(rand.NewPCG(seed, 1))
		b := newBench(t, testSize, Options{RoundBytes: 8 * BlockSize, MaxInFlight: 1 + int(seed)%4})
		from := int64(0)
		for i := range 3000 {
			need := Need(1 + rng.IntN(2))
			if _, err := b.try(rng.IntN(6*BlockSize), need); err != nil && !errors.Is(err, ErrFull) {
				t.Fatal(err)
			}
			if rng.IntN(3) > 0 {
				b.run()
			}
			if b.j.Free() < 20*BlockSize {
				b.j.Release(b.j.WrittenLSN() - uint64(rng.IntN(3)))
				b.run()
			}
			if i%500 != 499 {
				continue
			}
			b.run()
			res, list := b.scan()
			if !res.Intact() || res.Ending != EndClean {
				t.Fatalf("seed %d: ending %v, damage %v", seed, res.Ending, res.Damages)
			}
			if len(list) > 0 {
				if list[0].e.BaseOffset < from {
					t.Fatalf("seed %d: base offset %d after %d", seed, list[0].e.BaseOffset, from)
				}
				from = list[0].e.BaseOffset
				wantBases(t, list, from, b.base-from)
			}
		}
		if b.j.Stats().Wraps < 20 {
			t.Fatalf("seed %d: %d wraps", seed, b.j.Stats().Wraps)
		}
	}
}

func TestRoomToSpareDoesNotLengthenTheRound(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	b := newBench(t, 512*BlockSize, Options{})
	if b.j.RoomToSpare() != 0 {
		t.Fatal("room to spare without a round")
	}
	for i := range 2000 {
		if b.j.Free() < 100*BlockSize {
			b.j.Release(b.j.WrittenLSN())
			b.run()
		}
		for range 1 + rng.IntN(5) {
			b.add(rng.IntN(6000), NeedFlushed)
		}
		before, room := b.j.Fill(), b.j.RoomToSpare()
		lsn := b.j.FillingLSN()
		if room > 61 {
			if got := b.add(room-61, NeedNone); got != lsn || b.j.Fill() != before {
				t.Fatalf("turn %d: %d bytes to spare lengthened the round from %d to %d bytes", i, room, before, b.j.Fill())
			}
		} else if b.add(room, NeedNone); b.j.Fill() == before {
			t.Fatalf("turn %d: %d bytes to spare, but %d fit", i, room, room+61)
		}
		b.run()
	}
	b.add(100, NeedNone)
	if b.j.RoomToSpare() != 0 {
		t.Fatal("room to spare in a round that does not go")
	}
}

func TestAnObserverMayAppendAndKick(t *testing.T) {
	b := newBench(t, testSize, Options{})
	b.obs.then = func() {
		if b.base < 20 {
			b.add(100, NeedFlushed)
			b.j.Kick(b.now)
		}
	}
	b.write(100, NeedFlushed)
	_, list := b.scan()
	wantBases(t, list, 0, 20)
}

func TestAppendTimeDoesNotGoBack(t *testing.T) {
	b := newBench(t, testSize, Options{})
	for _, now := range []int64{5000, 3000, 9000} {
		b.add(10, NeedFlushed)
		b.j.Kick(now)
		b.region.settle()
	}
	b.reopen()
	b.add(10, NeedFlushed)
	b.j.Kick(1)
	b.region.settle()
	s, err := NewScanner(b.d)
	if err != nil {
		t.Fatal(err)
	}
	var times []int64
	s.OnRound = func(h *Header) { times = append(times, h.AppendTime) }
	if _, err := s.Scan(b.region, nil); err != nil {
		t.Fatal(err)
	}
	want := []int64{5000, 5000, 9000, 9000}
	for i := range want {
		if len(times) != len(want) || times[i] != want[i] {
			t.Fatalf("append times %v, expected %v", times, want)
		}
	}
}

func TestCloseWritesFlushesAndProves(t *testing.T) {
	b := newBench(t, testSize, Options{})
	b.write(100, NeedWritten)
	b.add(100, NeedNone)
	b.region.took()
	b.j.Close(b.now, b.now)
	if _, err := b.try(10, NeedNone); !errors.Is(err, ErrClosed) {
		t.Fatalf("append to a closing journal: %v", err)
	}
	for n := 0; !b.j.Idle(); n++ {
		if n > 10 {
			t.Fatal("not idle")
		}
		b.region.settle()
		b.turn()
	}
	res, list := b.scan()
	wantBases(t, list, 0, 2)
	if res.ProvenLSN < 2 || b.j.FlushedLSN() != res.LastLSN {
		t.Fatalf("proven %d, flushed %d, last %d", res.ProvenLSN, b.j.FlushedLSN(), res.LastLSN)
	}
}

func TestOptionsThatDoNotFitAreRefused(t *testing.T) {
	b := newBench(t, testSize, Options{})
	res, _ := b.scan()
	for name, o := range map[string]Options{
		"no observer":        {},
		"one round":          {Observer: b.obs, Rounds: 1},
		"unaligned rounds":   {Observer: b.obs, RoundBytes: 3 * BlockSize / 2},
		"round over eighth":  {Observer: b.obs, RoundBytes: testSize/8 + BlockSize},
		"body over eighth":   {Observer: b.obs, MaxBody: testSize/8 + 1},
		"too many in flight": {Observer: b.obs, MaxInFlight: maxInFlight + 1},
	} {
		if _, err := Open(b.d, b.region, res, o); !errors.Is(err, ErrRegion) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
