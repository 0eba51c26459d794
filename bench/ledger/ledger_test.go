package ledger

import (
	"encoding/json"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// TestTrackerCountsWhatWasDoneToALane does known things to a lane and expects them
// counted.
func TestTrackerCountsWhatWasDoneToALane(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 200).Draw(t, "messages")
		sent := Lane{Sent: uint64(n)}
		type event struct{ seq, offset int }
		var events []event
		var want Faults
		lost := map[int]bool{}
		for i := range n {
			sent.Acked++
			sent.Offsets += Fold(uint64(i), int64(i))
			switch rapid.IntRange(0, 9).Draw(t, "fate") {
			case 0:
				lost[i] = true
				want.Lost++
			case 1:
				events = append(events, event{i, i}, event{i, i})
				want.Duplicated++
			default:
				events = append(events, event{i, i})
			}
		}
		for i := 0; i+1 < len(events); i++ {
			a, b := events[i], events[i+1]
			if a.seq+1 == b.seq && (i+2 >= len(events) || events[i+2].seq > b.seq) && (i == 0 || events[i-1].seq < a.seq) &&
				rapid.IntRange(0, 9).Draw(t, "swap") == 0 {
				events[i], events[i+1] = b, a
				want.Reordered++
				i++
			}
		}
		var tr Tracker
		for _, e := range events {
			tr.Take(uint64(e.seq), int64(e.offset))
		}
		if got := tr.Compare(&sent); got != want {
			t.Fatalf("found %s; done %s", got, want)
		}
		// What was refused may be missing.
		for i := range n {
			if lost[i] {
				sent.Refused = append(sent.Refused, Span{uint64(i), uint64(i + 1)})
			}
		}
		want.Lost = 0
		if got := tr.Compare(&sent); got != want {
			t.Fatalf("with refusals: found %s; done %s", got, want)
		}
	})
}

func TestTrackerForgetsNoLoss(t *testing.T) {
	var tr Tracker
	const n = 3 * maxSpans
	for i := range uint64(n) {
		tr.Take(2*i+1, int64(i)) // every even one is missing
	}
	if got := tr.Compare(&Lane{Sent: 2 * n}); got.Lost != n || len(tr.Missing) > maxSpans {
		t.Fatalf("found %s, %d gaps kept", got, len(tr.Missing))
	}
}

func TestTrackerSeesMovedAndUnsentMessages(t *testing.T) {
	var tr Tracker
	sent := Lane{Sent: 2, Acked: 2, Offsets: Fold(0, 0) + Fold(1, 1)}
	tr.Take(0, 1) // the two offsets are exchanged
	tr.Take(1, 0)
	if got := tr.Compare(&sent); got != (Faults{Moved: 1}) {
		t.Errorf("moved: %s", got)
	}
	tr.Take(2, 2)
	if got := tr.Compare(&sent); got.Corrupted != 1 {
		t.Errorf("unsent: %s", got)
	}
}

func TestALaneAndItsTrackerAreTheSameAfterATransfer(t *testing.T) {
	sent := Lane{Sent: 9, Acked: 6, Offsets: 1<<63 + 5}
	sent.Refuse(Span{7, 9})
	sent.Refuse(Span{2, 3})
	var tr Tracker
	for _, seq := range []uint64{0, 1, 5, 5, 3} {
		tr.Take(seq, int64(seq))
	}
	var sentBack Lane
	var trBack Tracker
	for from, to := range map[any]any{&sent: &sentBack, &tr: &trBack} {
		text, err := json.Marshal(from)
		if err == nil {
			err = json.Unmarshal(text, to)
		}
		if err != nil || !reflect.DeepEqual(from, to) {
			t.Errorf("%+v became %+v by %s, error %v", from, to, text, err)
		}
	}
	if a, b := tr.Compare(&sent), trBack.Compare(&sentBack); a != b || a.Lost != 2 || a.Duplicated != 1 || a.Reordered != 1 {
		t.Errorf("%s, after the transfer %s", a, b)
	}
}
