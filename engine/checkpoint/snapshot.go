package checkpoint

import "github.com/mqd-broker/mqd/engine/producers"

// MaxTerm is the largest term and epoch: 31 bits.
const MaxTerm = 1<<31 - 1

// Flags of a checkpoint.
type Flags uint32

const (
	// FlagClean: everything is flushed and the journal holds nothing beyond LSN: the
	// shard stopped in order, or a start removes the journal.
	FlagClean Flags = 1 << iota
	// FlagForsaken: the journal is lost, and an operator has accepted that. The next start
	// does without it, and has every partition go on above all that it can have held.
	FlagForsaken

	knownFlags = FlagClean | FlagForsaken
)

// Header is what a checkpoint says of its shard.
type Header struct {
	Node    [16]byte // the node's id
	Journal [16]byte // uuid of the shard's journal
	Shard   uint16
	Shards  uint16 // shards of that run
	Flags   Flags
	// Sequence grows by one from checkpoint to checkpoint of a shard.
	Sequence uint64
	// LSN is the journal's first round that recovery still needs.
	LSN uint64
	// Incarnation is the journal's at the time.
	Incarnation uint64
	Wall        int64 // Unix time in nanoseconds
	AppendTime  int64 // the newest append time that the shard gave, in nanoseconds
	// Boot, Device and Mount are those of aio.FSInfo: if all are the same at the
	// next start, nothing below the process has been restarted.
	Boot   [16]byte
	Device uint64
	Mount  uint64
}

// NeedsJournal reports whether the journal has to be there: it was when the checkpoint
// was written, and may hold more than that knows of.
func (h *Header) NeedsJournal() bool {
	return h.Flags&(FlagClean|FlagForsaken) == 0 && (h.Incarnation > 0 || h.Journal != [16]byte{})
}

// Slot is a slot that the shard owns.
type Slot struct {
	Slot  uint16
	Term  uint32
	Index uint64 // of the slot's newest group of entries
}

// Partition is what a checkpoint knows of a partition: the state of its newest
// segment as far as that is flushed, and what cannot be read off the files.
type Partition struct {
	Topic     [16]byte
	Partition uint32
	Slot      uint16
	Class     uint8 // durability class, as engine.Class has it
	Term      uint32

	SegmentBase int64 // base offset of the newest segment
	End         int64 // bytes of its log that are flushed
	NextOffset  int64 // behind the last batch before End
	LogStart    int64 // lowest offset that can be read
	// Reserved is the offset below which a class that acknowledges before it
	// flushes may have given offsets out; 0 if it has never reserved any.
	Reserved     int64
	MaxTimestamp int64 // of the segment, milliseconds since 1970
	NewestAppend int64 // nanoseconds since 1970
	Epochs       EpochTable
	// Producers are those that have appended something below NextOffset, with
	// nothing of what they have appended at it or above.
	Producers []producers.State
}

// Snapshot is a decoded checkpoint.
type Snapshot struct {
	Header
	Slots      []Slot
	Partitions []Partition
}

// Encode returns the file of a checkpoint that says the same under another header.
func (s *Snapshot) Encode(h *Header) []byte {
	var w Writer
	w.Begin(s.Slots)
	for i := range s.Partitions {
		w.Add(&s.Partitions[i])
	}
	return w.Finish(h)
}
