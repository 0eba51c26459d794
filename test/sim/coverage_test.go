package sim

import (
	"fmt"
	"sort"
	"strings"
)

// state names something that a run has come through.
type state string

// The states that every table of runs has to have reached.
const (
	sawKill            state = "process killed"
	sawCut             state = "power cut"
	sawStop            state = "stopped in order"
	sawCutAfterStop    state = "power cut after an orderly stop"
	sawStopFull        state = "stopped with a full disk"
	sawKillThenCut     state = "killed, and the power cut during the next start"
	sawStartCut        state = "start cut off"
	sawMoreShards      state = "started with more shards"
	sawFewerShards     state = "started with fewer shards"
	sawTorn            state = "torn newest round"
	sawReplay          state = "batches replayed to segments"
	sawSkipped         state = "batches in the journal that the segments have"
	sawGap             state = "gap created"
	sawWrap            state = "ring wrapped"
	sawRingFull        state = "ring full"
	sawMemoryFull      state = "cache full"
	sawSlowed          state = "producers slowed down"
	sawCheckpoint      state = "checkpoint"
	sawTail            state = "tail entry before a rewrite"
	sawSeal            state = "segment rolled and sealed"
	sawColdRead        state = "read from a segment"
	sawScrub           state = "segment scrubbed"
	sawRepeated        state = "batch of an idempotent producer known when it came again"
	sawWriteFlush      state = "round made durable by a flush"
	sawDSYNC           state = "round made durable by its write"
	sawMark            state = "proof of the newest round after silence"
	sawCreate          state = "topic created"
	sawDelete          state = "topic deleted"
	sawGrow            state = "topic got more partitions"
	sawStronger        state = "class made stronger"
	sawWeaker          state = "class made weaker"
	sawBrokenLink      state = "connection broken by the client"
	sawReset           state = "connection broken by the network"
	sawStorageError    state = "storage error answered"
	sawBackpressure    state = "backpressure answered"
	sawShuttingDown    state = "request during a stop"
	sawFlushFailed     state = "flush failed"
	sawJournalFailed   state = "journal write failed"
	sawFlushFailed2    state = "flush failed with two journals"
	sawReadFailed      state = "read failed"
	sawSegmentFailed   state = "segment write failed"
	sawShortWrite      state = "short write"
	sawNoSpace         state = "disk full"
	sawTaken           state = "messages taken by an end of a life"
	sawCommit          state = "group committed"
	sawBackwards       state = "commit of a group that would have gone back refused"
	sawRaised          state = "commit of a group raised to the log start"
	sawClockJump       state = "clock jumped"
	sawClockBack       state = "clock set back by an hour"
	sawClockAhead      state = "clock set ahead by ten years"
	sawAged            state = "log start moved past what was old"
	sawAgedAfterJump   state = "the same behind a jump of the clock"
	sawOutgrown        state = "log start moved past what was too much"
	sawTrim            state = "records deleted"
	sawShorterLife     state = "retention changed at run time"
	sawExpired         state = "last records waited for until they were too old"
	sawBelowStart      state = "fetch below the log start"
	sawTrimmedRead     state = "log cut off in front of who reads it"
	sawReadOnly        state = "filesystem read-only until the next restart"
	sawCompacted       state = "segment compacted"
	sawSuperseded      state = "superseded messages found to have gone"
	sawTombstone       state = "deletion found to have gone with all that it deleted"
	sawCompactOn       state = "compaction turned on"
	sawCompactOff      state = "compaction turned off"
	sawCompactFailed   state = "compaction failed"
	sawCompactFault    state = "write, flush or renaming of a compacted log failed"
	sawCrashCompacting state = "ended by force while a segment was being compacted"
	sawCrashReplacing  state = "ended by force while a log took the place of another"
	sawKafkaProduce    state = "batch of a Kafka client acknowledged"
	sawKafkaNoAcks     state = "batch of a Kafka client sent without acknowledgement"
	sawKafkaIdempotent state = "batch of an idempotent Kafka client acknowledged"
	sawKafkaFetch      state = "batch fetched by a Kafka client"
	sawKafkaBelowStart state = "fetch of a Kafka client below the log start"
	sawKafkaRound      state = "Kafka clients told what to read"
	sawKafkaCommit     state = "commit of a Kafka client acknowledged"
	sawKafkaFenced     state = "commit of a Kafka client refused"
	sawKafkaStale      state = "Kafka client with an older generation refused"
	sawRot             state = "byte damaged"
	sawRotTold         state = "damage told of"
	sawRotRefused      state = "start refused because of damage"
)

var states = []state{
	sawKill, sawCut, sawStop, sawStopFull, sawCutAfterStop, sawKillThenCut, sawStartCut, sawMoreShards, sawFewerShards,
	sawTorn, sawReplay, sawSkipped, sawGap, sawWrap, sawRingFull, sawMemoryFull, sawSlowed, sawCheckpoint, sawTail,
	sawSeal, sawColdRead, sawScrub, sawRepeated, sawWriteFlush, sawDSYNC, sawMark, sawCreate, sawDelete, sawGrow, sawStronger, sawWeaker,
	sawBrokenLink, sawReset, sawStorageError, sawBackpressure, sawShuttingDown, sawFlushFailed, sawJournalFailed,
	sawFlushFailed2, sawReadFailed, sawSegmentFailed, sawShortWrite, sawNoSpace, sawTaken, sawCommit, sawBackwards, sawRaised, sawClockJump,
	sawClockBack, sawClockAhead, sawAged, sawAgedAfterJump, sawOutgrown, sawTrim, sawShorterLife, sawExpired, sawBelowStart, sawTrimmedRead, sawReadOnly, sawCompacted,
	sawSuperseded, sawTombstone, sawCompactOn, sawCompactOff, sawCompactFailed, sawCompactFault, sawCrashCompacting, sawCrashReplacing,
	sawKafkaProduce, sawKafkaNoAcks, sawKafkaIdempotent, sawKafkaFetch, sawKafkaBelowStart, sawKafkaRound, sawKafkaCommit, sawKafkaFenced, sawKafkaStale, sawRot, sawRotTold, sawRotRefused,
}

// table counts runs by the states that they reached, and operations by kind.
type table struct {
	runs   map[state]int
	ops    map[opKind]int
	acked  int
	lives  int
	starts int
	faults int
	seeds  int
}

func newTable() *table { return &table{runs: map[state]int{}, ops: map[opKind]int{}} }

// add adds a run.
func (t *table) add(r *run) {
	t.seeds++
	for s := range r.seen {
		t.runs[s]++
	}
	for k, n := range r.ops {
		t.ops[k] += n
	}
	t.acked += r.acked
	t.lives += r.lives
	t.starts += r.starts
	t.faults += r.faults
}

// missing are the states that no run has reached.
func (t *table) missing() (list []string) {
	for _, s := range states {
		if t.runs[s] == 0 {
			list = append(list, string(s))
		}
	}
	return list
}

func (t *table) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d seeds, %d lives, %d starts, %d operations (%d produces, %d fetches, %d others), %d messages acknowledged, %d faults\n",
		t.seeds, t.lives, t.starts, t.ops[opProduce]+t.ops[opFetch]+t.ops[opAdmin], t.ops[opProduce], t.ops[opFetch], t.ops[opAdmin],
		t.acked, t.faults)
	list := append([]state(nil), states...)
	sort.SliceStable(list, func(i, j int) bool { return t.runs[list[i]] > t.runs[list[j]] })
	for _, s := range list {
		fmt.Fprintf(&b, "  %6d  %s\n", t.runs[s], s)
	}
	return b.String()
}
