package bench

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mqd-broker/mqd/bench/figure"
	"github.com/mqd-broker/mqd/bench/ledger"
)

// Verdict says whether a result is to be believed.
type Verdict string

const (
	// Valid results count.
	Valid Verdict = "OK"
	// Invalid results tell more of the client than of the broker.
	Invalid Verdict = "INVALID: client-bound"
	// Failed results have messages that did not come back as they went out.
	Failed Verdict = "FAILED"
)

// lagShare: a run is invalid when its client comes later to messages than one part
// in this many of their latency, both at the 99th percentile.
const lagShare = 10

// crowded is the share of time without a CPU from which it is worth saying.
const crowded = 0.02

// Result is what one measurement found.
type Result struct {
	Load  Load   `json:"load"`
	Class string `json:"class"`
	// Codec is the compression of frames.
	Codec string `json:"codec"`
	Title string `json:"title"`
	// Ack is from the intended time (closed loop: the send) to the
	// acknowledgement. Service is from the send; EndToEnd from the intended time to
	// the consumer. Of an open loop, Lag is from the intended time to the send, and
	// Late the part of it that is the client's: until it had the message ready, or
	// found that the broker takes no more. EndToEndService is EndToEnd less by how much
	// the client came late to the message: until it began to make it.
	Ack             Summary `json:"ack"`
	Service         Summary `json:"service"`
	Lag             Summary `json:"send_lag,omitzero"`
	Late            Summary `json:"client_late,omitzero"`
	EndToEnd        Summary `json:"end_to_end,omitzero"`
	EndToEndService Summary `json:"end_to_end_service,omitzero"`
	// ClockError is by how many nanoseconds the times of EndToEnd may be wrong, either way,
	// because the clocks of two machines are compared; 0 on one machine.
	ClockError int64 `json:"clock_error_ns,omitempty"`
	// CPU is that of the client's thread that waited most for one.
	CPU Share `json:"client_cpu"`
	// Series is the course of the measurement, without warm-up.
	Series *Series `json:"series"`
	// Rate is acknowledged messages a second, Bytes their bytes a second.
	Rate  float64 `json:"messages_per_second"`
	Bytes float64 `json:"bytes_per_second"`
	// BrokerCPU is the CPU time that the broker has used, in nanoseconds for each
	// message sent, warm-up and reading included; 0 where that is not known.
	BrokerCPU float64 `json:"broker_cpu_ns_per_message,omitempty"`
	// AfterBurst says for each burst how long after its end its last message was
	// acknowledged, in nanoseconds; 0 if it was all before, and in the warm-up.
	AfterBurst []int64 `json:"after_burst_ns,omitempty"`
	// Pause is what became of the consumer that paused, of the first repetition.
	Pause *figure.Pause `json:"pause,omitempty"`
	// FrameBytes bounds the frames that were sent, in bytes.
	FrameBytes int `json:"frame_bytes"`
	// Samples are the course of broker and client, of the first repetition, and Stages
	// where the time went in the broker.
	Samples []Sample     `json:"samples,omitempty"`
	Stages  []StageTimes `json:"stages,omitempty"`
	// Sent, Acked and Read count all messages of the run, warm-up included.
	Sent    int64         `json:"sent"`
	Acked   int64         `json:"acked"`
	Read    int64         `json:"read"`
	Faults  ledger.Faults `json:"faults"`
	Verdict Verdict       `json:"verdict"`
	// Reason is more on a verdict that is not OK.
	Reason string `json:"reason,omitempty"`

	ack, service, lag, late   *Latency
	endToEnd, endToEndService *Latency
}

// largest is element by element the larger of two lists.
func largest(a, b []int64) []int64 {
	all := make([]int64, max(len(a), len(b)))
	for _, list := range [][]int64{a, b} {
		for i, v := range list {
			all[i] = max(all[i], v)
		}
	}
	return all
}

// summarize computes summaries and verdict from histograms and faults.
func (res *Result) summarize() {
	res.Ack, res.Service = res.ack.Summary(), res.service.Summary()
	if res.lag.Count() > 0 {
		res.Lag, res.Late = res.lag.Summary(), res.late.Summary()
	}
	res.Series.Summarize()
	if res.endToEnd.Count() > 0 {
		res.EndToEnd, res.EndToEndService = res.endToEnd.Summary(), res.endToEndService.Summary()
	}
	res.Verdict = verdict(res.Faults, res.Ack, res.Late)
	switch res.Verdict {
	case Valid:
		res.Reason = "" // of a repetition that alone would not count
	case Invalid:
		res.Reason = fmt.Sprintf("the client comes late to messages by %s, their latency is %s, both p99", Micros(res.Late.P99), Micros(res.Ack.P99))
		if res.CPU.Waited > crowded {
			res.Reason += fmt.Sprintf("; %.0f %% of the time its thread waited for a CPU that something else had", 100*res.CPU.Waited)
		}
	}
	if res.Verdict == Valid && res.Ack.Count == 0 {
		res.Verdict, res.Reason = Invalid, "nothing was acknowledged after the warm-up"
	}
}

