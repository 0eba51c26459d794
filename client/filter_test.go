package client

import (
	"slices"
	"strings"
	"testing"
)

// A filter hides records and nothing else: a batch of which it leaves nothing comes, and its
// offsets are committed.
func TestAFilterHidesRecordsAndNothingElse(t *testing.T) {
	b := newFakeBroker(t)
	b.addTopic("alerts", 1)
	b.put("alerts", 0, CompressNone, "keep 0", "1", "keep 2", "3")
	b.put("alerts", 0, CompressGzip, "4", "keep 5", "6")
	keep := func(r RecordView) bool { return strings.HasPrefix(string(r.Value), "keep") }
	co := joinFake(t, b, Topics("alerts"), WithAutoCommit(0, 0), WithFilter(keep))
	bt := take(t, co, 7)
	var got []string
	for range 2 {
		for r := range bt.Records() {
			got = append(got, string(r.Value))
			if r.Offset == 5 {
				break
			}
		}
	}
	if want := []string{"keep 0", "keep 2", "keep 5"}; !slices.Equal(got, append(want, want...)) || bt.First != 0 || bt.Last != 6 {
		t.Fatalf("%q of %d to %d", got, bt.First, bt.Last)
	}
	bt.Release()
	b.put("alerts", 0, CompressNone, "7", "8")
	bt = take(t, co, 2)
	for r := range bt.Records() {
		t.Fatalf("%q", r.Value)
	}
	if err := bt.Commit(testContext(t)); err != nil || b.committed("g", "alerts", 0) != 9 {
		t.Fatalf("%v, committed %d", err, b.committed("g", "alerts", 0))
	}
	bt.Release()
	if lags, err := co.Lag(testContext(t)); err != nil || lags[0].Records != 0 || lags[0].Position != 9 {
		t.Fatalf("%+v, %v", lags, err)
	}
}
