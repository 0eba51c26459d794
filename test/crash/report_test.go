package crash

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mqd-broker/mqd/test/history"
)

// report is what a run has done.
type report struct {
	streams  uint32 // partitions so far
	kills    int
	unready  int // of them before the broker was ready
	stops    int // orderly ends
	verified int // complete readings
	deleted  int // topics
	counts   history.Counts
	starts   []time.Duration
	lines    int // starts that were logged
	recovery recovered
}

// recovered is what a broker logs when it begins to serve.
type recovered struct {
	Replayed      int64 `json:"replayed"`
	ReplayedBytes int64 `json:"replayed_bytes"`
	Torn          int64 `json:"torn_tails"`
	Damaged       int64 `json:"damaged"`
	Gaps          int64 `json:"gaps"`
}

// ended takes what the broker, which is gone, said about its start.
func (r *report) ended(w *world) {
	for text := range strings.Lines(w.broker.LogTail()) {
		var line recovered
		if !strings.Contains(text, `"msg":"serving"`) || json.Unmarshal([]byte(text), &line) != nil {
			continue
		}
		if line.Damaged != 0 {
			w.problem("the recovery found %d pieces of damage after the death of a process", line.Damaged)
		}
		r.lines++
		r.recovery.Replayed += line.Replayed
		r.recovery.ReplayedBytes += line.ReplayedBytes
		r.recovery.Torn += line.Torn
		r.recovery.Gaps += line.Gaps
	}
}

// summary is the report for people.
func (r *report) summary(w *world) string {
	sum := r.counts
	for _, tp := range w.topics {
		sum.Add(tp.counts())
	}
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %d kills (%d before the broker was ready), %d orderly ends, %d complete readings, %d topics deleted\n",
		w.seed, r.kills, r.unready, r.stops, r.verified, r.deleted)
	fmt.Fprintf(&b, "messages: %d sent, %d acknowledged, %d refused, outcome of %d unknown (%d of them found), %d read\n",
		sum.Sent, sum.Acked, sum.Refused, sum.Unknown, sum.UnknownFound, sum.Read)
	fmt.Fprintf(&b, "class memory: %d messages taken by crashes, %d gaps in the offsets now\n", sum.Taken, sum.Gaps)
	fmt.Fprintf(&b, "recovery: %d entries of %d bytes replayed, %d torn tails, %d gaps made\n",
		r.recovery.Replayed, r.recovery.ReplayedBytes, r.recovery.Torn, r.recovery.Gaps)
	if n := len(r.starts); n > 0 {
		s := slices.Sorted(slices.Values(r.starts))
		fmt.Fprintf(&b, "start to ready: p50 %v, max %v", s[n/2].Round(time.Millisecond), s[n-1].Round(time.Millisecond))
	}
	return b.String()
}

// typicalStart is how long a start takes about.
func (r *report) typicalStart() time.Duration {
	if len(r.starts) == 0 {
		return 100 * time.Millisecond
	}
	return slices.Sorted(slices.Values(r.starts))[len(r.starts)/2]
}
