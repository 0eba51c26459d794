package admin

import (
	"net/http"
	"strconv"
	"time"

	"github.com/mqd-broker/mqd/engine/scrub"
	"github.com/mqd-broker/mqd/net/conn"
	"github.com/mqd-broker/mqd/net/kafka"
	"github.com/mqd-broker/mqd/net/native"
	"github.com/mqd-broker/mqd/node"
)

// shardFamily is a metric with one sample for each shard.
type shardFamily struct {
	name, kind, help string
	// always says that it is known of a shard that does not answer, too.
	always bool
	get    func(s *node.ShardFigures) float64
}

func (f shardFamily) family() family {
	return family{name: f.name, kind: f.kind, help: f.help, labels: []string{"shard"},
		collect: func(v *view, sample func(float64, ...string)) {
			for s := range v.shards() {
				if f.always || s.Answered {
					sample(f.get(s), strconv.Itoa(s.Shard))
				}
			}
		}}
}

// shards are those of the node that serves, if one does.
func (v *view) shards() func(yield func(s *node.ShardFigures) bool) {
	return func(yield func(s *node.ShardFigures) bool) {
		if v.figures == nil {
			return
		}
		for i := range v.figures.Shards {
			if !yield(&v.figures.Shards[i]) {
				return
			}
		}
	}
}

// nanos is a time of so many nanoseconds, in seconds.
func nanos(n int64) float64 { return time.Duration(n).Seconds() }

// ofShards are all metrics with one sample for each shard.
func ofShards() []shardFamily {
	all := append(ofLoops(), ofJournals()...)
	all = append(all, ofStores()...)
	all = append(all, ofMemory()...)
	all = append(all, ofBrokers()...)
	for _, c := range conn.CounterTable {
		if c.Counter == conn.Closed {
			continue // see ofLabelledShards
		}
		all = append(all, shardFamily{"mqd_" + c.Name, counter, sentence(c.Help), true,
			func(s *node.ShardFigures) float64 { return float64(s.Conn.Get(c.Counter)) }})
	}
	for _, c := range native.CounterTable {
		all = append(all, shardFamily{"mqd_" + c.Name, counter, sentence(c.Help), true,
			func(s *node.ShardFigures) float64 { return float64(s.Native.Get(c.Counter)) }})
	}
	for _, c := range kafka.CounterTable {
		all = append(all, shardFamily{"mqd_" + c.Name, counter, sentence(c.Help), true, func(s *node.ShardFigures) float64 {
			if s.Kafka == nil { // it is off
				return 0
			}
			return float64(s.Kafka.Get(c.Counter))
		}})
	}
	for _, c := range scrub.CounterTable {
		all = append(all, shardFamily{"mqd_" + c.Name, counter, sentence(c.Help), true, func(s *node.ShardFigures) float64 {
			if s.Scrub == nil { // it is off
				return 0
			}
			return float64(c.Of(s.Scrub).Load())
		}})
	}
	return all
}

// sentence makes one of a phrase.
func sentence(phrase string) string { return string(phrase[0]-'a'+'A') + phrase[1:] + "." }

func ofLoops() []shardFamily {
	return []shardFamily{
		{"mqd_shard_answered", gauge, "1 when the shard has answered this scrape in time; most of its metrics are missing without.", true,
			func(s *node.ShardFigures) float64 { return number(s.Answered) }},
		{"mqd_shard_silent_seconds", gauge, "How long ago the shard's loop began its newest turn.", true,
			func(s *node.ShardFigures) float64 { return s.Silent.Seconds() }},
		{"mqd_shard_turns_total", counter, "Turns of the loop.", true,
			func(s *node.ShardFigures) float64 { return float64(s.Loop.Turns.Load()) }},
		{"mqd_shard_idle_turns_total", counter, "Turns that found nothing to do.", true,
			func(s *node.ShardFigures) float64 { return float64(s.Loop.IdleTurns.Load()) }},
		{"mqd_shard_busy_seconds_total", counter, "Time spent in turns that did something.", true,
			func(s *node.ShardFigures) float64 { return nanos(s.Loop.BusyNanos.Load()) }},
		{"mqd_shard_sleeps_total", counter, "Times that the loop slept.", true,
			func(s *node.ShardFigures) float64 { return float64(s.Loop.Sleeps.Load()) }},
		{"mqd_shard_stalls_total", counter, "Turns longer than 5 ms.", true,
			func(s *node.ShardFigures) float64 { return float64(s.Loop.Stalls.Load()) }},
		{"mqd_shard_longest_turn_seconds", gauge, "The longest turn so far.", true,
			func(s *node.ShardFigures) float64 { return nanos(s.Loop.LongestTurn.Load()) }},
		{"mqd_shard_unsound_times_total", counter, "Batches that the stage socket does not count: the kernel's time of their receive cannot be, or the calendar's clock had just jumped.", false,
			func(s *node.ShardFigures) float64 { return float64(s.Unsound) }},
		{"mqd_shard_inflight_ios", gauge, "Operations that the driver has not completed, receives and accepts included.", false,
			func(s *node.ShardFigures) float64 { return float64(s.Operations) }},
	}
}

