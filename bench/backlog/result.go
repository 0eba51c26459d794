package backlog

import (
	"fmt"
	"slices"
)

// Round is the backlog read once, beside the bare connection.
type Round struct {
	Seconds        float64 `json:"seconds"`
	PerSecond      float64 `json:"messages_per_second"`
	Bytes          int64   `json:"bytes"`   // of batches
	Answers        int64   `json:"answers"` // to fetches
	BytesPerSecond float64 `json:"bytes_per_second"`
	Raw            float64 `json:"loopback_bytes_per_second"`
	ClientCPU      float64 `json:"client_cpu_seconds_per_message"`
	BrokerCPU      float64 `json:"broker_cpu_seconds_per_message"` // 0: not known
	Wrong          int64   `json:"wrong"`                          // messages out of place
}

// String is a line of a table.
func (r Round) String() string {
	return fmt.Sprintf("%9.2f %9.0f %9.0f %12.2f %9.0f %11.0f %11.0f %7d",
		r.PerSecond/1e6, r.BytesPerSecond/1e6, r.Raw/1e6, r.BytesPerSecond/r.Raw, float64(r.Bytes)/float64(max(1, r.Answers))/1024,
		r.ClientCPU*1e9, r.BrokerCPU*1e9, r.Wrong)
}

// Header stands above the lines.
func Header() string {
	return fmt.Sprintf("%9s %9s %9s %12s %9s %11s %11s %7s\n%9s %9s %9s %12s %9s %11s %11s %7s",
		"read", "read", "loopback", "read to", "an answer", "client", "broker", "wrong",
		"million/s", "MB/s", "MB/s", "loopback", "KiB", "ns/message", "ns/message", "")
}

// Result is what [Run] has measured.
type Result struct {
	Messages   int     `json:"messages"`
	Size       int     `json:"message_bytes"`
	Batch      float64 `json:"messages_per_batch"`
	Partitions int     `json:"partitions"`
	Class      string  `json:"class"`
	Produced   float64 `json:"produced_per_second"`
	Rounds     []Round `json:"rounds"`

	// Medians over the rounds; the ratio is that of the bytes read to those of the bare
	// connection, in each round.
	PerSecond float64 `json:"median_messages_per_second"`
	Raw       float64 `json:"median_loopback_bytes_per_second"`
	Ratio     float64 `json:"median_ratio"`
}

func (r *Result) sum() {
	r.PerSecond = median(r.Rounds, func(x Round) float64 { return x.PerSecond })
	r.Raw = median(r.Rounds, func(x Round) float64 { return x.Raw })
	r.Ratio = median(r.Rounds, func(x Round) float64 { return x.BytesPerSecond / x.Raw })
}

func median(rounds []Round, of func(Round) float64) float64 {
	v := make([]float64, len(rounds))
	for i, r := range rounds {
		v[i] = of(r)
	}
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// String is a line of figures.
func (r *Result) String() string {
	return fmt.Sprintf("%d messages of %d bytes, %.1f in a batch, %d partitions, %s: read back at %.2f million/s, %.2f of the bare loopback connection's %.0f MB/s (medians of %d)",
		r.Messages, r.Size, r.Batch, r.Partitions, r.Class, r.PerSecond/1e6, r.Ratio, r.Raw/1e6, len(r.Rounds))
}

// Err is [ErrWrong] when messages did not come back as they had gone out.
func (r *Result) Err() error {
	wrong := int64(0)
	for _, x := range r.Rounds {
		wrong += x.Wrong
	}
	if wrong == 0 {
		return nil
	}
	return fmt.Errorf("%w: %d of %d", ErrWrong, wrong, r.Messages*len(r.Rounds))
}
