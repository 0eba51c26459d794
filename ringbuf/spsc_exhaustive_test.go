package ringbuf

import (
	"math"
	"testing"
)

// ringModel is a ring of two and the plain slices that say what it must do. Each
// step runs one whole call, which is exact for a ring whose two ends touch only
// their own fields and one atomic word of the other end: another interleaving of
// the same words is another order of the same steps.
type ringModel struct {
	ring *SPSC[int]

	next      int   // value of the next push; values count from 1
	unseen    []int // pushed, not published
	visible   []int // published, not taken
	unclaimed int   // taken, not released
}

// modelSteps are all calls on a ring. The first four are what the exhaustive
// test combines most deeply.
var modelSteps = []struct {
	name string
	run  func(m *ringModel) bool
}{
	{"push", func(m *ringModel) bool {
		room := len(m.unseen)+len(m.visible)+m.unclaimed < m.ring.Cap()
		if m.ring.Push(m.next+1) != room {
			return false
		}
		if room {
			m.next++
			m.unseen = append(m.unseen, m.next)
		}
		return true
	}},
	{"publish", func(m *ringModel) bool {
		m.ring.Publish()
		m.visible = append(m.visible, m.unseen...)
		m.unseen = m.unseen[:0]
		return true
	}},
	{"take", func(m *ringModel) bool {
		v, ok := m.ring.Take()
		return m.consumed(v, ok, 1)
	}},
	{"release", func(m *ringModel) bool {
		m.ring.Release()
		m.unclaimed = 0
		return true
	}},
	{"pop", func(m *ringModel) bool {
		v, ok := m.ring.Pop()
		if !m.consumed(v, ok, 1) {
			return false
		}
		if ok { // a Pop that finds nothing releases nothing
			m.unclaimed = 0
		}
		return true
	}},
	{"peek", func(m *ringModel) bool {
		v, ok := m.ring.Peek()
		return m.consumed(v, ok, 0)
	}},
	{"free", func(m *ringModel) bool {
		return m.ring.Free() == m.ring.Cap()-len(m.unseen)-len(m.visible)-m.unclaimed
	}},
	{"empty", func(m *ringModel) bool { return m.ring.Empty() == (len(m.visible) == 0) }},
}

// consumed compares what a call returned with the oldest visible message, and
// removes as many as the call consumes.
func (m *ringModel) consumed(v int, ok bool, n int) bool {
	if len(m.visible) == 0 {
		return !ok && v == 0
	}
	if !ok || v != m.visible[0] {
		return false
	}
	m.visible = append(m.visible[:0], m.visible[n:]...) // in place: set reuses the array
	m.unclaimed += n
	return true
}

// clean checks what a call must leave behind: only live messages in slots.
func (m *ringModel) clean() bool {
	return occupied(m.ring) == len(m.unseen)+len(m.visible)
}

// set makes m, ring and slices, equal to o.
func (m *ringModel) set(o *ringModel) {
	copy(m.ring.slots, o.ring.slots)
	m.ring.pushed, m.ring.headSeen = o.ring.pushed, o.ring.headSeen
	m.ring.taken, m.ring.tailSeen = o.ring.taken, o.ring.tailSeen
	m.ring.published.Store(o.ring.published.Load())
	m.ring.released.Store(o.ring.released.Load())
	m.next, m.unclaimed = o.next, o.unclaimed
	m.unseen = append(m.unseen[:0], o.unseen...)
	m.visible = append(m.visible[:0], o.visible...)
}

func TestEveryInterleavingOfARingOfTwoAgreesWithASlice(t *testing.T) {
	for _, start := range []uint64{0, math.MaxUint64 - 1} {
		everySequence(t, start, 4, 9)
		everySequence(t, start, len(modelSteps), 5)
	}
}

// everySequence runs all sequences of the given length over the first kinds of
// modelSteps, on a ring whose counters begin at start.
func everySequence(t *testing.T, start uint64, kinds, length int) {
	t.Helper()
	states := make([]*ringModel, length+1) // states[i] is the one after i steps
	for i := range states {
		states[i] = &ringModel{ring: NewSPSC[int](2)}
	}
	startAt(states[0].ring, start)
	var path []string
	var from func(depth int)
	from = func(depth int) {
		if depth == length {
			return
		}
		for _, step := range modelSteps[:kinds] {
			m := states[depth+1]
			m.set(states[depth])
			path = append(path, step.name)
			if !step.run(m) || !m.clean() {
				t.Fatalf("counters from %d: the last step of %v is wrong; model %+v", start, path, *m)
			}
			from(depth + 1)
			path = path[:depth]
		}
	}
	from(0)
}
