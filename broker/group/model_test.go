package group

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// writing is a snapshot under way.
type writing struct {
	w    *Writer
	from int // end of the log when it began
}

// model does random things to a state.
type model struct {
	*rig
	rnd       *rand.Rand
	ids       byte
	highest   map[string]map[Partition]int64 // committed, as long as nobody resets
	blocks    [Blocks][]byte                 // newest snapshots
	from      [Blocks]int
	under     map[int]*writing
	confirmed map[MemberID]int32
}

// A state that is made again, from the log alone or from snapshots that were written
// while it changed and the log behind them, is the state that it was; partitions have one
// owner at every moment; offsets go back only by reset.
func TestAStateIsMadeAgainFromWhatItWrites(t *testing.T) {
	seeded(t, func(t *testing.T, rnd *rand.Rand) {
		m := &model{
			rig: newRig(t, Limits{Retention: time.Minute, Members: 5}), rnd: rnd,
			highest: map[string]map[Partition]int64{}, under: map[int]*writing{}, confirmed: map[MemberID]int32{},
		}
		for range 300 {
			m.step()
			m.flush()
			m.mustBeWhole(m.s)
		}
		m.same(m.s, m.again(New(m.s.limits, m.topics), 0))
		m.fromSnapshots()
	})
}

func (m *model) group() string { return fmt.Sprintf("g%d", m.rnd.IntN(4)) }

func (m *model) partition() Partition {
	return part([]string{"orders", "ticks", "late"}[m.rnd.IntN(3)], int32(m.rnd.IntN(6)))
}

func (m *model) step() {
	m.now += int64(m.rnd.IntN(int(2 * time.Second)))
	group := m.group()
	g := m.s.groups[group]
	var member *Member
	if g != nil && len(g.members) > 0 {
		member = g.members[m.rnd.IntN(len(g.members))]
	}
	switch n := m.rnd.IntN(100); {
	case n < 35:
		m.commitSome(group, member)
	case n < 45:
		m.joinSome(group)
	case n < 65 && member != nil:
		// Each member works by the newest list that it was told, or by one before.
		generation := max(m.confirmed[member.id], member.epoch-int32(m.rnd.IntN(2)))
		_, _, changed, code := m.s.Heartbeat(m.now, []byte(group), member.id, generation)
		if code != OK || changed != (member.epoch > generation) {
			m.Fatalf("heartbeat of generation %d of %d: changed %v, %v", generation, member.epoch, changed, code)
		}
		m.confirmed[member.id] = generation
	case n < 70 && member != nil:
		if code := m.s.Leave(m.now, []byte(group), member.id); code != OK {
			m.Fatal(code)
		}
	case n < 75:
		m.s.Assign(m.now, []byte(group), []Entry{{Partition: m.partition()}, {Partition: m.partition()}}, []string{"", "a", "b"}[m.rnd.IntN(3)])
	case n < 80:
		p := m.partition()
		e := []Entry{{Partition: p, Next: m.rnd.Int64N(100), Epoch: -1}}
		if m.s.Reset(m.now, m.now, []byte(group), e) == OK && e[0].Code == OK {
			m.note(group, p, e[0].Next)
		}
	case n < 83:
		p := m.partition()
		codes := make([]Code, 1)
		if m.s.Forget([]byte(group), []Partition{p}, codes, nil) == OK && codes[0] == OK {
			delete(m.highest[group], p)
		}
	case n < 85:
		if m.s.Remove([]byte(group)) == OK {
			delete(m.highest, group)
		}
	case n < 88:
		m.topics[[]string{"orders", "ticks", "late"}[m.rnd.IntN(3)]] = 1 + int32(m.rnd.IntN(6))
		m.s.TopicsChanged()
	case n < 90:
		delete(m.topics, []string{"ticks", "late"}[m.rnd.IntN(2)])
		m.s.TopicsChanged()
	case n < 95:
		m.tick()
	default:
		m.write()
	}
}

func (m *model) note(group string, p Partition, next int64) {
	if m.highest[group] == nil {
		m.highest[group] = map[Partition]int64{}
	}
	m.highest[group][p] = next
}

