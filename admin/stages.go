package admin

import (
	"net/http"
	"strconv"

	"github.com/mqd-broker/mqd/engine/stage"
)

// stageSeconds says where the time of batches and fetches goes.
func stageSeconds() family {
	return family{name: "mqd_stage_seconds", kind: histogram, labels: []string{"shard", "stage"}, help: stageHelp(),
		distribute: func(v *view, sample func(*stage.Histogram, ...string)) {
			for s := range v.shards() {
				if s.Stages == nil {
					continue
				}
				for _, info := range stage.Table {
					if h := &s.Stages[info.Stage]; measured(info.Stage, h) {
						sample(h, strconv.Itoa(s.Shard), info.Name)
					}
				}
			}
		}}
}

// measured reports whether a stage is there: with most drivers nobody knows what socket takes.
func measured(at stage.Stage, h *stage.Histogram) bool { return at != stage.Socket || h.Total > 0 }

func stageHelp() string {
	text := "How long batches and fetches take in each stage."
	for _, info := range stage.Table {
		text += " " + info.Name + ": " + info.Help
	}
	return text
}

// StageTimes are the times of a shard in a stage since its start.
type StageTimes struct {
	// Count is the number of samples, SumNanos the nanoseconds of all.
	Count    uint64 `json:"count"`
	SumNanos uint64 `json:"sum_nanos"`
	// Buckets are pairs: the number of a bucket of package stage, which is not empty, and
	// its samples.
	Buckets [][2]uint64 `json:"buckets"`
}

// Histogram makes one of them.
func (t *StageTimes) Histogram() *stage.Histogram {
	h := &stage.Histogram{Total: t.Count, Sum: t.SumNanos}
	for _, b := range t.Buckets {
		if b[0] < stage.Buckets {
			h.Counts[b[0]] = b[1]
		}
	}
	return h
}

// ShardStages are a shard's.
type ShardStages struct {
	Shard int `json:"shard"`
	// Stages are by their names; nil when the shard has not answered.
	Stages map[string]StageTimes `json:"stages"`
}

// stages serves the times of all stages with all their buckets.
func (s *Server) stages(w http.ResponseWriter, r *http.Request) {
	all := []ShardStages{}
	if c := s.opts.Service.Condition(); c.Node != nil {
		for _, sh := range c.Node.Figures(r.Context()).Shards {
			one := ShardStages{Shard: sh.Shard}
			if sh.Stages != nil {
				one.Stages = map[string]StageTimes{}
				for _, info := range stage.Table {
					if h := &sh.Stages[info.Stage]; measured(info.Stage, h) {
						one.Stages[info.Name] = timesOf(h)
					}
				}
			}
			all = append(all, one)
		}
	}
	writeJSON(w, all)
}

func timesOf(h *stage.Histogram) StageTimes {
	t := StageTimes{Count: h.Total, SumNanos: h.Sum, Buckets: [][2]uint64{}}
	for i, n := range h.Counts {
		if n > 0 {
			t.Buckets = append(t.Buckets, [2]uint64{uint64(i), n})
		}
	}
	return t
}
