package ringbuf

import "testing"

// hook is a source without work that runs something when it is looked at: the
// place between a shard's announcement and its second look.
type hook struct{ run func() }

func (h *hook) Pending() bool {
	h.run()
	return false
}

// A sender publishes and then claims; a shard announces, looks at its sources
// and then blocks. Every placement of the sender's two steps among the shard's
// is tried: whenever the shard may block with a message waiting, the sender must
// have been told to wake it.
func TestNoPlacementOfASendLosesTheWakeUp(t *testing.T) {
	const (
		beforeAnnounce = iota
		afterAnnounce  // announced, nothing looked at yet
		betweenLooks   // the first inbox was looked at
		afterLooks     // all inboxes were looked at, not yet blocked
		places
	)
	names := [places]string{"before Announce", "after Announce", "between the looks", "after the looks"}
	for inbox := range 2 { // the first or the second to be looked at
		for publish := range places {
			for claim := publish; claim < places; claim++ {
				var sleep Sleep
				var wakes, sent int
				var inboxes [2]*SPSC[int]
				at := func(place int) {
					if place == publish {
						inboxes[inbox].Push(1)
						inboxes[inbox].Publish()
						sent++
					}
					if place == claim && sleep.Claim() {
						wakes++
					}
				}
				sleep.Watch(&hook{func() { at(afterAnnounce) }})
				for i := range inboxes {
					inboxes[i] = NewSPSC[int](2)
					sleep.Watch(ringSource{inboxes[i]})
					if i == 0 {
						sleep.Watch(&hook{func() { at(betweenLooks) }})
					}
				}
				at(beforeAnnounce)
				mayBlock := sleep.Announce()
				if mayBlock {
					at(afterLooks)
				}
				if mayBlock && sent == 1 && wakes == 0 {
					t.Errorf("inbox %d, publish %s, claim %s: the shard sleeps on a message", inbox, names[publish], names[claim])
				}
				if !mayBlock && sent == 0 {
					t.Errorf("inbox %d, publish %s: a shard without work may not sleep", inbox, names[publish])
				}
				if !mayBlock && sleep.asleep.Load() {
					t.Errorf("inbox %d, publish %s, claim %s: the announcement was not withdrawn", inbox, names[publish], names[claim])
				}
			}
		}
	}
}

type ringSource struct{ ring *SPSC[int] }

func (s ringSource) Pending() bool { return !s.ring.Empty() }

func TestASleeperIsClaimedOnce(t *testing.T) {
	var sleep Sleep
	if sleep.Claim() {
		t.Fatal("a shard that is awake was claimed")
	}
	for range 3 {
		if !sleep.Announce() {
			t.Fatal("a shard without sources may not sleep")
		}
		if !sleep.Claim() || sleep.Claim() {
			t.Fatal("a sleeper was not claimed exactly once")
		}
		sleep.Awake()
	}
	sleep.Announce()
	sleep.Awake() // woken by something else
	if sleep.Claim() {
		t.Fatal("a shard that woke by itself was claimed")
	}
}
