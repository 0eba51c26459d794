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
