package admin

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/engine/stage"
)

// A message that is sent, acknowledged and read passes every stage but that of the disk.
func TestStagesCountWhatPassesThem(t *testing.T) {
	r := newRig(t)
	r.start()
	r.produce("alerts", 1, "hello")
	in, err := r.dial().Consumer(client.Topics("alerts"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := in.Poll(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b.Release()
	s := r.scrape(PathPublicMetrics)
	counts := map[string]float64{}
	for _, info := range stage.Table[stage.Socket+1:] {
		for shard := range 2 {
			labels := fmt.Sprintf(`shard="%d",stage=%q`, shard, info.Name)
			count := s.values["mqd_stage_seconds_count{"+labels+"}"]
			counts[info.Name] += count
			if inf := s.values["mqd_stage_seconds_bucket{"+labels+`,le="+Inf"}`]; inf != count {
				t.Errorf("%s: +Inf has %v of %v samples", labels, inf, count)
			}
			before := 0.0
			for _, bound := range bounds {
				n, ok := s.values[fmt.Sprintf(`mqd_stage_seconds_bucket{%s,le="%v"}`, labels, nanos(bound))]
				if !ok || n < before || n > count {
					t.Errorf("%s: bucket %d has %v samples, the one before %v, all together %v", labels, bound, n, before, count)
				}
				before = n
			}
		}
	}
	for _, name := range []string{"parse", "append", "round_wait", "device", "ack_send", "fetch_wait", "fetch_send"} {
		if counts[name] < 1 {
			t.Errorf("stage %s has %v samples: %v", name, counts[name], counts)
		}
	}
	if s.kinds["mqd_stage_seconds"] != "histogram" {
		t.Errorf("kind %q", s.kinds["mqd_stage_seconds"])
	}
}

func TestStagesAsJSONHaveAllBuckets(t *testing.T) {
	r := newRig(t)
	r.start()
	r.produce("alerts", 1, "hello")
	var all []ShardStages
	r.decode(PathStages, &all)
	device := uint64(0)
	for _, sh := range all {
		for name, times := range sh.Stages {
			h, sum := times.Histogram(), uint64(0)
			for _, n := range h.Counts {
				sum += n
			}
			if sum != times.Count || h.Total != times.Count || h.Sum != times.SumNanos {
				t.Errorf("shard %d, %s: %d samples in buckets, %d in all", sh.Shard, name, sum, times.Count)
			}
		}
		device += sh.Stages["device"].Count
	}
	if len(all) != 2 || device == 0 || len(all[0].Stages) != int(stage.Count)-1 {
		t.Errorf("%d shards with %d samples: %+v", len(all), device, all)
	}
	if h := (&StageTimes{Count: 1, Buckets: [][2]uint64{{stage.Buckets, 1}}}).Histogram(); h.Quantile(0.5) == 0 {
		t.Error("a bucket that there is not is taken for another")
	}
}

func TestAHistogramIsWrittenInBuckets(t *testing.T) {
	var h stage.Histogram
	f := family{name: "mqd_x_seconds", kind: histogram, help: "X.", labels: []string{"a"},
		distribute: func(_ *view, sample func(*stage.Histogram, ...string)) { sample(&h, "b") }}
	var out bytes.Buffer
	f.write(&out, nil)
	s, err := parse(out.String())
	if err != nil || s.values[`mqd_x_seconds_count{a="b"}`] != 0 || len(s.values) != len(bounds)+3 {
		t.Errorf("%v: %v", err, s.values)
	}
}