func (m *model) commitSome(group string, member *Member) {
	c := Commit{Group: []byte(group)}
	if member != nil {
		c.Member, c.Generation = member.id, member.epoch-int32(m.rnd.IntN(2))
	}
	for range 1 + m.rnd.IntN(3) {
		c.Entries = append(c.Entries, Entry{Partition: m.partition(), Next: m.rnd.Int64N(100), Epoch: -1, Metadata: make([]byte, m.rnd.IntN(3))})
	}
	m.s.Commit(m.now, m.now, &c)
	for i := range c.Entries {
		e := &c.Entries[i]
		high, known := m.highest[group][e.Partition]
		switch {
		case e.Code == OK && known && e.Next < high:
			m.Fatalf("%d is committed below %d", e.Next, high)
		case e.Code == OK:
			m.note(group, e.Partition, e.Next)
		case e.Code == Backwards && e.Committed != high:
			m.Fatalf("refused below %d, expected %d", e.Committed, high)
		}
	}
}

func (m *model) joinSome(group string) {
	m.ids++
	j := Join{Group: []byte(group), ID: id(m.ids), Session: int64(10 * time.Second), Mode: ModeAuto}
	if m.rnd.IntN(3) == 0 {
		j.Mode, j.Instance = ModeManual, []string{"a", "b", "c"}[m.rnd.IntN(3)]
		j.Claims = []Partition{m.partition(), m.partition()}
	} else {
		j.Topics = []string{"ticks", "orders", "late"}[m.rnd.IntN(3):]
		if m.rnd.IntN(2) == 0 {
			j.Instance = "a"
		}
	}
	if member, a, code := m.s.Join(m.now, &j); code == OK {
		if member.epoch != a.Generation {
			m.Fatalf("generation %d, expected %d", a.Generation, member.epoch)
		}
		m.confirmed[j.ID] = a.Generation
	}
}

// tick looks at all groups; what expires is known no more.
func (m *model) tick() {
	for range 3 { // groups that go move others in the order of looking
		for m.s.Tick(m.now) {
		}
	}
	for name, parts := range m.highest {
		if m.s.groups[name] == nil {
			delete(m.highest, name)
		}
		for p := range parts {
			if !m.topics.Has(p) {
				m.mustHave(name, p, -1)
				delete(parts, p)
			}
		}
	}
}

// write goes on with a snapshot, or begins one.
func (m *model) write() {
	block := blockOf(m.group())
	u := m.under[block]
	if u == nil {
		m.under[block] = &writing{w: m.s.Write(Snapshot{Block: block, Offset: int64(len(m.log))}, nil), from: len(m.log)}
		return
	}
	if !u.w.Step(1+m.rnd.IntN(3), m.now) {
		m.blocks[block], m.from[block] = u.w.End(), u.from
		delete(m.under, block)
	}
}

// fromSnapshots makes the state from snapshots and what the log has behind the oldest.
func (m *model) fromSnapshots() {
	for block, u := range m.under {
		for u.w.Step(2, m.now) {
		}
		m.blocks[block], m.from[block] = u.w.End(), u.from
	}
	s := New(m.s.limits, m.topics)
	from := len(m.log)
	for name := range 4 {
		block := blockOf(fmt.Sprintf("g%d", name))
		if m.blocks[block] == nil {
			from = 0
			continue
		}
		var z Snapshot
		if err := z.Load(s, m.blocks[block]); err != nil || z.Block != block || z.Offset != int64(m.from[block]) {
			m.Fatalf("snapshot of block %d: %v, %+v", block, err, z)
		}
		from = min(from, m.from[block])
	}
	m.again(s, from)
	// The order of commits may differ; what is committed does not.
	m.same(m.s, s)
	for _, p := range slices.Collect(func(yield func(string) bool) {
		for name := range m.highest {
			if !yield(name) {
				return
			}
		}
	}) {
		for at, next := range m.highest[p] {
			if o, ok := s.Committed([]byte(p), at); ok && o.Next != next {
				m.Fatalf("group %q: %d is committed, expected %d", p, o.Next, next)
			}
		}
	}
}
