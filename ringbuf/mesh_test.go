package ringbuf

import (
	"slices"
	"testing"
)

// descriptor has the size of what shards really send.
type descriptor struct {
	payload *byte
	words   [7]uint64
}

func TestMeshRefusesImpossibleSizes(t *testing.T) {
	for _, shards := range []int{-1, 0, MaxShards + 1} {
		mustViolate(t, "ringbuf: a mesh has 1 to MaxShards shards", func() { NewMesh[int](shards, 2) })
	}
	mustViolate(t, "ringbuf: a ring's capacity is a power of two within its bounds", func() { NewMesh[int](2, 3) })
	if m := NewMesh[int](MaxShards, 2); m.Shards() != MaxShards || m.Port(MaxShards-1).Shard() != MaxShards-1 {
		t.Fatal("the largest mesh is not whole")
	}
}

func TestAMeshOfOneHasNobodyToTalkTo(t *testing.T) {
	p := NewMesh[int](1, 2).Port(0)
	if _, _, ok := p.NextRequest(); ok {
		t.Fatal("a request came from nowhere")
	}
	if _, _, ok := p.NextReply(); ok {
		t.Fatal("a reply came from nowhere")
	}
	if !p.Publish().Empty() || !p.TakeSleepers().Empty() || !p.AnnounceSleep() {
		t.Fatal("a lone shard has something to do")
	}
	mustViolate(t, "ringbuf: a shard has no link to itself", func() { p.Send(0, 1) })
}

func TestARequestCostsACreditThatItsReplyGivesBack(t *testing.T) {
	m := NewMesh[int](2, 2)
	a, b := m.Port(0), m.Port(1)
	if !a.Send(1, 10) || !a.Send(1, 11) {
		t.Fatal("a send with credit was refused")
	}
	for range 3 {
		if a.Send(1, 12) {
			t.Fatal("a send without credit went through")
		}
	}
	if a.Credits(1) != 0 || a.Refused(1) != 3 || b.Credits(0) != 2 {
		t.Fatalf("credits %d, refused %d, peer's credits %d", a.Credits(1), a.Refused(1), b.Credits(0))
	}
	if _, _, ok := b.NextRequest(); ok {
		t.Fatal("a request is visible before Publish")
	}
	if got := a.Publish(); got != (ShardSet{}.With(1)) {
		t.Fatalf("published to %v", got)
	}
	for _, want := range []int{10, 11} {
		if from, v, ok := b.NextRequest(); !ok || from != 0 || v != want {
			t.Fatalf("request %d %d %v, expected %d of 0", from, v, ok, want)
		}
	}
	if from, _, ok := b.NextRequest(); ok || from != -1 || b.Owed(0) != 2 {
		t.Fatalf("after the last request: from %d, %v, owed %d", from, ok, b.Owed(0))
	}
	b.Reply(0, 111) // the second first
	b.Reply(0, 110)
	if got := b.Publish(); got != (ShardSet{}.With(0)) {
		t.Fatalf("replied to %v", got)
	}
	for i, want := range []int{111, 110} {
		if from, v, ok := a.NextReply(); !ok || from != 1 || v != want || a.Credits(1) != i+1 {
			t.Fatalf("reply %d %d %v with %d credits, expected %d", from, v, ok, a.Credits(1), want)
		}
	}
	if from, _, ok := a.NextReply(); ok || from != -1 {
		t.Fatalf("a third reply of %d", from)
	}
	if !a.Publish().Empty() {
		t.Fatal("handing back room counts as a message")
	}
}

func TestAReplyWithoutARequestIsAViolation(t *testing.T) {
	m := NewMesh[int](2, 2)
	a, b := m.Port(0), m.Port(1)
	const name = "ringbuf: every reply answers a request"
	mustViolate(t, name, func() { b.Reply(0, 1) })
	a.Send(1, 1)
	a.Publish()
	b.NextRequest()
	b.Reply(0, 2)
	mustViolate(t, name, func() { b.Reply(0, 3) })
}

func TestBrokenCreditAccountingIsAViolation(t *testing.T) {
	m := NewMesh[int](2, 2)
	a, b := m.Port(0), m.Port(1)
	a.links[1].credits = 3
	a.Send(1, 1)
	a.Send(1, 2)
	mustViolate(t, "ringbuf: a request with a credit finds room", func() { a.Send(1, 3) })
	a.Publish()
	b.NextRequest()
	b.NextRequest()
	b.links[0].owed = 3
	b.Reply(0, 1)
	b.Reply(0, 2)
	mustViolate(t, "ringbuf: a reply finds room", func() { b.Reply(0, 3) })
	b.Publish()
	a.NextReply() // has 1 credit of 2 left, by the forged count
	mustViolate(t, "ringbuf: no more credits come back than were spent", func() { a.NextReply() })
}

