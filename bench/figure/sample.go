package figure

import "time"

// Sample is what broker and client took in an interval of a run, warm-up included. What is
// not known is 0.
type Sample struct {
	// At is when the interval ended, after the run's begin, and Length how long it was.
	At     time.Duration `json:"at_ns"`
	Length time.Duration `json:"length_ns"`
	// Client and Broker are the CPUs that the two processes used: 1 is one CPU all the time.
	Client float64 `json:"client_cpus"`
	Broker float64 `json:"broker_cpus"`
	// Collections are those of the broker's garbage collector, Heap its heap at the end.
	Collections int64 `json:"broker_collections"`
	Heap        int64 `json:"broker_heap_bytes"`
	// Stages are the mean times in the broker's stages, in nanoseconds, of those with
	// samples.
	Stages map[string]int64 `json:"stage_mean_ns,omitempty"`
}

// StageTimes are the times in a stage of the broker, over a whole run, in nanoseconds.
type StageTimes struct {
	Name  string `json:"name"`
	Count int64  `json:"count"`
	Mean  int64  `json:"mean_ns"`
	P50   int64  `json:"p50_ns"`
	P99   int64  `json:"p99_ns"`
}
