package engine

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
	"github.com/mqd-broker/mqd/engine/layout"
	"github.com/mqd-broker/mqd/engine/segment"
)

// goneRig is a partition with four segments, and another one, with a checkpoint that has
// all but the last batches of both.
type goneRig struct {
	*rig
	id          TopicID
	sent, other []*produced
	known       int64   // the end of the checkpoint
	bases       []int64 // of the segments that it knows
	from, to    int64   // what is gone
}

// newGoneRig ends the life as end says.
func newGoneRig(t *testing.T, class Class, end func(r *rig)) *goneRig {
	t.Helper()
	g := &goneRig{rig: newRig(t, rigOptions{segment: 16 << 10})}
	g.id = g.topic(1, class)
	p := g.part(g.id, 0)
	for len(g.bases) < 4 || p.active.Size < 4<<10 {
		g.sent = append(g.sent, g.sendWait(p, 2, 300))
		g.bases = nil
		for seg := p.first; seg != nil; seg = seg.next {
			g.bases = append(g.bases, seg.base)
		}
	}
	g.other = append(g.other, g.sendWait(g.part(g.id, 1), 2, 300))
	g.checkpointAll()
	g.known = p.Durable()
	for range 3 {
		g.sent = append(g.sent, g.sendWait(p, 2, 300))
		g.other = append(g.other, g.sendWait(g.part(g.id, 1), 1, 300))
	}
	end(g.rig)
	return g
}

// segment is the path of the log at base.
func (g *goneRig) segment(base int64) string {
	return layout.PartitionDir(rigDir, g.topics[g.id].info.Name, Key{Topic: g.id}) + "/" + segment.LogName(base)
}

// mustMiss looks at everything and appends: what is gone is answered with an error and the
// offset to go on at, everything else is there.
func (g *goneRig) mustMiss() {
	g.t.Helper()
	p := g.part(g.id, 0)
	if p.LogStart() != 0 {
		g.t.Fatalf("the log start moved to %d", p.LogStart())
	}
	for _, at := range []int64{g.from, (g.from + g.to) / 2, g.to - 1} {
		if f := g.read(p, at, 1<<16); !errors.Is(f.Err, ErrCorrupt) || f.Next != g.to {
			g.t.Fatalf("fetch at %d of what is missing: %v, next %d; expected %d", at, f.Err, f.Next, g.to)
		}
	}
	got := g.readFrom(p, 0)
	for _, a := range g.sent {
		if there := bytes.Equal(got[a.Base], a.Batch); there != (a.Base < g.from || a.Base >= g.to) {
			g.t.Fatalf("the batch at %d: served %v; missing are %d to %d", a.Base, there, g.from, g.to-1)
		}
	}
	g.mustHold(g.part(g.id, 1), g.other)
	end := p.End()
	a := g.sendWait(p, 2, 300)
	if last := g.sent[len(g.sent)-1].Header; a.Base != end || a.Base <= last.BaseOffset+int64(last.LastOffsetDelta) {
		g.t.Fatalf("appended at %d, the log ended at %d, its last batch is %+v", a.Base, end, last)
	}
	g.sent = append(g.sent, a)
}

// told is how many lines of the log tell of exactly what is gone.
func (g *goneRig) told() int {
	n := 0
	for _, line := range g.log {
		if strings.HasPrefix(line, "LOSS DETECTED") && strings.Contains(line, fmt.Sprintf("offsets %d to %d", g.from, g.to-1)) {
			n++
		}
	}
	return n
}

// goneEnds are the ends of a life, and which of its segments a start reads anew from the
// journals.
var goneEnds = map[string]func(r *rig){
	"stopped": func(r *rig) {
		r.close()
		r.w.Kill()
	},
	"killed":    func(r *rig) { r.w.Kill() },
	"power cut": func(r *rig) { r.w.Crash(sim.KeepNone) },
}

// lose takes a segment of four away, and notes what that costs.
func (g *goneRig) lose(nth int, stopped bool) string {
	g.t.Helper()
	end := g.known
	if stopped {
		last := g.sent[len(g.sent)-1].Header
		end = last.BaseOffset + int64(last.LastOffsetDelta) + 1
	}
	bounds := append(g.bases[:4:4], end)
	g.from, g.to = bounds[nth], bounds[nth+1]
	path := g.segment(g.from)
	kept, err := aio.ReadFile(g.w.FS(), path, 1<<20)
	if err != nil {
		g.t.Fatal(err)
	}
	g.kept = kept
	g.remove(path)
	if err := g.w.FS().SyncDir(filepath.Dir(path)); err != nil {
		g.t.Fatal(err)
	}
	return path
}

