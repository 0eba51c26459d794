package admin

import (
	"bytes"
	"net/http"
	"runtime"
	"strconv"
	"time"

	"github.com/mqd-broker/mqd/admin/scale"
	"github.com/mqd-broker/mqd/broker"
	"github.com/mqd-broker/mqd/node"
)

// maxPartitions bounds the partitions with series of their own.
const maxPartitions = 4096

// view is what metrics are made of.
type view struct {
	version   string
	began     time.Time
	now       time.Time
	ready     bool
	condition node.Condition
	figures   *node.Figures // nil while no node serves
	topics    []node.TopicFigures
	groups    []node.GroupFigures
	ungrouped int // groups, and partitions of groups, that are left out
	runtime   *goRuntime
	wake      func() (time.Duration, bool)
	load      scale.Signals
}

// metrics serves all metrics.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) { s.expose(w, r, false) }

// publicMetrics serves those whose number does not grow with topics, partitions and groups.
func (s *Server) publicMetrics(w http.ResponseWriter, r *http.Request) { s.expose(w, r, true) }

func (s *Server) expose(w http.ResponseWriter, r *http.Request, public bool) {
	c := s.opts.Service.Condition()
	v := view{
		version: s.opts.Version, began: s.began, now: time.Now(), ready: len(reasons(&c)) == 0,
		condition: c, runtime: readRuntime(), wake: s.opts.WakeLimit, load: s.load.signals(),
	}
	if c.Node != nil {
		v.figures = c.Node.Figures(r.Context())
		if !public {
			v.topics = c.Node.TopicFigures(r.Context(), maxPartitions)
			v.groups, v.ungrouped = c.Node.GroupFigures(r.Context(), maxGroupRows)
		}
	}
	form, binary := contentType, wantsNative(r.Header.Get("Accept"))
	if binary {
		form = nativeType
	}
	var out bytes.Buffer
	for _, f := range families() {
		switch {
		case f.private && public:
		case binary:
			f.native(&out, &v)
		default:
			f.write(&out, &v)
		}
	}
	w.Header().Set("Content-Type", form)
	_, _ = w.Write(out.Bytes()) // whoever has gone reads no error either
}

// families are all metrics, in the order in which they are served.
func families() []family {
	all := append(ofProcess(), ofNode()...)
	all = append(all, recoverySeconds(), logFailed())
	all = append(all, ofLoad()...)
	for _, f := range ofShards() {
		all = append(all, f.family())
	}
	all = append(all, ofLabelledShards()...)
	all = append(all, ofPools()...)
	all = append(all, stageSeconds())
	all = append(all, ofPartitions()...)
	return append(all, ofGroups()...)
}

// value makes a family of one sample.
func value(name, kind, help string, get func(v *view) float64) family {
	return family{name: name, kind: kind, help: help, collect: func(v *view, sample func(float64, ...string)) {
		sample(get(v))
	}}
}

func ofProcess() []family {
	return []family{
		{name: "mqd_build_info", kind: gauge, help: "The program; always 1.", labels: []string{"version", "go_version"},
			collect: func(v *view, sample func(float64, ...string)) { sample(1, v.version, runtime.Version()) }},
		value("mqd_start_time_seconds", gauge, "When the process began to serve its metrics, in Unix time.",
			func(v *view) float64 { return unix(v.began) }),
		value("mqd_uptime_seconds", gauge, "How long ago that was.",
			func(v *view) float64 { return v.now.Sub(v.began).Seconds() }),
		value("mqd_ready", gauge, "1 while everything is taken and served, as /healthz/ready says.",
			func(v *view) float64 { return number(v.ready) }),
		{name: "mqd_state", kind: gauge, help: "1 for what the broker does.", labels: []string{"state"},
			collect: func(v *view, sample func(float64, ...string)) {
				for s := node.Starting; s <= node.Stopping; s++ {
					sample(number(v.condition.State == s), s.String())
				}
			}},
		value("mqd_reopened_total", counter, "How often failed logs have been opened again with success.",
			func(v *view) float64 { return float64(v.condition.Reopened) }),
		{name: "mqd_cpu_wake_limit_seconds", kind: gauge, help: "Longest time in which CPUs of the machine may wake, which the broker holds; missing while it holds none.",
			collect: func(v *view, sample func(float64, ...string)) {
				if most, held := v.wake(); held {
					sample(most.Seconds())
				}
			}},
		value("mqd_go_goroutines", gauge, "Goroutines; a shard is one.",
			func(v *view) float64 { return v.runtime.goroutines }),
		value("mqd_go_heap_bytes", gauge, "Objects on Go's heap. Messages are not there.",
			func(v *view) float64 { return v.runtime.heap }),
		value("mqd_go_memory_bytes", gauge, "Memory of Go's runtime. The memory of shards is not there.",
			func(v *view) float64 { return v.runtime.memory }),
		value("mqd_go_gc_cycles_total", counter, "Garbage collections.",
			func(v *view) float64 { return v.runtime.cycles }),
	}
}

