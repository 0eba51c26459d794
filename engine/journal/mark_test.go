package journal

import "testing"

func TestSilenceProvesTheNewestRoundOnceAndThenWritesNothing(t *testing.T) {
	b := newBench(t, testSize, Options{})
	if due := b.j.Timer(b.now, b.now); due != 0 {
		t.Fatalf("an idle journal wants its timer at %d", due)
	}
	b.write(100, NeedFlushed)
	b.wantLog("dsync 1")
	due := b.j.Timer(b.now, b.now)
	if due == 0 || due > b.now+1e6 {
		t.Fatalf("mark due at %d, now %d", due, b.now)
	}
	b.j.Timer(due-1, due-1)
	b.wantLog()
	if b.j.Idle() {
		t.Fatal("idle although a mark is due")
	}
	b.now = due
	b.run()
	b.wantLog("dsync 2")
	if res, _ := b.scan(); res.ProvenLSN != 1 || res.LastLSN != 2 {
		t.Fatalf("proven %d, last %d", res.ProvenLSN, res.LastLSN)
	}
	for range 5 {
		b.silence(100)
	}
	b.wantLog()
	if due := b.j.Timer(b.now, b.now); due != 0 || !b.j.Idle() {
		t.Fatalf("timer at %d, idle %v", due, b.j.Idle())
	}
}

func TestAFollowingRoundMakesTheMarkUnnecessary(t *testing.T) {
	b := newBench(t, testSize, Options{})
	for range 5 {
		b.write(100, NeedFlushed)
		b.now += 9e5
		b.j.Timer(b.now, b.now)
	}
	b.wantLog("dsync 1", "dsync 2", "dsync 3", "dsync 4", "dsync 5")
	b.silence(2)
	b.wantLog("dsync 6")
	if b.j.Stats().Marks != 1 {
		t.Fatalf("%d marks", b.j.Stats().Marks)
	}
}

func TestTheSilenceCountsFromTheEndOfTheRound(t *testing.T) {
	b := newBench(t, testSize, Options{})
	b.add(100, NeedFlushed)
	b.turn()
	for range 10 {
		b.now += 1e6
		b.turn()
	}
	b.wantLog("dsync 1")
	b.region.settle()
	b.now += 1e6
	b.turn()
	b.wantLog()
	b.now += 1e6
	b.turn()
	b.wantLog("dsync 2")
}

func TestAnAnchorIsAProofToo(t *testing.T) {
	b := newBench(t, testSize, Options{})
	b.write(100, NeedFlushed)
	b.write(100, NeedFlushed)
	b.j.Release(1)
	b.run()
	b.region.took()
	b.silence(10)
	b.wantLog()
	if res, _ := b.scan(); res.ProvenLSN != 2 {
		t.Fatalf("proven %d", res.ProvenLSN)
	}
}

func TestAMarkTakesWhatFillsAnyway(t *testing.T) {
	b := newBench(t, testSize, Options{})
	b.write(100, NeedFlushed)
	b.add(100, NeedNone)
	b.silence(0)
	b.wantLog("dsync 1")
	b.silence(2)
	b.wantLog("dsync 2")
	b.silence(2)
	b.wantLog("dsync 3")
	if s := b.j.Stats(); s.Marks != 1 || s.Rounds != 3 {
		t.Fatalf("%d marks in %d rounds", s.Marks, s.Rounds)
	}
}

func TestAMarkBehindPlainRoundsIsFlushed(t *testing.T) {
	b := newBench(t, testSize, Options{})
	b.write(100, NeedFlushed)
	b.write(100, NeedWritten)
	b.silence(2)
	b.wantLog("dsync 1", "write 2", "write 3", "flush")
	if b.j.FlushedLSN() != 3 {
		t.Fatalf("flushed watermark %d", b.j.FlushedLSN())
	}
	// The mark's flush made round 2 durable, and nothing proves that yet.
	b.silence(2)
	b.wantLog("dsync 4")
	b.silence(2)
	b.wantLog()
}

func TestPlainRoundsAloneGetNoMark(t *testing.T) {
	b := newBench(t, testSize, Options{})
	b.write(100, NeedWritten)
	b.silence(50)
	b.wantLog("write 1")
	b.j.Flush()
	b.silence(0)
	b.wantLog("flush")
	b.silence(2)
	b.wantLog("dsync 2")
}

func TestARoundDoesNotWaitForAMark(t *testing.T) {
	for _, first := range []int{0, 1} {
		b := newBench(t, testSize, Options{})
		b.write(100, NeedFlushed)
		b.now = b.j.Timer(b.now, b.now)
		b.turn()
		b.add(100, NeedFlushed)
		b.turn()
		b.wantLog("dsync 1", "dsync 2", "dsync 3")
		if n := b.j.InFlightBytes(); n != 2*BlockSize || b.j.Begun() != 3 {
			t.Fatalf("%d bytes in flight after %d rounds", n, b.j.Begun())
		}
		b.add(100, NeedFlushed)
		b.turn()
		b.wantLog() // but it does wait for a round
		b.region.perform(first)
		if done, want := b.j.FlushedLSN(), []uint64{2, 1}[first]; done != want {
			t.Fatalf("flushed up to %d, expected %d", done, want)
		}
		b.run()
		b.wantLog("dsync 4")
		if b.j.FlushedLSN() != 4 || b.j.Stats().Marks != 1 || b.j.InFlightBytes() != 0 {
			t.Fatalf("flushed up to %d, %d marks, %d bytes in flight", b.j.FlushedLSN(), b.j.Stats().Marks, b.j.InFlightBytes())
		}
	}
}
