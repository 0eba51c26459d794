package engine

import (
	"testing"
	"time"

	"github.com/mqd-broker/mqd/engine/aio/sim"
)

func TestTheLoopPollsForASmallRoundAndNotForever(t *testing.T) {
	r := newRig(t, rigOptions{})
	p := r.part(r.topic(1, ClassFlushed), 0)
	r.sendWait(p, 1, 100)
	r.run(10 * time.Millisecond)
	s, loop := r.shards[0].store, r.shards[0].loop
	if hint := s.SpinHint(r.w.Now()); hint != 0 {
		t.Fatalf("an idle store wants to be polled until %d, now %d", hint, r.w.Now())
	}
	s.journal.SetDeviceTime(int64(time.Millisecond))
	hold := r.w.Hold(sim.Filter{Ops: sim.Writes, Path: "*journal*"})
	a := r.send(p, 1, 100)
	if _, err := loop.Turn(); err != nil {
		t.Fatal(err)
	}
	start := r.w.Now()
	until := s.SpinHint(start)
	if until != start+4*int64(time.Millisecond) {
		t.Fatalf("polled until %d at %d", until, start)
	}
	r.run(2 * time.Millisecond)
	if again := s.SpinHint(r.w.Now()); again != until {
		t.Fatalf("polled until %d, later until %d", until, again)
	}
	// What gathers meanwhile goes with one large round.
	for range 10 {
		a = r.send(p, 8, 2000)
	}
	hold.Release()
	r.until("a large round", func() bool { return s.journal.InFlightBytes() > 64<<10 })
	if hint := s.SpinHint(r.w.Now()); hint != 0 {
		t.Fatalf("a large round is polled for until %d", hint)
	}
	r.until("ack", func() bool { return a.done })
}