// A segment that is gone, whichever it is and however the life before has ended, costs
// what it had, and no other messages: the newest one too, for which a start refused the
// whole directory.
func TestASegmentThatIsGoneCostsWhatItHad(t *testing.T) {
	for name, end := range goneEnds {
		for nth, which := range []string{"first", "middle", "last full", "newest"} {
			t.Run(which+" "+name, func(t *testing.T) {
				g := newGoneRig(t, ClassFlushed, end)
				path := g.lose(nth, name == "stopped")
				for n := range 3 { // the log tells it at every start
					g.start()
					g.audit()
					if g.told() != n+1 {
						t.Fatalf("%d to %d are gone; reported: %q", g.from, g.to-1, g.log)
					}
					if said := strings.Join(g.log, "\n"); nth == 3 && (!strings.Contains(said, path) || !strings.Contains(said, "mqd salvage")) {
						t.Fatalf("reported: %q", g.log)
					}
					if n > 0 { // the first life appends nothing
						g.mustMiss()
					}
					g.checkpointAll()
					g.w.Crash(sim.KeepNone)
				}
			})
		}
	}
}

// What a partition of class written may have shown and lost, beside what was in the segment
// that is gone, changes nothing: no offset is given out twice.
func TestOffsetsBehindASegmentThatIsGoneAreNew(t *testing.T) {
	for name, end := range goneEnds {
		t.Run(name, func(t *testing.T) {
			g := newGoneRig(t, ClassWritten, end)
			g.lose(3, name == "stopped")
			for range 3 {
				g.start()
				p := g.part(g.id, 0)
				if f := g.read(p, g.from, 1<<16); !errors.Is(f.Err, ErrCorrupt) || f.Next < g.to {
					t.Fatalf("fetch at %d: %v, next %d; expected %d or more", g.from, f.Err, f.Next, g.to)
				}
				last := g.sent[len(g.sent)-1].Header
				a := g.sendWait(p, 2, 300)
				if a.Base <= last.BaseOffset+int64(last.LastOffsetDelta) {
					t.Fatalf("appended at %d, behind %+v", a.Base, last)
				}
				g.sent = append(g.sent, a)
				if got := g.readFrom(p, a.Base); !bytes.Equal(got[a.Base], a.Batch) {
					t.Fatalf("the batch at %d is another", a.Base)
				}
				g.w.Crash(sim.KeepNone)
			}
		})
	}
}

// Whoever brings a segment back that was gone has everything back, though the partition has
// gone on meanwhile.
func TestASegmentThatComesBackIsServed(t *testing.T) {
	for name, end := range goneEnds {
		t.Run(name, func(t *testing.T) {
			g := newGoneRig(t, ClassFlushed, end)
			path := g.lose(3, name == "stopped")
			g.start()
			g.mustMiss()
			g.w.Kill()
			g.write(path, g.kept)
			g.start()
			g.mustHold(g.part(g.id, 0), g.sent)
			g.mustHold(g.part(g.id, 1), g.other)
		})
	}
}

// A newest segment that ends early costs what is not there of it.
func TestANewestSegmentThatIsCutCostsItsEnd(t *testing.T) {
	for name, end := range goneEnds {
		for _, size := range []int{0, 1000, 3000} {
			t.Run(fmt.Sprintf("%s %d", name, size), func(t *testing.T) {
				g := newGoneRig(t, ClassFlushed, end)
				path := g.lose(3, name == "stopped")
				g.write(path, g.kept[:size])
				for _, a := range g.sent {
					if a.Base >= g.from && size >= len(a.Batch) {
						size -= len(a.Batch)
						g.from = a.Header.BaseOffset + int64(a.Header.LastOffsetDelta) + 1
					}
				}
				g.start()
				if said := strings.Join(g.log, "\n"); strings.Count(said, "LOSS DETECTED") != 1 || !strings.Contains(said, path) {
					t.Fatalf("reported: %q", g.log)
				}
				g.mustMiss()
				g.w.Crash(sim.KeepNone)
				g.start()
				g.mustMiss()
			})
		}
	}
}

// A start that goes on behind a segment that is gone may die at each of its steps.
func TestAStartBehindASegmentThatIsGoneMayDieAtEveryStep(t *testing.T) {
	stride := 3
	if testing.Short() {
		stride = 17
	}
	for name, end := range goneEnds {
		for steps, blown := 0, true; blown; steps += stride {
			g := newGoneRig(t, ClassFlushed, end)
			g.lose(3, name == "stopped")
			g.w.Light(sim.Fuse{Steps: steps, PowerCut: steps%2 == 0, Keep: sim.KeepNone})
			err := g.tryStart()
			if blown = g.w.Blown(); err != nil && !blown {
				t.Fatalf("%s, %d steps: %v", name, steps, err)
			}
			g.w.Kill()
			g.start()
			g.mustMiss()
			g.w.End()
		}
	}
}
