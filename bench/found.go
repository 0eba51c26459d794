package bench

import (
	"time"

	"github.com/mqd-broker/mqd/bench/figure"
	"github.com/mqd-broker/mqd/bench/ledger"
)

// Found is what a part of a run has found. It goes from one machine to another as JSON.
type Found struct {
	Ack      *Latency `json:"ack"`
	Service  *Latency `json:"service"`
	Lag      *Latency `json:"lag"`
	Late     *Latency `json:"late"`
	EndToEnd *Latency `json:"end_to_end"`
	// EndToEndService is as a Result has it.
	EndToEndService *Latency `json:"end_to_end_service"`
	Series          *Series  `json:"series"`
	// AckedIn counts messages acknowledged while measuring; Took is until the last of them.
	AckedIn    int64           `json:"acked_in"`
	Took       time.Duration   `json:"took_ns"`
	AfterBurst []int64         `json:"after_burst_ns,omitempty"`
	CPU        Share           `json:"cpu"`
	Refused    int64           `json:"refused"`
	Refusal    string          `json:"refusal,omitempty"`
	Lanes      []LaneFound     `json:"lanes,omitempty"`
	Reads      []PartitionRead `json:"reads,omitempty"`
	// Drains are what the consumer has read that pauses.
	Drains []PartitionRead `json:"drains,omitempty"`
}

// LaneFound is a lane of a part's producers: of connection Number / partitions to
// partition Number % partitions.
type LaneFound struct {
	Number int `json:"number"`
	ledger.Lane
}

// PartitionRead is a partition that a part has read.
type PartitionRead struct {
	Partition int32 `json:"partition"`
	Offset    int64 `json:"offset"` // behind the last message
	Seen      int64 `json:"seen"`   // each once
	Wrong     int64 `json:"wrong"`  // corrupted
	// Trackers are by connection, without those that have seen nothing at the end.
	Trackers []ledger.Tracker `json:"trackers"`
}

func newFound(load Load) *Found {
	return &Found{Ack: NewLatency(), Service: NewLatency(), Lag: NewLatency(), Late: NewLatency(), EndToEnd: NewLatency(), EndToEndService: NewLatency(), Series: figure.NewSeries(load.Duration)}
}

// Whole reports whether nothing is missing, as it may in what another process has sent.
func (f *Found) Whole() bool {
	return f.Ack != nil && f.Service != nil && f.Lag != nil && f.Late != nil && f.EndToEnd != nil && f.EndToEndService != nil && f.Series != nil
}

// collect puts together what the workers of this process have found.
func (r *run) collect(workers []*worker) *Found {
	f := newFound(r.load)
	last := r.from
	for _, w := range workers {
		f.Ack.Merge(w.ack)
		f.Service.Merge(w.service)
		f.Lag.Merge(w.lag)
		f.Late.Merge(w.late)
		f.EndToEnd.Merge(w.endToEnd)
		f.EndToEndService.Merge(w.endToEndService)
		f.Series.Merge(w.series)
		f.AfterBurst = largest(f.AfterBurst, w.overs)
		if w.cpu.Waited >= f.CPU.Waited {
			f.CPU = w.cpu
		}
		f.AckedIn += w.ackedIn
		last = max(last, w.lastAck)
		f.Refused += w.refusals
		if f.Refusal == "" {
			f.Refusal = w.refusal
		}
		if w.reader == nil {
			continue
		}
		for _, pr := range w.reader.parts {
			read := PartitionRead{Partition: pr.partition, Offset: pr.offset, Seen: pr.seen, Wrong: pr.wrong, Trackers: pr.trackers}
			if w.drain {
				f.Drains = append(f.Drains, read)
			} else {
				f.Reads = append(f.Reads, read)
			}
		}
	}
	f.Took = time.Duration(last - r.from)
	for _, conn := range r.part.Produce.pick(r.load.Connections) {
		for p := range r.load.Partitions {
			if n := conn*r.load.Partitions + p; n < len(r.lanes) && r.lanes[n].Lane.Sent > 0 {
				f.Lanes = append(f.Lanes, LaneFound{n, r.lanes[n].Lane})
			}
		}
	}
	return f
}

