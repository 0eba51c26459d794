package scrub

import "sync/atomic"

// Stats are a scrubber's counters. The loop alone writes them; anyone may read.
type Stats struct {
	// Passes counts how often everything has been read.
	Passes atomic.Uint64
	// Segments and Batches count what has been verified, Bytes what has been read for it.
	Segments, Batches, Bytes atomic.Uint64
	// Damaged counts the places found that cannot be read, each one once in a life.
	Damaged atomic.Uint64
	// Indexes counts those that were of no use and have been made again.
	Indexes atomic.Uint64
	// Changed counts segments that were passed over because they changed or went away
	// while they were read, Errors those that could not be read.
	Changed, Errors atomic.Uint64
	// Yields counts how often a piece has waited because the shard was busy.
	Yields atomic.Uint64
}

// Counter is a counter as it is told to others.
type Counter struct {
	Name string // without the prefix of the program
	Help string // a phrase
	Of   func(s *Stats) *atomic.Uint64
}

// CounterTable has all counters that are told, in their order.
var CounterTable = []Counter{
	{"scrub_passes_total", "readings of all full segments of a shard to find what has rotted", func(s *Stats) *atomic.Uint64 { return &s.Passes }},
	{"scrub_segments_total", "segments verified by scrubbing", func(s *Stats) *atomic.Uint64 { return &s.Segments }},
	{"scrub_batches_total", "whole batches verified by scrubbing", func(s *Stats) *atomic.Uint64 { return &s.Batches }},
	{"scrub_bytes_total", "bytes of segments read by scrubbing", func(s *Stats) *atomic.Uint64 { return &s.Bytes }},
	{"scrub_damaged_total", "places found by scrubbing that cannot be read, each one once since the start", func(s *Stats) *atomic.Uint64 { return &s.Damaged }},
	{"scrub_indexes_total", "indexes found to be of no use by scrubbing, and made again", func(s *Stats) *atomic.Uint64 { return &s.Indexes }},
	{"scrub_changed_total", "segments passed over by scrubbing because they changed or went away", func(s *Stats) *atomic.Uint64 { return &s.Changed }},
	{"scrub_errors_total", "segments that scrubbing could not read", func(s *Stats) *atomic.Uint64 { return &s.Errors }},
	{"scrub_yields_total", "times that scrubbing has waited because the shard was busy", func(s *Stats) *atomic.Uint64 { return &s.Yields }},
}
