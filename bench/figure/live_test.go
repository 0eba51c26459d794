package figure

import (
	"strings"
	"testing"
	"time"
)

func TestAGlanceHasWhatCameSinceTheLastOne(t *testing.T) {
	var live Live
	if g := live.Look(); g.Acked != 0 {
		t.Errorf("%+v before a run", g)
	}
	workers := live.Begin(2)
	record := func(p *Pane, ns, n int64) { p.Acked(ns, n) }
	// What workers record between two looks is seen once, in the order they hand over.
	total := int64(0)
	for i := range int64(5) {
		for _, w := range workers {
			record(w, 1000*(i+1), i+1)
			w.Show()
			w.Show() // nobody has looked since
		}
		g := live.Look()
		total += g.Acked
		if g.Acked != 2*(i+1) || g.Ack.Count() != g.Acked || g.Ack.At(100)/1000 != i+1 {
			t.Fatalf("look %d: %d messages, the longest took %d", i, g.Acked, g.Ack.At(100))
		}
	}
	record(workers[1], 5, 7)
	if g := live.Look(); g.Acked != 0 {
		t.Errorf("%d messages that were not handed over", g.Acked)
	}
	workers[1].Show()
	if g := live.Look(); g.Acked != 7 || total != 30 {
		t.Errorf("%d messages, %d before", g.Acked, total)
	}
	// Without anybody to look there are no panes.
	var nobody *Live
	for _, p := range nobody.Begin(1) {
		p.Acked(1, 1)
		p.Read(1)
		p.Show()
	}
	if a := testing.AllocsPerRun(100, func() { record(workers[0], 5, 1); workers[0].Show() }); a != 0 {
		t.Errorf("%v allocations", a)
	}
}

func TestAGlanceIsALine(t *testing.T) {
	g := NewGlance()
	g.Acked = 500
	g.Ack.Record(20_000, 500)
	if got, want := g.String(500*time.Millisecond), "     1000 messages/s  ack p50 20.0 µs  p99 20.0 µs  max 20.0 µs"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	g.EndToEnd.Record(30_000, 1)
	if got := g.String(time.Second); !strings.HasSuffix(got, "  end to end p50 30.0 µs  p99 30.0 µs") {
		t.Error(got)
	}
}
