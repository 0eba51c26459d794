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
	SealedSegments, SealErrors     uint64
	IndexErrors, Verifications     uint64
	Checkpoints                    uint64
}

// Usage is what a store holds at the moment.
type Usage struct {
	ChunkBytes, ChunkLimit     int64 // memory of the newest bytes
	PinnedPieces, WaitingReads int
	PendingAppends             int
	DirtyPartitions            int
	OpenFiles                  int
	MemoryBytes                int64 // of class memory that waits for the journal
}
