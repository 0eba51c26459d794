package budgets

import (
	"fmt"
	"os"
	"time"

	"github.com/mqd-broker/mqd/bench"
	"github.com/mqd-broker/mqd/bench/machine"
)

const (
	// calm is the share of the time that programs beside broker and client may take
	// from the threads that are measured. The 99th percentile leaves out one message in
	// a hundred: others may disturb half of these.
	calm = 0.005
	// calmTries is how often at most a measurement is made to find the machine calm.
	calmTries = 4
)

// watch is what the scheduler had given broker and client at a moment.
type watch struct {
	at             time.Time
	broker, client machine.Turns
}

func watchNow(broker int) (w watch, err error) {
	if w.broker, err = machine.ReadTurns("/", broker); err != nil {
		return w, err
	}
	w.client, err = machine.ReadTurns("/", os.Getpid())
	w.at = time.Now()
	return w, err
}

// taken is the share of the time since before that other programs took from the shard
// and the client's thread, of both together; never more than that: what the other threads of broker
// and client ran counts as theirs, though some of it was on a CPU that was free.
func (w watch) taken(before watch) float64 {
	shard, helpers := w.broker.Since(before.broker)
	client, own := w.client.Since(before.client)
	took := w.at.Sub(before.at)
	if took <= 0 {
		return 0
	}
	return max(0, float64(shard+client-helpers-own)/float64(took))
}

// calmest makes measurements until one is calm, at most calmTries, and returns that from
// which others took least. One that found messages missing is the last, whatever else there was.
func calmest(measure func() (through, error)) (best through, again int, err error) {
	for try := range calmTries {
		t, err := measure()
		if err != nil {
			return t, try, err
		}
		if try == 0 || t.taken < best.taken || t.Err() != nil {
			best = t
		}
		if best.taken <= calm || t.Err() != nil {
			return best, try, nil
		}
	}
	return best, calmTries - 1, nil
}

// disturbed is what other programs took from the measurements of both doors: the median of
// each door's, and of these the larger.
func disturbed(all [numDoors][]through) float64 {
	share := 0.0
	for _, some := range all {
		share = max(share, bench.Median(some, func(t through) float64 { return t.taken }))
	}
	return share
}

// calmly is the row, but no figure if others took too much from what it was measured by.
func (r Row) calmly(share float64, again int) Row {
	told := fmt.Sprintf("other programs took %.2f %% of the time from shard and client, allowed %.2f %%", 100*share, 100*calm)
	if share > calm && r.Missing == "" {
		r.Missing, r.Within = "DISTURBED: "+told, false
	} else if r.Note != "" {
		r.Note += "; " + told
	} else {
		r.Note = told
	}
	if again > 0 {
		r.Note += fmt.Sprintf("; %d measurements made again", again)
	}
	return r
}

// atWorst is judged, and r if that is no figure: a latency counts from the intended time, so what
// a client is late, or others disturb, is in it, and a figure within most passes with that.
// most has no floor of the machine in it, which the same others may have raised.
func (r Row) atWorst(judged Row, most float64) Row {
	if judged.Missing == "" || r.Measured > most {
		return judged
	}
	r.Note = judged.Missing + "; the figure contains it, and is within all the same"
	return r
}

// quietly is the row of a budget with J in it, but no figure if J was measured beside other work.
func (r Row) quietly(j bench.Jitter) Row {
	if j.Stolen > noisy && r.Missing == "" {
		r.Missing, r.Within = fmt.Sprintf("DISTURBED: other work had %.0f %% of the time in which J was measured", 100*j.Stolen), false
	}
	return r
}
