package dirsync

import (
	"testing"

	"github.com/mqd-broker/mqd/engine/layout"
)

var a, b = layout.TopicID{1}, layout.TopicID{2}

func TestOneSyncServesWhatWasMadeBeforeItBegan(t *testing.T) {
	var s Syncs
	var first, second, late Dir
	s.Made(&first)
	s.Made(&second)
	began := s.Begin()
	s.Made(&late)
	if s.Cover(&first, a) || s.Knows(a) {
		t.Fatal("a sync that has not ended makes something durable")
	}
	s.Ended(&first, a, began)
	for _, c := range []struct {
		name string
		dir  *Dir
		want bool
	}{{"its own", &first, true}, {"one made before", &second, true}, {"one made while it went on", &late, false}} {
		if got := s.Cover(c.dir, a); got != c.want {
			t.Errorf("%s: durable is %v, expected %v", c.name, got, c.want)
		}
	}
	s.Ended(&late, a, s.Begin())
	if !s.Cover(&late, a) {
		t.Error("a later sync does not serve what was made before it")
	}
}

// Of two that overlap the one that began first may end last.
func TestASyncThatEndsLateTakesNothingBack(t *testing.T) {
	var s Syncs
	var first, between, other Dir
	s.Made(&first)
	early := s.Begin()
	s.Made(&between)
	s.Made(&other)
	later := s.Begin()
	s.Ended(&other, a, later)
	s.Ended(&first, a, early)
	if !s.Cover(&between, a) {
		t.Error("what the later sync has made durable is forgotten")
	}
}

func TestSyncsOfOneTopicServeNoOther(t *testing.T) {
	var s Syncs
	var mine, other Dir
	s.Made(&mine)
	s.Made(&other)
	s.Ended(&mine, a, s.Begin())
	if s.Cover(&other, b) || s.Knows(b) {
		t.Error("the directory of another topic is durable")
	}
	s.Ended(&other, b, s.Begin())
	if s.Knows(a) || !s.Cover(&mine, a) {
		t.Error("expected the topic to be forgotten, and what was durable not to be")
	}
}

func TestWhatRecoveryHasMadeIsDurable(t *testing.T) {
	var s Syncs
	var d, none Dir
	d.Recovered()
	if !d.Made() || !s.Cover(&d, a) {
		t.Error("a durable directory is not made, or not covered")
	}
	if none.Made() || s.Cover(&none, a) {
		t.Error("a directory that nobody has made is there")
	}
	s.Ended(&d, a, s.Begin())
	if s.Cover(&none, a) {
		t.Error("a directory that nobody has made is covered")
	}
}