func ofJournals() []shardFamily {
	return []shardFamily{
		{"mqd_journal_size_bytes", gauge, "Size of the journal's ring.", false,
			func(s *node.ShardFigures) float64 { return float64(s.JournalBytes) }},
		{"mqd_journal_used_bytes", gauge, "What of it a start would have to read. Producers are slowed down as it fills.", false,
			func(s *node.ShardFigures) float64 { return float64(s.JournalUsed) }},
		{"mqd_journal_rounds_total", counter, "Rounds written: each is one group commit.", false,
			func(s *node.ShardFigures) float64 { return float64(s.Journal.Rounds) }},
		{"mqd_journal_entries_total", counter, "Entries in them, most of which are batches.", false,
			func(s *node.ShardFigures) float64 { return float64(s.Journal.Entries) }},
		{"mqd_journal_written_bytes_total", counter, "Bytes of them on the disk, padding included.", false,
			func(s *node.ShardFigures) float64 { return float64(s.Journal.Bytes) }},
		{"mqd_journal_dsyncs_total", counter, "Rounds written with DSYNC.", false,
			func(s *node.ShardFigures) float64 { return float64(s.Journal.DSYNCs) }},
		{"mqd_journal_flushes_total", counter, "Flushes of the journal.", false,
			func(s *node.ShardFigures) float64 { return float64(s.Journal.Flushes) }},
		{"mqd_journal_full_total", counter, "Entries that found the ring full.", false,
			func(s *node.ShardFigures) float64 { return float64(s.Journal.Full) }},
		{"mqd_journal_write_errors_total", counter, "Writes of the journal that have failed. The first one ends the log.", false,
			func(s *node.ShardFigures) float64 { return float64(s.Journal.WriteErrors) }},
		{"mqd_journal_flush_errors_total", counter, "Flushes of the journal that have failed, those in writes included. The first one ends all logs of the device.", false,
			func(s *node.ShardFigures) float64 { return float64(s.Journal.FlushErrors) }},
	}
}