// verdict judges a run.
func verdict(f ledger.Faults, ack, late Summary) Verdict {
	switch {
	case f.Any():
		return Failed
	case late.P99*lagShare > ack.P99:
		return Invalid
	default:
		return Valid
	}
}

// Err is ErrFailed for a failed result, else nil.
func (res *Result) Err() error {
	if res.Verdict != Failed {
		return nil
	}
	return fmt.Errorf("%w: %s: %s", ErrFailed, res.Faults, res.Reason)
}

// merge adds another repetition of the same load.
func (res *Result) merge(o *Result) {
	res.ack.Merge(o.ack)
	res.service.Merge(o.service)
	res.lag.Merge(o.lag)
	res.late.Merge(o.late)
	res.Series.Merge(o.Series)
	if o.CPU.Waited > res.CPU.Waited {
		res.CPU = o.CPU
	}
	res.endToEnd.Merge(o.endToEnd)
	res.endToEndService.Merge(o.endToEndService)
	res.AfterBurst = append(res.AfterBurst, o.AfterBurst...)
	res.ClockError = max(res.ClockError, o.ClockError)
	res.Rate += o.Rate
	res.Bytes += o.Bytes
	res.BrokerCPU += o.BrokerCPU
	res.Sent += o.Sent
	res.Acked += o.Acked
	res.Read += o.Read
	res.Faults.Add(o.Faults)
	if res.Verdict == Invalid { // judged anew, of all repetitions
		res.Reason = ""
	}
	if res.Reason == "" && o.Verdict != Invalid {
		res.Reason = o.Reason
	}
}

// Text is the result for people, several lines.
func (res *Result) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", res.Title)
	fmt.Fprintf(&b, "  %-11s %s  n %d\n", "ack", res.Ack, res.Ack.Count)
	if res.Load.Open() {
		fmt.Fprintf(&b, "  %-11s %s\n  %-11s %s\n  %-11s %s\n", "service", res.Service, "send lag", res.Lag, "client late", res.Late)
	}
	if res.EndToEnd.Count > 0 {
		fmt.Fprintf(&b, "  %-11s %s\n", "end to end", res.EndToEnd)
	}
	if res.ClockError > 0 {
		fmt.Fprintf(&b, "  %-11s between machines: end to end may be wrong by %s either way\n", "clocks", Micros(res.ClockError))
	}
	if len(res.AfterBurst) > 0 {
		fmt.Fprintf(&b, "  %-11s the last answer at most %s after a burst's end\n", "burst", Micros(slices.Max(res.AfterBurst)))
	}
	if res.Pause != nil {
		fmt.Fprintf(&b, "  %-11s %s\n", "pause", res.Pause)
	}
	for _, st := range res.Stages {
		fmt.Fprintf(&b, "  %-11s %-10s mean %s  p50 %s  p99 %s  n %d\n", "stage", st.Name, Micros(st.Mean), Micros(st.P50), Micros(st.P99), st.Count)
	}
	fmt.Fprintf(&b, "  %-11s %.0f messages/s  %.1f MB/s\n", "rate", res.Rate, res.Bytes/1e6)
	if res.BrokerCPU > 0 {
		fmt.Fprintf(&b, "  %-11s the broker used %.2f µs for each message\n", "cpu", res.BrokerCPU/1e3)
	}
	fmt.Fprintf(&b, "  %-11s the client's thread ran %.0f %% of the time and waited %.0f %% for a CPU\n", "cpu", 100*res.CPU.Run, 100*res.CPU.Waited)
	fmt.Fprintf(&b, "  %-11s %d sent, %d acknowledged, %d read: %s\n", "messages", res.Sent, res.Acked, res.Read, res.Faults)
	fmt.Fprintf(&b, "  %s", res.Verdict)
	if res.Reason != "" {
		fmt.Fprintf(&b, ": %s", res.Reason)
	}
	return b.String() + "\n"
}
