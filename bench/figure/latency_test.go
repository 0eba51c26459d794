package figure

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"
)

func TestMergedHistogramsAreAsIfRecordedInOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := []*Latency{NewLatency(), NewLatency(), NewLatency()}
		whole, merged := NewLatency(), NewLatency()
		for range rapid.IntRange(1, 200).Draw(t, "records") {
			ns, n := rapid.Int64Range(0, 2*MaxLatency).Draw(t, "ns"), rapid.Int64Range(1, 100).Draw(t, "n")
			parts[rapid.IntRange(0, 2).Draw(t, "part")].Record(ns, n)
			whole.Record(ns, n)
		}
		for _, p := range parts {
			merged.Merge(p)
		}
		if a, b := merged.Summary(), whole.Summary(); a != b || merged.above != whole.above {
			t.Fatalf("merged %+v, whole %+v", a, b)
		}
	})
}

func TestAHistogramIsTheSameAfterATransfer(t *testing.T) {
	l, back := NewLatency(), NewLatency()
	for i := range int64(1000) {
		l.Record(i*i*i, 1+i%3)
	}
	l.Record(2*MaxLatency, 3)
	text, err := json.Marshal(l)
	if err == nil {
		err = json.Unmarshal(text, back)
	}
	if err != nil || back.Summary() != l.Summary() || back.above != 3 {
		t.Errorf("error %v: %s, carried %s", err, l.Summary(), back.Summary())
	}
	if err := json.Unmarshal([]byte(`{"histogram":"x"}`), back); err == nil {
		t.Error("no histogram was taken for one")
	}
}