func ofStores() []shardFamily {
	return []shardFamily{
		{"mqd_append_batches_total", counter, "Batches appended to logs.", false,
			func(s *node.ShardFigures) float64 { return float64(s.Store.AppendedBatches) }},
		{"mqd_append_bytes_total", counter, "Their bytes.", false,
			func(s *node.ShardFigures) float64 { return float64(s.Store.AppendedBytes) }},
		{"mqd_segment_written_bytes_total", counter, "Bytes written to segments.", false,
			func(s *node.ShardFigures) float64 { return float64(s.Store.SegmentBytes) }},
		{"mqd_segment_writes_total", counter, "Writes to segments.", false,
			func(s *node.ShardFigures) float64 { return float64(s.Store.SegmentWrites) }},
		{"mqd_segment_flushes_total", counter, "Flushes of segments.", false,
			func(s *node.ShardFigures) float64 { return float64(s.Store.SegmentFlushes) }},
		{"mqd_segment_write_errors_total", counter, "Work on segments and checkpoints that has failed. A full disk passes, other errors end the log.", false,
			func(s *node.ShardFigures) float64 { return float64(s.Store.WriteErrors) }},
		{"mqd_segment_flush_errors_total", counter, "Flushes of segments and checkpoints that have failed. The first one ends all logs of the device.", false,
			func(s *node.ShardFigures) float64 { return float64(s.Store.FlushErrors) }},
		{"mqd_segments_sealed_total", counter, "Segments that have become full and have their index.", false,
			func(s *node.ShardFigures) float64 { return float64(s.Store.SealedSegments) }},
		{"mqd_segment_seal_errors_total", counter, "Indexes that could not be written; they are rebuilt when they are needed.", false,
			func(s *node.ShardFigures) float64 { return float64(s.Store.SealErrors) }},
		{"mqd_segments_removed_total", counter, "Segments below the log start that have been removed.", false,
			func(s *node.ShardFigures) float64 { return float64(s.Store.RemovedSegments) }},
		{"mqd_compacted_segments_total", counter, "Segments that have been replaced by their compacted form.", false,
			func(s *node.ShardFigures) float64 { return float64(s.Store.CompactedSegments) }},
		{"mqd_compacted_records_total", counter, "Records that compaction has removed.", false,
			func(s *node.ShardFigures) float64 { return float64(s.Store.CompactedRecords) }},
		{"mqd_compacted_bytes_total", counter, "Bytes that compaction has made segments smaller by.", false,
			func(s *node.ShardFigures) float64 { return float64(s.Store.CompactedBytes) }},
		{"mqd_compaction_errors_total", counter, "Compactions of a partition that have failed; they are tried again.", false,
			func(s *node.ShardFigures) float64 { return float64(s.Store.CompactionErrors) }},
		{"mqd_cold_reads_total", counter, "Reads from segments instead of memory.", false,
			func(s *node.ShardFigures) float64 { return float64(s.Store.ColdReads) }},
		{"mqd_read_errors_total", counter, "Reads from segments that the device has refused.", false,
			func(s *node.ShardFigures) float64 { return float64(s.Store.ReadErrors) }},
		{"mqd_corrupt_reads_total", counter, "Reads that were answered with the next good offset, because what is stored there is damaged.", false,
			func(s *node.ShardFigures) float64 { return float64(s.Store.CorruptReads) }},
		{"mqd_segment_verifications_total", counter, "Segments read as a whole because a read has met damage.", false,
			func(s *node.ShardFigures) float64 { return float64(s.Store.Verifications) }},
		{"mqd_checkpoints_total", counter, "Checkpoints written.", false,
			func(s *node.ShardFigures) float64 { return float64(s.Store.Checkpoints) }},
		{"mqd_checkpoint_seconds", gauge, "How long the newest checkpoint took; 0 before the first one.", false,
			func(s *node.ShardFigures) float64 { return nanos(s.Store.CheckpointTook) }},
		{"mqd_checkpoint_age_seconds", gauge, "How long ago the newest checkpoint ended; 0 before the first one. An idle shard needs none.", false,
			func(s *node.ShardFigures) float64 {
				if s.Store.Checkpoints == 0 {
					return 0
				}
				return nanos(s.Now - s.Store.CheckpointEnded)
			}},
		{"mqd_disk_full", gauge, "1 while segments find no space, or the ballast is missing: producers are refused.", false,
			func(s *node.ShardFigures) float64 { return number(s.DiskFull) }},
	}
}

func ofMemory() []shardFamily {
	return []shardFamily{
		{"mqd_shard_memory_bytes", gauge, "Memory mapped for I/O, without receive buffers.", true,
			func(s *node.ShardFigures) float64 { return float64(s.Memory) }},
		{"mqd_cache_size_bytes", gauge, "Memory for the newest bytes of partitions.", false,
			func(s *node.ShardFigures) float64 { return float64(s.Usage.ChunkLimit) }},
		{"mqd_cache_used_bytes", gauge, "What of it is in use. Segments have most of that too, so that a full cache is no shortage.", false,
			func(s *node.ShardFigures) float64 { return float64(s.Usage.ChunkBytes) }},
		{"mqd_unjournaled_bytes", gauge, "Bytes of class memory that are acknowledged and not in the journal yet.", false,
			func(s *node.ShardFigures) float64 { return float64(s.Usage.MemoryBytes) }},
		{"mqd_pending_appends", gauge, "Batches that wait for their round.", false,
			func(s *node.ShardFigures) float64 { return float64(s.Usage.PendingAppends) }},
		{"mqd_dirty_partitions", gauge, "Partitions with bytes that only the journal has on the disk.", false,
			func(s *node.ShardFigures) float64 { return float64(s.Usage.DirtyPartitions) }},
		{"mqd_open_segments", gauge, "Segment files that are open.", false,
			func(s *node.ShardFigures) float64 { return float64(s.Usage.OpenFiles) }},
		{"mqd_pinned_pieces", gauge, "Pieces of the cache that answers keep.", false,
			func(s *node.ShardFigures) float64 { return float64(s.Usage.PinnedPieces) }},
		{"mqd_waiting_reads", gauge, "Fetches that wait for new messages.", false,
			func(s *node.ShardFigures) float64 { return float64(s.Usage.WaitingReads) }},
		{"mqd_receive_buffers", gauge, "Receive buffers, 64 KiB each.", true,
			func(s *node.ShardFigures) float64 { return float64(s.RecvBufs) }},
		{"mqd_receive_buffers_free", gauge, "Receive buffers that are home.", false,
			func(s *node.ShardFigures) float64 { return float64(s.FreeBufs) }},
		{"mqd_send_buffers_used", gauge, "Pieces of send memory in use.", false,
			func(s *node.ShardFigures) float64 { return float64(s.Outstanding.SendBuffers) }},
		{"mqd_frame_slabs_used", gauge, "Pieces of memory for whole frames in use.", false,
			func(s *node.ShardFigures) float64 { return float64(s.Outstanding.Slabs) }},
		{"mqd_spilled_bytes", gauge, "Answers that wait on Go's heap for send memory.", false,
			func(s *node.ShardFigures) float64 { return float64(s.Outstanding.Spilled) }},
	}
}

