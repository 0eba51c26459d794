// Package tally has the figures that a store tells of itself.
package tally

// Stats are a store's counters, written by the loop alone.
type Stats struct {
	AppendedBatches, AppendedBytes uint64
	BusyMemory, BusyJournal        uint64
	BusyPending, BusyReservation   uint64
	BusySlow, BusyDisk             uint64
	TailEntries, SegmentBytes      uint64
	SegmentWrites, SegmentFlushes  uint64
	ColdReads, CorruptReads        uint64
	ReadErrors, WriteErrors        uint64
	FlushErrors                    uint64 // beside the journal's
	SealedSegments, SealErrors     uint64
	IndexErrors, Verifications     uint64
	Checkpoints, RemovedSegments   uint64
	Duplicates, RefusedSequences   uint64 // of idempotent producers

	CompactedSegments, CompactedRecords uint64 // replaced; that have gone
	CompactedBytes, CompactionErrors    uint64 // that have gone

	// Of the newest checkpoint, by the loop's clock in nanoseconds: when it began, which
	// may not have ended, and of the newest that has ended, when and how long it took.
	CheckpointBegan, CheckpointEnded, CheckpointTook int64
}

// Checkpointed counts a checkpoint that has ended at a time of the loop's clock.
func (s *Stats) Checkpointed(now int64) {
	s.Checkpoints++
	s.CheckpointEnded, s.CheckpointTook = now, now-s.CheckpointBegan
}

// Usage is what a store holds at the moment.
type Usage struct {
	ChunkBytes, ChunkLimit     int64 // memory of the newest bytes
	PinnedPieces, WaitingReads int
	PendingAppends             int
	DirtyPartitions            int
	OpenFiles                  int
	MemoryBytes                int64 // of class memory that waits for the journal
	Compacting, Replacing      bool  // a helper compacts, a compacted log takes the place of another
}
