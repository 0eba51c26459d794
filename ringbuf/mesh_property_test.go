package ringbuf

import (
	"testing"

	"pgregory.net/rapid"
)

// note is a message that says where it belongs.
type note struct {
	asking, answering int
	seq               int // of the request, per ordered pair, from 1
}

// pairModel is what must be true of one ordered pair asking→answering.
type pairModel struct {
	sent     int    // requests that Send accepted
	refused  uint64 // requests that Send refused
	received int    // requests that NextRequest delivered
	open     []note // received, not answered
	answers  []note // answered, in the order of the answers, reply not taken
}

// meshModel runs all shards of a mesh in one thread, one call of a port at a
// time, in whatever order the scheduler draws, and checks every result.
type meshModel struct {
	t       *rapid.T
	mesh    *Mesh[note]
	credits int
	pairs   [][]pairModel // [asking][answering]
}

func newMeshModel(t *rapid.T, shards, credits int) *meshModel {
	m := &meshModel{t: t, mesh: NewMesh[note](shards, credits), credits: credits}
	for range shards {
		m.pairs = append(m.pairs, make([]pairModel, shards))
	}
	return m
}

// outstanding is how many credits of a pair are out.
func (m *meshModel) outstanding(asking, answering int) int {
	p := &m.pairs[asking][answering]
	// A request is out until its reply is taken: unseen, open or answered.
	return p.sent - p.received + len(p.open) + len(p.answers)
}

func (m *meshModel) send(from, to int) bool {
	p := &m.pairs[from][to]
	want := m.outstanding(from, to) < m.credits
	if got := m.mesh.Port(from).Send(to, note{from, to, p.sent + 1}); got != want {
		m.t.Fatalf("send %d→%d with %d of %d credits out: %v", from, to, m.outstanding(from, to), m.credits, got)
	}
	if want {
		p.sent++
	} else {
		p.refused++
	}
	return want
}

func (m *meshModel) takeRequest(shard int) bool {
	from, v, ok := m.mesh.Port(shard).NextRequest()
	if !ok {
		return false
	}
	p := &m.pairs[from][shard]
	p.received++
	if want := (note{from, shard, p.received}); v != want {
		m.t.Fatalf("request %+v, expected %+v", v, want)
	}
	p.open = append(p.open, v)
	return true
}

// reply answers any one of the open requests of a peer: which one is drawn.
func (m *meshModel) reply(shard, to, which int) bool {
	p := &m.pairs[to][shard]
	if len(p.open) == 0 {
		return false
	}
	i := which % len(p.open)
	v := p.open[i]
	p.open = append(p.open[:i], p.open[i+1:]...)
	m.mesh.Port(shard).Reply(to, v) // must not panic, whatever came before
	p.answers = append(p.answers, v)
	return true
}

func (m *meshModel) takeReply(shard int) bool {
	from, v, ok := m.mesh.Port(shard).NextReply()
	if !ok {
		return false
	}
	p := &m.pairs[shard][from]
	if len(p.answers) == 0 || v != p.answers[0] {
		m.t.Fatalf("reply %+v of %d, expected the first of %+v", v, from, p.answers)
	}
	p.answers = p.answers[1:]
	return true
}

func (m *meshModel) check() {
	for a := range m.pairs {
		for b := range m.pairs {
			if a == b {
				continue
			}
			port, p := m.mesh.Port(a), &m.pairs[a][b]
			if got, want := port.Credits(b), m.credits-m.outstanding(a, b); got != want {
				m.t.Fatalf("%d→%d has %d credits, expected %d", a, b, got, want)
			}
			if port.Refused(b) != p.refused {
				m.t.Fatalf("%d→%d counts %d refusals, expected %d", a, b, port.Refused(b), p.refused)
			}
			if got := m.mesh.Port(b).Owed(a); got != len(p.open) {
				m.t.Fatalf("%d owes %d replies to %d, expected %d", b, got, a, len(p.open))
			}
		}
	}
}