// figure makes a family of one sample that there is only while a node serves.
func figure(name, kind, help string, get func(f *node.Figures) float64) family {
	return family{name: name, kind: kind, help: help, collect: func(v *view, sample func(float64, ...string)) {
		if v.figures != nil {
			sample(get(v.figures))
		}
	}}
}

func ofNode() []family {
	return []family{
		figure("mqd_node_start_time_seconds", gauge, "When the newest start or reopening began, in Unix time.",
			func(f *node.Figures) float64 { return unix(f.Began) }),
		figure("mqd_node_start_seconds", gauge, "How long it took until clients could connect.",
			func(f *node.Figures) float64 { return f.Took.Seconds() }),
		figure("mqd_node_term", gauge, "Number of the start; it is the leader epoch of batches.",
			func(f *node.Figures) float64 { return float64(f.Term) }),
		figure("mqd_recovery_rounds", gauge, "Rounds that the newest start has read from the journals.",
			func(f *node.Figures) float64 { return float64(f.Recovery.Rounds) }),
		figure("mqd_recovery_replayed_batches", gauge, "Batches that the newest start has brought from journals to segments.",
			func(f *node.Figures) float64 { return float64(f.Recovery.Replayed) }),
		figure("mqd_recovery_replayed_bytes", gauge, "Their bytes.",
			func(f *node.Figures) float64 { return float64(f.Recovery.ReplayedBytes) }),
		figure("mqd_recovery_torn_tails", gauge, "Journals that ended in a torn round, as a crash leaves them.",
			func(f *node.Figures) float64 { return float64(f.Recovery.TornTails) }),
		figure("mqd_recovery_damaged", gauge, "Rounds or bodies that the newest start has found damaged although they were durable. 0 unless something is lost.",
			func(f *node.Figures) float64 { return float64(f.Recovery.Damaged) }),
		figure("mqd_recovery_losses", gauge, "Ranges of offsets that were durable and are lost, or may be. 0 unless something is lost.",
			func(f *node.Figures) float64 { return float64(f.Recovery.Losses) }),
		figure("mqd_recovery_gaps", gauge, "Gaps that the newest start has recorded in topics of class memory or written.",
			func(f *node.Figures) float64 { return float64(f.Recovery.Gaps) }),
		figure("mqd_recovery_orphans", gauge, "Files that the newest start has set aside.",
			func(f *node.Figures) float64 { return float64(f.Recovery.Orphans) }),
		figure("mqd_device_failed", gauge, "1 when a flush has failed on the device of the data directory: every log on it has ended.",
			func(f *node.Figures) float64 { return number(f.DeviceFailed) }),
		figure("mqd_ballast_missing", gauge, "1 while the ballast file has been given up because the disk is full: producers are refused.",
			func(f *node.Figures) float64 { return number(f.BallastMissing) }),
		figure("mqd_missing_segments", gauge, "Places where segments are missing between others, found so far.",
			func(f *node.Figures) float64 { return float64(f.MissingSegments) }),
		figure("mqd_missing_segments_searched", gauge, "1 when all segments have been looked at for missing ones since the start.",
			func(f *node.Figures) float64 { return number(f.Audited) }),
		figure("mqd_connections", gauge, "Connections.",
			func(f *node.Figures) float64 { return float64(f.Connections) }),
		figure("mqd_held_fetches", gauge, "Fetches that wait for memory which answers keep that peers have not read.",
			func(f *node.Figures) float64 { return float64(f.HeldFetches) }),
		figure("mqd_topics", gauge, "Topics.",
			func(f *node.Figures) float64 { return float64(f.Topics) }),
		figure("mqd_partitions", gauge, "Partitions of all topics.",
			func(f *node.Figures) float64 { return float64(f.Partitions) }),
		figure("mqd_shards", gauge, "Shards.",
			func(f *node.Figures) float64 { return float64(len(f.Shards)) }),
	}
}

