package catalog

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mqd-broker/mqd/batch"
)

// Key is a setting of a topic by number. Numbers stand in records and are for life.
type Key uint16

// The settings.
const (
	KeyDurability      Key = 1
	KeySegmentBytes    Key = 2
	KeyIndexInterval   Key = 3
	KeyFlushInterval   Key = 4
	KeyFlushBytes      Key = 5
	KeyMaxMessageBytes Key = 6
	KeyTimestampType   Key = 7
	KeyRetentionTime   Key = 8
	KeyRetentionBytes  Key = 9
	KeySegmentTime     Key = 10
	KeyCleanupPolicy   Key = 11
	KeyDirtyRatio      Key = 12
	KeyCompactionLag   Key = 13
	KeyDeleteRetention Key = 14

	lastKey = KeyDeleteRetention
)

// Bounds of sizes, in bytes. Bounds of a setting are part of the format: a later
// version may widen them and never narrow them.
const (
	MinSegmentBytes    = 16 << 10
	MaxSegmentBytes    = 2 << 30
	MinIndexInterval   = 256
	MaxIndexInterval   = 1 << 20
	MinFlushBytes      = 4 << 10
	MaxFlushBytes      = 1 << 30
	MinMaxMessageBytes = 1 << 10
	MaxMaxMessageBytes = batch.MaxSize
	MinFlushInterval   = time.Millisecond
	MaxFlushInterval   = time.Hour
	MinRetentionBytes  = MinSegmentBytes
	MaxRetentionBytes  = 1 << 60
)

// Bounds of times in milliseconds.
const (
	MinRetentionTime = 1000
	MaxRetentionTime = 100 * 365 * dayMillis
	MinSegmentTime   = 1000
	MaxSegmentTime   = 10 * 365 * dayMillis
	MaxCompactionLag = 10 * 365 * dayMillis

	dayMillis = 24 * 60 * 60 * 1000
)

// Unlimited is the value of a limit that there is not.
const Unlimited = -1

// What a topic has unless it says otherwise.
const (
	DefaultSegmentBytes    = 512 << 20
	DefaultIndexInterval   = 4 << 10
	DefaultMaxMessageBytes = 1 << 20
	DefaultSegmentTime     = 7 * dayMillis
	DefaultDirtyRatio      = 500
	DefaultDeleteRetention = dayMillis

	// The flush window depends on the class; class flushed has none.
	MemoryFlushInterval  = 100 * time.Millisecond
	MemoryFlushBytes     = 512 << 10
	WrittenFlushInterval = time.Second
	WrittenFlushBytes    = 64 << 20
)

// byClass is the default of a setting that depends on the class.
const byClass = 0

// Info is what there is to know of a setting: one row of the table that the
// parser, the documents and the help texts share.
type Info struct {
	Key   Key
	Name  string
	Alias string // another name that is understood, or ""
	Type  ValueType
	Words []string // of an EnumValue
	// Default, Min and Max as people write them. Default tells in words what
	// depends on the class; Min and Max are "" for an EnumValue.
	Default, Min, Max string
	Help              string

	def, min, max int64
	limit         bool // may be Unlimited
}

// byClass reports whether the default depends on the class.
func (i *Info) byClass() bool { return i.Key == KeyFlushInterval || i.Key == KeyFlushBytes }

// takes reports whether v is a value of the setting that is at most most.
func (i *Info) takes(v, most int64) bool {
	return v >= i.min && v <= most || i.limit && v == Unlimited
}

// table is the one table of settings, by Key minus one.
var table = [lastKey]Info{
	{Key: KeyDurability, Name: "durability", Alias: "mqd.durability", Type: EnumValue,
		Words: []string{"memory", "written", "flushed"},
		def:   int64(Flushed), min: int64(Memory), max: int64(Flushed),
		Help: "what an acknowledgement means: memory (in the broker's memory; a crash loses up to the flush window), " +
			"written (in the journal; a power cut loses up to the flush window), flushed (nothing acknowledged is lost)"},
	{Key: KeySegmentBytes, Name: "segment.bytes", Type: BytesValue,
		def: DefaultSegmentBytes, min: MinSegmentBytes, max: MaxSegmentBytes,
		Help: "size at which a log file is closed and the next one begun"},
	{Key: KeyIndexInterval, Name: "index.interval.bytes", Type: BytesValue,
		def: DefaultIndexInterval, min: MinIndexInterval, max: MaxIndexInterval,
		Help: "distance in a log file between two entries of its index"},
	{Key: KeyFlushInterval, Name: "flush.interval", Type: DurationValue,
		Default: "100ms for memory, 1s for written",
		def:     byClass, min: int64(MinFlushInterval), max: int64(MaxFlushInterval),
		Help: "longest time until what is acknowledged begins to be made safe; no meaning for class flushed"},
	{Key: KeyFlushBytes, Name: "flush.bytes", Type: BytesValue,
		Default: "512KiB for memory, 64MiB for written",
		def:     byClass, min: MinFlushBytes, max: MaxFlushBytes,
		Help: "most bytes acknowledged until they begin to be made safe; no meaning for class flushed"},
	{Key: KeyMaxMessageBytes, Name: "max.message.bytes", Type: BytesValue,
		def: DefaultMaxMessageBytes, min: MinMaxMessageBytes, max: MaxMaxMessageBytes,
		Help: "largest batch taken, compressed as it comes; the broker's own limit holds too"},
	{Key: KeyTimestampType, Name: "message.timestamp.type", Type: EnumValue,
		Words: []string{"CreateTime", "LogAppendTime"},
		def:   int64(CreateTime), min: int64(CreateTime), max: int64(LogAppendTime),
		Help: "whose clock a record's timestamp is from: the producer's or the broker's"},
	{Key: KeyRetentionTime, Name: "retention.ms", Type: MillisValue, limit: true,
		def: Unlimited, min: MinRetentionTime, max: MaxRetentionTime,
		Help: "milliseconds after which a full log file goes, by when the broker appended its newest record; -1: never"},
	{Key: KeyRetentionBytes, Name: "retention.bytes", Type: BytesValue, limit: true,
		def: Unlimited, min: MinRetentionBytes, max: MaxRetentionBytes,
		Help: "bytes of a partition above which its oldest full log files go; -1: none go"},
	{Key: KeySegmentTime, Name: "segment.ms", Type: MillisValue, limit: true,
		def: DefaultSegmentTime, min: MinSegmentTime, max: MaxSegmentTime,
		Help: "milliseconds after its first record at which a log file is closed although it is not full; -1: never"},
	{Key: KeyCleanupPolicy, Name: "cleanup.policy", Type: EnumValue,
		Words: []string{"delete", "compact", "compact,delete"},
		def:   int64(Delete), min: int64(Delete), max: int64(CompactAndDelete),
		Help: "what becomes of old records: delete (retention.ms and retention.bytes say when they go), " +
			"compact (those go that a later record with the same key supersedes), compact,delete (both)"},
	{Key: KeyDirtyRatio, Name: "min.cleanable.dirty.ratio", Type: RatioValue,
		def: DefaultDirtyRatio, min: 0, max: 1000,
		Help: "part of a partition's full log files that has to be new since they were last compacted before that is done again"},
	{Key: KeyCompactionLag, Name: "min.compaction.lag.ms", Type: MillisValue,
		def: 0, min: 0, max: MaxCompactionLag,
		Help: "milliseconds for which compaction leaves a record, by when the broker appended it"},
	{Key: KeyDeleteRetention, Name: "delete.retention.ms", Type: MillisValue,
		def: DefaultDeleteRetention, min: 0, max: MaxRetentionTime,
		Help: "milliseconds for which a record without a value stays in a compacted log after what it deletes has gone"},
}

