package engine

import (
	"testing"
	"time"
)

// canceller cancels other reads when it hears of its own.
type canceller struct {
	Read
	done   int
	others []*canceller
	told   []bool // what CancelRead said
}

func (c *canceller) ReadDone(*Read) {
	c.done++
	for _, o := range c.others {
		c.told = append(c.told, o.Part.store.CancelRead(&o.Read))
	}
	c.others = nil
}

// Whoever hears of a read may cancel the ones behind it, as when a connection closes. A
// read that was cancelled is answered to nobody.
func TestAReadCancelledByAnotherIsNotAnswered(t *testing.T) {
	r := newRig(t, rigOptions{})
	p := r.part(r.topic(1, ClassFlushed), 0)
	waiting := make([]*canceller, 4)
	for i := range waiting {
		c := &canceller{}
		c.Part, c.MaxBytes, c.MinBytes, c.Owner = p, 1<<16, 1, c
		c.Until = r.w.Now() + int64(time.Minute)
		waiting[i] = c
		p.store.Read(&c.Read)
	}
	// The oldest is answered first.
	waiting[0].others = []*canceller{waiting[1], waiting[2]}
	r.sendWait(p, 1, 100)
	r.until("answers", func() bool { return waiting[3].done > 0 && waiting[0].done > 0 })
	r.run(5 * time.Millisecond)
	for i, want := range []int{1, 0, 0, 1} {
		if waiting[i].done != want {
			t.Errorf("read %d: %d answers, expected %d; CancelRead said %v", i, waiting[i].done, want, waiting[0].told)
		}
	}
	for _, c := range waiting {
		p.store.Release(&c.Read)
	}
	if u := p.store.Usage(); u.WaitingReads != 0 || u.PinnedPieces != 0 {
		t.Fatalf("left behind: %+v", u)
	}
}
