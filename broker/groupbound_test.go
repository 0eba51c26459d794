package broker

import (
	"testing"
	"time"

	"github.com/mqd-broker/mqd/broker/group"
)

// Short requests with long answers take no more memory than the node has for them.
func TestLongAnswersAboutGroupsAreBounded(t *testing.T) {
	const partitions = 1000
	r := newRig(t, rigOptions{seed: 310})
	topic := r.create("t", partitions)
	m := r.mustGroup(0, join("g", "t"))
	if len(m.Grants) == 0 {
		t.Fatal("the member has nothing")
	}
	long := len(m.Grants) * group.GrantSize
	// What is appended before them keeps their answers waiting.
	blocking := r.beginGroup(0, commitOf("other", entryOf(topic.ID, 0, 0)))
	var beats []*grouped
	for range 2 * maxGroupAnswers / long {
		beats = append(beats, r.beat(0, m, 0))
	}
	all := func() bool {
		if held := r.node.answers.Load(); held > maxGroupAnswers+int64(long) {
			t.Fatalf("%d bytes are held, the bound is %d", held, maxGroupAnswers)
		}
		for _, b := range beats {
			if b.done == 0 {
				return false
			}
		}
		return blocking.done > 0
	}
	r.until("heartbeats", all)
	codes := map[Code]int{}
	for _, b := range beats {
		codes[b.Code]++
	}
	if codes[OK] == 0 || codes[Busy] == 0 || codes[OK]+codes[Busy] != len(beats) {
		t.Errorf("codes %v", codes)
	}
	if held := r.node.answers.Load(); held != 0 {
		t.Errorf("%d bytes are held when everything is answered", held)
	}
	// The member was heard, and what it asks for now is answered.
	if b := r.beat(0, m, 0); !r.answered(b) || b.Code != OK || len(b.Grants) != len(m.Grants) {
		t.Errorf("%v, %d partitions", b.Code, len(b.Grants))
	}
	r.close()
}

func (r *rig) answered(g *grouped) bool {
	r.until("an answer", func() bool { return g.done > 0 })
	return true
}

// A request that names one partition very often is not answered with its metadata as
// often as that, if that is longer than any answer.
func TestAnAnswerThatNobodyCouldTakeIsRefused(t *testing.T) {
	r := newRig(t, rigOptions{seed: 311})
	topic := r.create("t", 1)
	e := entryOf(topic.ID, 0, 0)
	e.Metadata = make([]byte, 4096)
	r.mustCommit(0, "g", []group.Code{group.OK}, e)
	for _, n := range []int{100, maxGroupAnswers/len(e.Metadata) + 1} {
		g := &grouped{}
		g.Kind, g.Name = GroupOffsets, []byte("g")
		for range n {
			g.Entries = append(g.Entries, entryOf(topic.ID, 0, 0))
		}
		r.group(0, g)
		want := group.OK
		if n > 100 {
			want = group.Limit
		}
		if g.Code != OK || g.Outcome != want {
			t.Errorf("%d times: %v, %v, expected %v", n, g.Code, g.Outcome, want)
		}
	}
	if held := r.node.answers.Load(); held != 0 {
		t.Errorf("%d bytes are held", held)
	}
	r.close()
}

// A coordinator that has had no members for a while looks at the first one in time.
func TestTheFirstMemberOfACoordinatorIsLookedAtInTime(t *testing.T) {
	r := newRig(t, rigOptions{seed: 312})
	topic := r.create("t", 1)
	r.mustCommit(0, "g", []group.Code{group.OK}, entryOf(topic.ID, 0, 0))
	r.run(20 * time.Millisecond)
	j := join("g", "t")
	j.Join.Session = int64(time.Second)
	m := r.mustGroup(0, j)
	held := r.beat(0, m, 500*time.Millisecond)
	r.run(500*time.Millisecond + 2*coordinatorTick)
	if held.done == 0 {
		t.Fatal("a heartbeat is held back for longer than it said")
	}
	for range 4 {
		r.run(time.Second/4 + coordinatorTick/2)
	}
	if b := r.beat(0, m, 0); !r.answered(b) || b.Outcome != group.UnknownMember {
		t.Fatalf("%v: a member stays behind its session", b.Outcome)
	}
	r.close()
}
