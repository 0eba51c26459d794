package bench

import "github.com/mqd-broker/mqd/bench/figure"

// What results are made of; see package figure.
type (
	// Latency is a histogram of times.
	Latency = figure.Latency
	// Summary is what a table shows of one.
	Summary = figure.Summary
	// Series is the course of a measurement, Point an interval of it.
	Series = figure.Series
	Point  = figure.Point
	// Sample is what broker and client took in an interval, StageTimes are those of a
	// stage of the broker.
	Sample     = figure.Sample
	StageTimes = figure.StageTimes
)

// NewLatency returns an empty histogram.
func NewLatency() *Latency { return figure.NewLatency() }

// Micros writes nanoseconds as microseconds with three or more digits.
func Micros(ns int64) string { return figure.Micros(ns) }