func ofBrokers() []shardFamily {
	return []shardFamily{
		{"mqd_shard_connections", gauge, "Connections of the shard, those that are coming to their end included.", false,
			func(s *node.ShardFigures) float64 { return float64(s.Outstanding.Conns) }},
		{"mqd_requests_inflight", gauge, "Requests of the batch protocol that are not answered, waiting fetches included.", false,
			func(s *node.ShardFigures) float64 { return float64(s.Requests) }},
		{"mqd_produces_inflight", gauge, "Produces, and changes to topics, that are not answered.", false,
			func(s *node.ShardFigures) float64 { return float64(s.InFlight) }},
		{"mqd_produce_batches_total", counter, "Batches acknowledged to clients of the shard. A change to a topic is one.", false,
			func(s *node.ShardFigures) float64 { return float64(s.Broker.Produced) }},
		{"mqd_produce_bytes_total", counter, "Their bytes.", false,
			func(s *node.ShardFigures) float64 { return float64(s.Broker.ProducedBytes) }},
		{"mqd_produce_refused_total", counter, "Batches of clients of the shard that were refused.", false,
			func(s *node.ShardFigures) float64 { return float64(s.Broker.Refused) }},
		{"mqd_produce_expired_total", counter, "Batches that waited too long for room.", false,
			func(s *node.ShardFigures) float64 { return float64(s.Broker.Expired) }},
		{"mqd_produce_room_waits_total", counter, "Batches that waited for room in journal or memory.", false,
			func(s *node.ShardFigures) float64 { return float64(s.Broker.RoomWaits) }},
		{"mqd_fetch_answers_total", counter, "Fetches answered with messages.", false,
			func(s *node.ShardFigures) float64 { return float64(s.Broker.Fetched) }},
		{"mqd_fetch_bytes_total", counter, "Bytes of those answers.", false,
			func(s *node.ShardFigures) float64 { return float64(s.Broker.FetchedBytes) }},
		{"mqd_fetch_memory_waits_total", counter, "Fetches that waited for memory which unread answers kept.", false,
			func(s *node.ShardFigures) float64 { return float64(s.Broker.PinWaits) }},
		{"mqd_fetch_crowd_waits_total", counter, "Times that a fetch of a client of the shard found no message, and no room to wait in, and was to be looked at again.", false,
			func(s *node.ShardFigures) float64 { return float64(s.Broker.CrowdWaits) }},
		{"mqd_shard_message_waits_total", counter, "Messages to other shards that waited for a place in the ring.", false,
			func(s *node.ShardFigures) float64 { return float64(s.Broker.CreditWaits) }},
	}
}

