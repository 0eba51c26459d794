package recovery

import (
	"github.com/mqd-broker/mqd/engine/checkpoint"
	"github.com/mqd-broker/mqd/engine/layout"
	"github.com/mqd-broker/mqd/engine/producers"
)

// PartitionState is what recovery knows of a partition.
type PartitionState struct {
	Key        layout.Key
	Class      layout.Class
	LogStart   int64
	NextOffset int64
	Epochs     checkpoint.EpochTable
	Segments   []SegmentState // by rising base
	Producers  []producers.State
	// Below are the bases of segments whose files are to be removed: they are below
	// the log start, or an earlier life had begun to remove them.
	Below []int64
	// MaxTimestamp and AppendTime are the newest, in milliseconds and Unix
	// nanoseconds.
	MaxTimestamp, AppendTime int64
}

// SegmentState is a segment file that recovery has made whole and durable.
type SegmentState struct {
	Base      int64
	Size      int64 // bytes of batches
	Allocated int64 // size of the file
}
