package engine

import (
	"testing"
	"time"

	"github.com/mqd-broker/mqd/engine/compaction"
	"github.com/mqd-broker/mqd/engine/layout"
)

// crowded is a store for whose files somebody waits all the time.
type crowded struct {
	*compacting
	slow int64
}

func (c crowded) Slow() int64 { return c.slow }

// compactCrowded has all of k compacted by a cleaner that others come before, and returns
// how long that took and what the segments had.
func (k *keyed) compactCrowded(slow int64, o compaction.Options) (took time.Duration, bytes int64) {
	k.t.Helper()
	k.checkpointAll()
	k.checkpointAll()
	s := k.p().store
	segs, _ := (*compacting)(s).CompactableSegments(k.p().key)
	for _, seg := range segs {
		bytes += seg.Bytes
	}
	s.cleaner.Stop()
	s.cleaner = compaction.New(s.loop, crowded{(*compacting)(s), slow}, o)
	from := k.w.Now()
	for s.cleaner.Passes() == 0 {
		if k.w.Now()-from > int64(time.Hour) {
			k.t.Fatalf("%d bytes are not compacted within an hour while others read", bytes)
		}
		k.turn()
	}
	return time.Duration(k.w.Now() - from), bytes
}

func TestCompactionHasItsShareWhileOthersReadAllTheTime(t *testing.T) {
	o := compaction.Options{Rate: 64 << 10, KeyBytes: 1 << 20, Pause: time.Second, Failed: func(string, error) { t.Error("a pass has failed") }}
	c := layout.Compaction{Dirty: 1}
	free := newKeyed(t, rigOptions{seed: 3}, c)
	free.fill(24, 50)
	alone, bytes := free.compactCrowded(1, o)
	k := newKeyed(t, rigOptions{seed: 3}, c)
	k.fill(24, 50)
	took, same := k.compactCrowded(compaction.SlowBehindOthers, o)
	if same != bytes {
		t.Fatalf("the same seed gives %d and %d bytes", bytes, same)
	}
	// All is read once for the keys, and at least once for what stays.
	paid := time.Duration(2*bytes) * time.Second / time.Duration(o.Rate)
	t.Logf("%d bytes: %v alone, %v beside readers, paid for in %v", bytes, alone, took, paid)
	if alone < paid-o.Pause {
		t.Errorf("alone %d bytes took %v, which is faster than the rate: %v", bytes, alone, paid)
	}
	if least := compaction.SlowBehindOthers / 2 * alone; took < least {
		t.Errorf("beside readers it took %v, and alone %v: it does not give way", took, alone)
	}
	if most := compaction.SlowBehindOthers*alone + time.Duration(len(k.p().bases))*o.Pause; took > most {
		t.Errorf("beside readers it took %v, and alone %v: more than its share lets it", took, alone)
	}
}
