package figure

import (
	"fmt"
	"sync/atomic"
	"time"
)

// Glance is what happened since the last one.
type Glance struct {
	Acked    int64    `json:"acked"` // messages
	Read     int64    `json:"read"`
	Ack      *Latency `json:"ack"`
	EndToEnd *Latency `json:"end_to_end"`
}

// NewGlance returns an empty one.
func NewGlance() *Glance { return &Glance{Ack: NewLatency(), EndToEnd: NewLatency()} }

// Add adds what another part saw.
func (g *Glance) Add(o *Glance) {
	g.Acked += o.Acked
	g.Read += o.Read
	g.Ack.Merge(o.Ack)
	g.EndToEnd.Merge(o.EndToEnd)
}

func (g *Glance) reset() {
	g.Acked, g.Read = 0, 0
	g.Ack.reset()
	g.EndToEnd.reset()
}

// String is the glance in one line; it took d.
func (g *Glance) String(d time.Duration) string {
	text := fmt.Sprintf("%9.0f messages/s  ack p50 %s  p99 %s  max %s", float64(g.Acked)/d.Seconds(), Micros(g.Ack.At(50)), Micros(g.Ack.At(99)), Micros(g.Ack.At(100)))
	if g.EndToEnd.Count() > 0 {
		text += fmt.Sprintf("  end to end p50 %s  p99 %s", Micros(g.EndToEnd.At(50)), Micros(g.EndToEnd.At(99)))
	}
	return text
}

// Live lets one goroutine look at runs under way. A worker that measures records into
// one glance more, and looks once a turn whether it is to hand it over for an empty one:
// it computes nothing and waits for nobody. Its zero value is ready.
type Live struct{ panes atomic.Pointer[[]*Pane] }

// Pane is one worker's. A nil pane takes what it is told and shows nothing.
type Pane struct {
	own   *Glance                // the worker's
	empty atomic.Pointer[Glance] // for the worker, instead of its own
	full  atomic.Pointer[Glance] // from it
}

// Begin makes a pane for each of so many workers of a run; one of nobody makes none.
func (l *Live) Begin(workers int) []*Pane {
	panes := make([]*Pane, workers)
	if l == nil {
		return panes
	}
	for i := range panes {
		panes[i] = &Pane{own: NewGlance()}
		panes[i].empty.Store(NewGlance())
	}
	l.panes.Store(&panes)
	return panes
}

// Look is what the workers have handed over since the last time. The first time it asks
// them and has nothing yet. Only one goroutine may look.
func (l *Live) Look() *Glance {
	sum := NewGlance()
	panes := l.panes.Load()
	if panes == nil {
		return sum
	}
	for _, p := range *panes {
		if g := p.full.Swap(nil); g != nil {
			sum.Add(g)
			g.reset()
			p.empty.Store(g)
		}
	}
	return sum
}

// Acked notes n messages that were acknowledged after so many nanoseconds.
func (p *Pane) Acked(ns, n int64) {
	if p != nil {
		p.own.Acked += n
		p.own.Ack.Record(ns, n)
	}
}

// Read notes a message that took so many nanoseconds from end to end.
func (p *Pane) Read(ns int64) {
	if p != nil {
		p.own.Read++
		p.own.EndToEnd.Record(ns, 1)
	}
}

// Show hands the worker's glance over, if somebody wants to look.
func (p *Pane) Show() {
	if p == nil || p.empty.Load() == nil {
		return
	}
	full := p.own
	p.own = p.empty.Swap(nil)
	p.full.Store(full)
}