func TestABusyPeerDoesNotHoldUpAnother(t *testing.T) {
	const credits = 4 * burst
	m := NewMesh[int](3, credits)
	busy, other, c := m.Port(0), m.Port(1), m.Port(2)
	for i := range credits {
		busy.Send(2, i)
	}
	other.Send(2, 0)
	busy.Publish()
	other.Publish()
	requests := drainOrder(c.NextRequest)
	if len(requests) != credits+1 || indexOf(requests, 1) > burst {
		t.Fatalf("%d requests, the quiet peer's at %d, expected within %d", len(requests), indexOf(requests, 1), burst)
	}

	for i := range credits {
		c.Send(0, i)
	}
	c.Send(1, 0)
	c.Publish()
	for _, p := range []*Port[int]{busy, other} {
		for range drainOrder(p.NextRequest) {
			p.Reply(2, 0)
		}
		p.Publish()
	}
	replies := drainOrder(c.NextReply)
	if len(replies) != credits+1 || indexOf(replies, 1) > burst {
		t.Fatalf("%d replies, the quiet peer's at %d, expected within %d", len(replies), indexOf(replies, 1), burst)
	}
}

// drainOrder takes all messages and returns whom they came from.
func drainOrder(next func() (int, int, bool)) []int {
	var order []int
	for from, _, ok := next(); ok; from, _, ok = next() {
		order = append(order, from)
	}
	return order
}

// indexOf returns where v is in order, or its length.
func indexOf(order []int, v int) int {
	if i := slices.Index(order, v); i >= 0 {
		return i
	}
	return len(order)
}

func TestSleepersAreReportedOnceAndOnlyToWhoPublished(t *testing.T) {
	m := NewMesh[int](4, 2)
	a, b, c, d := m.Port(0), m.Port(1), m.Port(2), m.Port(3)
	for _, p := range []*Port[int]{c, d} {
		if !p.AnnounceSleep() {
			t.Fatal("an idle shard may not sleep")
		}
	}
	for _, p := range []*Port[int]{a, b} {
		p.Send(2, 1)
		p.Publish()
	}
	a.Send(1, 1) // awake
	a.Publish()
	if got := a.TakeSleepers(); got != (ShardSet{}.With(2)) {
		t.Fatalf("the first sender must wake %v, expected shard 2 alone", got)
	}
	if got := b.TakeSleepers(); !got.Empty() {
		t.Fatalf("the second sender wakes %v as well", got)
	}
	if got := a.TakeSleepers(); !got.Empty() {
		t.Fatalf("a sleeper was reported twice: %v", got)
	}
	c.Awake()
	if c.AnnounceSleep() {
		t.Fatal("a shard with requests may sleep")
	}
	for range 2 {
		from, v, _ := c.NextRequest()
		c.Reply(from, v)
	}
	c.Publish()
	c.TakeSleepers()
	if !c.AnnounceSleep() {
		t.Fatal("a shard that did everything may not sleep")
	}
	if a.AnnounceSleep() {
		t.Fatal("a shard with replies may sleep")
	}
}

func TestSleepWithUnfinishedDutiesIsAViolation(t *testing.T) {
	const name = "ringbuf: a shard goes to sleep with nothing unpublished and nobody unwoken"
	p := NewMesh[int](2, 2).Port(0)
	p.Send(1, 1)
	mustViolate(t, name, func() { p.AnnounceSleep() })
	p.Publish()
	mustViolate(t, name, func() { p.AnnounceSleep() })
	p.TakeSleepers()
	if !p.AnnounceSleep() {
		t.Fatal("a shard that did its duties may not sleep")
	}
}

func TestAnInboxKeepsItsShardAwake(t *testing.T) {
	p := NewMesh[int](2, 2).Port(0)
	b := NewInbox[string]("inbox", 2, p.Sleep())
	if _, err := b.Post("reload"); err != nil {
		t.Fatal(err)
	}
	if p.AnnounceSleep() {
		t.Fatal("a shard with a full inbox may sleep")
	}
	b.Take()
	b.Release()
	if !p.AnnounceSleep() {
		t.Fatal("a shard with an empty inbox may not sleep")
	}
	if wake, err := b.Post("again"); !wake || err != nil {
		t.Fatalf("post to a sleeper: wake %v, %v", wake, err)
	}
}

func TestMeshTrafficDoesNotAllocate(t *testing.T) {
	m := NewMesh[descriptor](3, 8)
	broken := false
	allocs := testing.AllocsPerRun(1000, func() {
		a := m.Port(0)
		for to := 1; to < 3; to++ {
			for range 8 {
				broken = broken || !a.Send(to, descriptor{})
			}
			broken = broken || a.Send(to, descriptor{})
		}
		for s := a.Publish(); !s.Empty(); {
			var peer int
			peer, s = s.Next()
			b := m.Port(peer)
			for from, v, ok := b.NextRequest(); ok; from, v, ok = b.NextRequest() {
				b.Reply(from, v)
			}
			b.Publish()
			b.TakeSleepers()
			broken = broken || !b.AnnounceSleep()
		}
		for _, _, ok := a.NextReply(); ok; _, _, ok = a.NextReply() {
		}
		a.Publish()
		a.TakeSleepers()
		broken = broken || a.Credits(1) != 8 || a.Credits(2) != 8
		for i := 1; i < 3; i++ {
			m.Port(i).Awake()
		}
	})
	if broken || allocs != 0 {
		t.Fatalf("%v allocations, broken %v", allocs, broken)
	}
}