// pools are the kinds of memory that a shard has from its start and gives out again and
// again: how much of it is away, and how often some was taken and was not there.
var pools = []struct {
	name          string
	away          func(s *node.ShardFigures) int
	taken, missed func(s *node.ShardFigures) uint64 // nil: not counted
}{
	{"receive", func(s *node.ShardFigures) int { return s.RecvBufs - s.FreeBufs },
		func(s *node.ShardFigures) uint64 { return s.Conn.Get(conn.Receives) }, func(s *node.ShardFigures) uint64 { return s.Conn.Get(conn.Starvations) }},
	{"frame", func(s *node.ShardFigures) int { return s.Outstanding.Slabs },
		func(s *node.ShardFigures) uint64 { return s.Conn.Get(conn.FramesAssembled) }, func(s *node.ShardFigures) uint64 { return s.Conn.Get(conn.FrameWaits) }},
	{"send", func(s *node.ShardFigures) int { return s.Outstanding.SendBuffers }, nil, nil},
	{"cache", func(s *node.ShardFigures) int { return s.Usage.PinnedPieces }, nil, nil},
}

// ofPools are the metrics of pools.
func ofPools() []family {
	return []family{
		{name: "mqd_buffers_away", kind: gauge, labels: []string{"shard", "pool"},
			help: "Buffers that are not home: receive buffers, memory for whole frames, send memory, and pieces of the cache that answers keep. Without connections all are home.",
			collect: func(v *view, sample func(float64, ...string)) {
				for s := range v.shards() {
					for _, p := range pools {
						if s.Answered {
							sample(float64(p.away(s)), strconv.Itoa(s.Shard), p.name)
						}
					}
				}
			}},
		{name: "mqd_pool_reuse_ratio", kind: gauge, labels: []string{"shard", "pool"},
			help: "Share of the wishes for a buffer since the start that found one at home at once; the others waited. 1 before the first.",
			collect: func(v *view, sample func(float64, ...string)) {
				for s := range v.shards() {
					for _, p := range pools {
						if p.taken != nil {
							sample(reuse(p.taken(s), p.missed(s)), strconv.Itoa(s.Shard), p.name)
						}
					}
				}
			}},
	}
}

// reuse is the share of what was there at once.
func reuse(taken, missed uint64) float64 {
	if taken+missed == 0 {
		return 1
	}
	return float64(taken) / float64(taken+missed)
}

// ofLabelledShards are the metrics with more than one sample for each shard.
func ofLabelledShards() []family {
	return []family{
		{name: "mqd_append_refused_total", kind: counter, labels: []string{"shard", "cause"},
			help: "Attempts to append that found no room, by what was short; most wait and are tried again.",
			collect: func(v *view, sample func(float64, ...string)) {
				for s := range v.shards() {
					if !s.Answered {
						continue
					}
					st := &s.Store
					for _, c := range []struct {
						cause string
						n     uint64
					}{
						{"memory", st.BusyMemory}, {"journal", st.BusyJournal}, {"pending", st.BusyPending},
						{"reservation", st.BusyReservation}, {"slowed", st.BusySlow}, {"disk", st.BusyDisk},
					} {
						sample(float64(c.n), strconv.Itoa(s.Shard), c.cause)
					}
				}
			}},
		{name: "mqd_connections_closed_total", kind: counter, labels: []string{"shard", "reason"},
			help: "Connections that ended, by the reason.",
			collect: func(v *view, sample func(float64, ...string)) {
				for s := range v.shards() {
					for r := conn.ReasonPeer; r <= conn.ReasonMoved; r++ {
						sample(float64(s.Conn.ClosedFor(r)), strconv.Itoa(s.Shard), r.String())
					}
				}
			}},
	}
}

// ShardMetrics are what a shard tells, under the names of the metrics.
type ShardMetrics struct {
	Shard int `json:"shard"`
	// Answered says that the shard has answered in time; most metrics are missing
	// without.
	Answered bool `json:"answered"`
	// LogError is why its log has failed, empty while it has not.
	LogError string             `json:"log_error"`
	Metrics  map[string]float64 `json:"metrics"`
}

// shards serves what each shard tells.
func (s *Server) shards(w http.ResponseWriter, r *http.Request) {
	all := []ShardMetrics{}
	if c := s.opts.Service.Condition(); c.Node != nil {
		for _, sh := range c.Node.Figures(r.Context()).Shards {
			one := ShardMetrics{Shard: sh.Shard, Answered: sh.Answered, Metrics: map[string]float64{}}
			if sh.LogErr != nil {
				one.LogError = oneLine(sh.LogErr)
			}
			for _, f := range ofShards() {
				if f.always || sh.Answered {
					one.Metrics[f.name] = f.get(&sh)
				}
			}
			all = append(all, one)
		}
	}
	writeJSON(w, all)
}