// step lets the scheduler run one call of one shard that is not frozen.
func (m *meshModel) step(frozen int) {
	shards := m.mesh.Shards()
	shard := rapid.IntRange(0, shards-1).Draw(m.t, "shard")
	if shard == frozen {
		return
	}
	peer := (shard + rapid.IntRange(1, shards-1).Draw(m.t, "peer")) % shards
	switch rapid.IntRange(0, 4).Draw(m.t, "call") {
	case 0:
		m.send(shard, peer)
	case 1:
		m.takeRequest(shard)
	case 2:
		m.reply(shard, peer, rapid.IntRange(0, m.credits-1).Draw(m.t, "which"))
	case 3:
		m.takeReply(shard)
	case 4:
		m.mesh.Port(shard).Publish()
	}
	m.check()
}

// turn runs a whole loop turn of a shard and reports whether anything happened.
func (m *meshModel) turn(shard int) bool {
	busy := false
	for m.takeReply(shard) {
		busy = true
	}
	for m.takeRequest(shard) {
		busy = true
	}
	for peer := range m.pairs {
		for peer != shard && m.reply(shard, peer, 0) {
			busy = true
		}
	}
	return !m.mesh.Port(shard).Publish().Empty() || busy
}

// settle runs turns of all shards but the frozen one until nothing happens.
func (m *meshModel) settle(frozen int) {
	for busy := true; busy; {
		busy = false
		for shard := range m.pairs {
			if shard != frozen {
				busy = m.turn(shard) || busy
			}
		}
	}
	m.check()
}

func TestOneFrozenShardCostsItsPeersOnlyTheirCreditsWithIt(t *testing.T) {
	const shards, credits = 3, 2
	rapid.Check(t, func(t *rapid.T) {
		m := newMeshModel(t, shards, credits)
		for range rapid.IntRange(0, 400).Draw(t, "steps before") {
			m.step(-1)
		}
		// One shard stops between any two of its calls, with whatever it has
		// taken, answered or sent and not published.
		frozen := rapid.IntRange(0, shards-1).Draw(t, "frozen")
		for range rapid.IntRange(0, 400).Draw(t, "steps during") {
			m.step(frozen)
		}

		m.settle(frozen)
		for a := range shards {
			if a == frozen {
				continue
			}
			for m.send(a, frozen) {
			}
			if got := m.outstanding(a, frozen); got != credits {
				t.Fatalf("%d→frozen has %d of %d credits out", a, got, credits)
			}
		}
		m.goOn(frozen)

		for range rapid.IntRange(0, 400).Draw(t, "steps after") {
			m.step(-1)
		}
		m.settle(-1)
		m.settled()
	})
}

// goOn exchanges messages between the shards that are not frozen: none of their
// pairs may notice that another shard stands still.
func (m *meshModel) goOn(frozen int) {
	for range 10 {
		for a := range m.pairs {
			for b := range m.pairs {
				if a == b || a == frozen || b == frozen {
					continue
				}
				for range m.credits {
					if !m.send(a, b) {
						m.t.Fatalf("%d→%d is out of credits although both run", a, b)
					}
				}
			}
		}
		m.settle(frozen)
	}
}

// settled checks that everything came through and nothing stayed behind.
func (m *meshModel) settled() {
	for a := range m.pairs {
		for b := range m.pairs {
			if a == b {
				continue
			}
			if p := m.pairs[a][b]; p.received != p.sent || len(p.open) != 0 || len(p.answers) != 0 {
				m.t.Fatalf("%d→%d did not come through: %+v", a, b, p)
			}
			l := &m.mesh.Port(a).links[b]
			if occupied(l.requestsOut) != 0 || occupied(l.repliesIn) != 0 || l.credits != m.credits {
				m.t.Fatalf("%d→%d is not as it was at the start", a, b)
			}
		}
	}
}
