package admin

import (
	"strings"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/admin/scale"
)

func TestALoadThatLastsIsASignal(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Scale = scale.Limits{FetchP99: time.Hour, ProduceRate: 10} })
	l, at := &load{patience: patience}, time.Now()
	l.judge.Limits = r.front.opts.Scale
	look := func() scale.Signals {
		l.look(t.Context(), at, r.service)
		at = at.Add(scale.LookEvery)
		return l.signals()
	}
	if s := look(); s != (scale.Signals{}) {
		t.Errorf("before the start: %+v", s)
	}
	r.start()
	r.produce("orders", 4, "a message")
	look()
	for i := range 6 {
		r.produce("more"+strings.Repeat("x", i), 1, strings.Repeat("message", 100))
		if s := look(); s.Fetch || s.Produce != (i == 5) || s.ProduceRate < 700/scale.LookEvery.Seconds() {
			t.Errorf("look %d: %+v", i, s)
		}
	}
	if s := look(); s.Produce || s.ProduceRate != 0 {
		t.Errorf("when nothing is sent any more: %+v", s)
	}
}

func TestSignalsAreServed(t *testing.T) {
	r := newRig(t)
	r.start()
	r.front.load.close() // what it would see itself is not this
	r.front.load.judge = loaded()
	m := r.scrape(PathPublicMetrics)
	for series, want := range map[string]float64{
		`mqd_scale_signal{signal="fetch_latency"}`: 0, `mqd_scale_signal{signal="produce_rate"}`: 1, "mqd_scale_produce_rate_bytes": 100, "mqd_scale_fetch_p99_seconds": 0,
	} {
		if got, ok := m.values[series]; !ok || got != want {
			t.Errorf("%s is %v, expected %v", series, got, want)
		}
	}
}

// loaded is a judge that has seen 100 bytes a second for long enough.
func loaded() scale.Judge {
	j := scale.Judge{Limits: scale.Limits{ProduceRate: 99}}
	l := scale.Look{At: time.Unix(1_800_000_000, 0), Of: new(int)}
	for range 7 {
		j.Take(&l)
		l.At, l.Produced = l.At.Add(scale.LookEvery), l.Produced+100*uint64(scale.LookEvery/time.Second)
	}
	return j
}