// assemble puts together what the parts of a run have found; ends are those of the
// partitions, nil if nothing was read.
func assemble(load Load, ends []int64, found []*Found) *Result {
	res := &Result{
		Load: load, Class: load.Class.String(), Codec: load.Codec.String(), Title: load.Title(),
		ack: NewLatency(), service: NewLatency(), lag: NewLatency(), late: NewLatency(), endToEnd: NewLatency(), endToEndService: NewLatency(),
		Series: figure.NewSeries(load.Duration),
	}
	var acked int64
	took := load.Duration
	if load.Messages > 0 {
		took = 1
	}
	lanes := make([]ledger.Lane, load.Connections*load.Partitions)
	for _, f := range found {
		res.ack.Merge(f.Ack)
		res.service.Merge(f.Service)
		res.lag.Merge(f.Lag)
		res.late.Merge(f.Late)
		res.endToEnd.Merge(f.EndToEnd)
		res.endToEndService.Merge(f.EndToEndService)
		res.Series.Merge(f.Series)
		res.AfterBurst = largest(res.AfterBurst, f.AfterBurst)
		if f.CPU.Waited >= res.CPU.Waited {
			res.CPU = f.CPU
		}
		acked += f.AckedIn
		if load.Messages > 0 {
			took = max(took, f.Took)
		}
		res.Faults.Refused += f.Refused
		if res.Reason == "" && f.Refusal != "" {
			res.Reason = "first refusal: " + f.Refusal
		}
		for _, ln := range f.Lanes {
			if ln.Number >= 0 && ln.Number < len(lanes) {
				lanes[ln.Number] = ln.Lane
			}
			res.Sent += int64(ln.Sent)
			res.Acked += ln.Acked
		}
	}
	mean := 0.0
	if sizes, err := load.sizes(0); err == nil {
		mean = sizes.Mean()
	}
	res.Rate = float64(acked) / took.Seconds()
	res.Bytes = res.Rate * mean
	if ends != nil {
		res.verify(lanes, ends, found)
	}
	res.Pause = figure.PauseOf(res.Series, load.Pause)
	res.FrameBytes = load.frameBytes()
	res.summarize()
	return res
}

// verify compares what was read with what was sent.
func (res *Result) verify(lanes []ledger.Lane, ends []int64, found []*Found) {
	read := make([]bool, len(ends))
	for _, f := range found {
		for i := range f.Reads {
			pr := &f.Reads[i]
			if pr.Partition < 0 || int(pr.Partition) >= len(ends) {
				continue
			}
			read[pr.Partition] = true
			res.Read += pr.Seen
			res.Faults.Corrupted += pr.Wrong
			// What came behind the last message that was waited for: all messages
			// are accounted for already, unless some were refused.
			if beyond := ends[pr.Partition] - pr.Offset; beyond > 0 && res.Faults.Refused == 0 {
				res.Faults.Duplicated += beyond
			}
			res.compare(lanes, pr.Partition, pr.Trackers)
		}
	}
	for _, f := range found {
		for i := range f.Drains {
			if pr := &f.Drains[i]; pr.Partition >= 0 && int(pr.Partition) < len(ends) {
				res.Faults.Corrupted += pr.Wrong
				res.compare(lanes, pr.Partition, pr.Trackers)
			}
		}
	}
	// A partition that nobody has read has lost what is in it.
	for p, seen := range read {
		if !seen {
			res.compare(lanes, int32(p), nil)
		}
	}
}

// compare adds the faults of a partition's lanes.
func (res *Result) compare(lanes []ledger.Lane, partition int32, trackers []ledger.Tracker) {
	for conn := range res.Load.Connections {
		var seen ledger.Tracker
		if conn < len(trackers) {
			seen = trackers[conn]
		}
		res.Faults.Add(seen.Compare(&lanes[conn*res.Load.Partitions+int(partition)]))
	}
}