func init() {
	for i := range table {
		in := &table[i]
		if in.Default == "" {
			in.Default = in.format(in.def)
		}
		if in.Type != EnumValue {
			in.Min, in.Max = in.format(in.min), in.format(in.max)
		}
	}
}

// Settings lists all settings in order of key, for help texts and documents.
func Settings() []Info { return slices.Clone(table[:]) }

// info is the row of a key, nil for a number that this program does not know.
func (k Key) info() *Info {
	if k < 1 || k > lastKey {
		return nil
	}
	return &table[k-1]
}

// String is the setting's name.
func (k Key) String() string {
	if in := k.info(); in != nil {
		return in.Name
	}
	return fmt.Sprintf("setting(%d)", uint16(k))
}

// findKey finds a setting by name or alias.
func findKey(name string) *Info {
	for i := range table {
		if name == table[i].Name || name == table[i].Alias && name != "" {
			return &table[i]
		}
	}
	return nil
}

// Setting is one setting of a topic as people write it.
type Setting struct{ Key, Value string }

// Change is one setting set, or taken away so that the default holds.
type Change struct {
	Key    Key
	Action Action
	Value  int64 // bytes, nanoseconds, milliseconds or the number of a word; 0 with Unset
}

// Action says what a Change does.
type Action uint8

// The actions.
const (
	Set   Action = 1
	Unset Action = 2
)

// Limits are the bounds that a node adds to those of the format.
type Limits struct {
	// Partitions bounds the partitions of one topic.
	Partitions uint32
	// MaxMessageBytes bounds max.message.bytes.
	MaxMessageBytes int64
}

// ParseSettings reads the settings of a topic to create ([Set] only) or, with
// [Unset] allowed, of a topic to alter, where an empty value takes the topic's own
// value away. The changes come out in order of key. The error is
// [ErrInvalidConfig].
func ParseSettings(settings []Setting, allow Action, limits Limits) ([]Change, error) {
	var changes []Change
	for _, s := range settings {
		in := findKey(s.Key)
		if in == nil {
			return nil, fmt.Errorf("%w: unknown setting %q, expected one of %s", ErrInvalidConfig, s.Key, names())
		}
		if slices.ContainsFunc(changes, func(c Change) bool { return c.Key == in.Key }) {
			return nil, fmt.Errorf("%w: %s is given twice", ErrInvalidConfig, in.Name)
		}
		if s.Value == "" && allow == Unset {
			changes = append(changes, Change{Key: in.Key, Action: Unset})
			continue
		}
		v, err := in.parse(s.Value)
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrInvalidConfig, in.Name, err)
		}
		most := in.max
		if in.Key == KeyMaxMessageBytes {
			most = min(most, limits.MaxMessageBytes)
		}
		if !in.takes(v, most) {
			why := in.orNever()
			if most < in.max {
				why = "; the broker's topic.max_message_bytes is the most"
			}
			return nil, fmt.Errorf("%w: %s is %s, expected %s to %s%s", ErrInvalidConfig, in.Name, s.Value, in.Min, in.format(most), why)
		}
		changes = append(changes, Change{Key: in.Key, Action: Set, Value: v})
	}
	slices.SortFunc(changes, func(a, b Change) int { return int(a.Key) - int(b.Key) })
	return changes, nil
}

// orNever is what can be said beside a setting's bounds.
func (i *Info) orNever() string {
	if i.limit {
		return ", or -1 for no limit"
	}
	return ""
}

func names() string {
	var ns []string
	for i := range table {
		ns = append(ns, table[i].Name)
	}
	return strings.Join(ns, ", ")
}