// recoverySeconds says where the time of the newest start went.
func recoverySeconds() family {
	return family{name: "mqd_recovery_seconds", kind: gauge, labels: []string{"phase"},
		help: "How long each part of the newest recovery took: reading checkpoints, reading journals, replaying, flushing, writing checkpoints.",
		collect: func(v *view, sample func(float64, ...string)) {
			if v.figures == nil {
				return
			}
			spent := &v.figures.Recovery.Spent
			for _, part := range []struct {
				phase string
				took  int64
			}{
				{"state", spent.State}, {"journals", spent.Journals}, {"replay", spent.Replay}, {"flush", spent.Flush}, {"checkpoints", spent.Checkpoints},
			} {
				sample(nanos(part.took), part.phase)
			}
		}}
}

// logFailed stays 1 while no node could be started in the place of one whose logs had
// failed: an alarm must not end because nothing is served at all.
func logFailed() family {
	return family{name: "mqd_log_failed", kind: gauge, labels: []string{"shard"},
		help: "1 when the shard's log has failed: it acknowledges nothing and is read from, until mqd admin reopen or the next start.",
		collect: func(v *view, sample func(float64, ...string)) {
			if v.figures == nil {
				for i := range v.condition.Shards {
					sample(number(v.condition.State == node.Down || v.condition.State == node.Reopening), strconv.Itoa(i))
				}
				return
			}
			for i := range v.figures.Shards {
				sh := &v.figures.Shards[i]
				sample(number(sh.LogErr != nil), strconv.Itoa(sh.Shard))
			}
		}}
}

func ofPartitions() []family {
	of := func(name, help string, get func(p *broker.PartitionInfo) float64) family {
		return family{name: name, kind: gauge, help: help, labels: []string{"topic", "partition"}, private: true,
			collect: func(v *view, sample func(float64, ...string)) {
				for _, t := range v.topics {
					for i := range t.Partitions {
						sample(get(&t.Partitions[i]), t.Topic.Name, strconv.Itoa(i))
					}
				}
			}}
	}
	return []family{
		of("mqd_log_start_offset", "First offset of a partition.", func(p *broker.PartitionInfo) float64 { return float64(p.LogStart) }),
		of("mqd_log_durable_offset", "Offset behind the newest message that consumers see.", func(p *broker.PartitionInfo) float64 { return float64(p.Durable) }),
		of("mqd_log_end_offset", "Offset of the next message.", func(p *broker.PartitionInfo) float64 { return float64(p.End) }),
		of("mqd_log_size_bytes", "Bytes of a partition's segments.", func(p *broker.PartitionInfo) float64 { return float64(p.Bytes) }),
		of("mqd_log_exposed_bytes", "Bytes that are acknowledged and would be lost by a power cut now; 0 in class flushed.", func(p *broker.PartitionInfo) float64 { return float64(p.ExposedBytes) }),
		{name: "mqd_partitions_left_out", kind: gauge, private: true,
			help: "Partitions without series of their own, because there are more than 4096 or because a shard did not answer.",
			collect: func(v *view, sample func(float64, ...string)) {
				if v.figures == nil {
					return
				}
				out := 0
				for _, t := range v.topics {
					out += int(t.Topic.Partitions) - len(t.Partitions)
				}
				sample(float64(out))
			}},
	}
}

func number(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

func unix(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
