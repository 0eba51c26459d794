package wire

import "strconv"

// Code is the result of a request as a client sees it. Zero is success.
// Numbers are for life; docs/format/wire.md carries the same table.
type Code uint16

// The codes. Blocks: 1 to 15 protocol, 16 to 31 topics, 32 to 47 produce,
// 48 to 63 reads, 64 to 79 the state of the broker, 80 to 95 groups.
const (
	CodeNone               Code = 0
	CodeUnsupportedVersion Code = 1
	CodeUnsupportedOp      Code = 2
	CodeMalformedFrame     Code = 3
	CodeFrameTooLarge      Code = 4
	CodeAuthFailed         Code = 5
	CodeHelloRequired      Code = 6

	CodeUnknownTopic      Code = 16
	CodeUnknownPartition  Code = 17
	CodeTopicExists       Code = 18
	CodeInvalidTopic      Code = 19
	CodeInvalidConfig     Code = 20
	CodeInvalidPartitions Code = 21

	CodeCorruptBatch       Code = 32
	CodeInvalidBatch       Code = 33
	CodeBatchTooLarge      Code = 34
	CodeClassTooWeak       Code = 35
	CodeDuplicateSequence  Code = 36
	CodeOutOfOrderSequence Code = 37
	CodeFencedProducer     Code = 38

	CodeOffsetOutOfRange Code = 48
	CodeCorrupt          Code = 49

	CodeStorageError Code = 64
	CodeBackpressure Code = 65
	CodeShuttingDown Code = 66
	CodeNotReady     Code = 67
	CodeInternal     Code = 68

	CodeUnknownGroup    Code = 80
	CodeUnknownMember   Code = 81
	CodeFencedMember    Code = 82
	CodeOffsetBackwards Code = 83
	CodeOffsetBeyondEnd Code = 84
	CodeOffsetRaised    Code = 85
	CodeGroupActive     Code = 86
	CodeGroupWrongMode  Code = 87
	CodeGroupLimit      Code = 88
	CodeInvalidGroup    Code = 89
)

// codeInfo is one row of the code table.
type codeInfo struct {
	code Code
	name string
	// retriable: the same request may succeed later.
	retriable bool
	// unknown: a produce that got this code may still turn up in the log.
	unknown bool
	help    string
}

// codeTable is the one table of codes, in order of number.
var codeTable = []codeInfo{
	{CodeNone, "None", false, false, "success"},
	{CodeUnsupportedVersion, "UnsupportedVersion", false, false, "the broker does not speak this version; the error response carries the range that it does"},
	{CodeUnsupportedOp, "UnsupportedOp", false, false, "the broker does not know this operation"},
	{CodeMalformedFrame, "MalformedFrame", false, false, "the frame does not decode"},
	{CodeFrameTooLarge, "FrameTooLarge", false, false, "the frame is longer than the limit told in hello; the connection closes"},
	{CodeAuthFailed, "AuthFailed", false, false, "the credentials in hello were refused; the connection closes"},
	{CodeHelloRequired, "HelloRequired", false, false, "the first frame of a connection must be hello; the connection closes"},
	{CodeUnknownTopic, "UnknownTopic", false, false, "no topic has this name or id"},
	{CodeUnknownPartition, "UnknownPartition", false, false, "the topic has no partition of this number"},
	{CodeTopicExists, "TopicExists", false, false, "a topic of this name exists already"},
	{CodeInvalidTopic, "InvalidTopic", false, false, "a topic name has 1 to 249 of the characters a-z A-Z 0-9 . _ - and is not . or .."},
	{CodeInvalidConfig, "InvalidConfig", false, false, "a configuration key is unknown or its value is out of range"},
	{CodeInvalidPartitions, "InvalidPartitions", false, false, "the number of partitions is out of range"},
	{CodeCorruptBatch, "CorruptBatch", false, false, "the batch's checksum does not match; nothing was written"},
	{CodeInvalidBatch, "InvalidBatch", false, false, "the batch's structure is wrong; nothing was written"},
	{CodeBatchTooLarge, "BatchTooLarge", false, false, "the batch is larger than the topic's max.message.bytes; nothing was written"},
	{CodeClassTooWeak, "ClassTooWeak", false, false, "the topic's durability class is weaker than the producer demands; nothing was written"},
	{CodeDuplicateSequence, "DuplicateSequence", false, false, "the producer's sequence was written before and its offset is no longer known"},
	{CodeOutOfOrderSequence, "OutOfOrderSequence", false, false, "the producer's sequence does not follow its last one; nothing was written"},
	{CodeFencedProducer, "FencedProducer", false, false, "a newer producer has taken this producer's id; nothing was written"},
	{CodeOffsetOutOfRange, "OffsetOutOfRange", false, false, "the offset lies outside the log"},
	{CodeCorrupt, "Corrupt", false, false, "stored data at this offset is damaged"},
	{CodeStorageError, "StorageError", true, true, "the storage device failed a write or a flush; the batch is not acknowledged"},
	{CodeBackpressure, "Backpressure", true, false, "the broker is over a limit and took nothing; try again later"},
	{CodeShuttingDown, "ShuttingDown", true, false, "the broker is stopping and took nothing"},
	{CodeNotReady, "NotReady", true, false, "the broker has not finished its recovery"},
	{CodeInternal, "Internal", false, true, "the broker met a bug of its own"},
	{CodeUnknownGroup, "UnknownGroup", false, false, "no group has this name"},
	{CodeUnknownMember, "UnknownMember", false, false, "the group has no such member, any more; it has to join again"},
	{CodeFencedMember, "FencedMember", false, false, "the member does not own the partition, or did so earlier; or its instance has been taken over"},
	{CodeOffsetBackwards, "OffsetBackwards", false, false, "the offset is below the one that is committed; nothing was committed"},
	{CodeOffsetBeyondEnd, "OffsetBeyondEnd", false, false, "the offset is behind the end of the partition's log; nothing was committed"},
	{CodeOffsetRaised, "OffsetRaised", false, false, "the offset was below the start of the partition's log, which was committed instead; this is no failure"},
	{CodeGroupActive, "GroupActive", false, false, "the group has members, or the partition an owner, which forbids it"},
	{CodeGroupWrongMode, "GroupWrongMode", false, false, "the group divides its partitions in another way, or its members are Kafka clients"},
	{CodeGroupLimit, "GroupLimit", false, false, "a limit on groups, members or offsets is reached"},
	{CodeInvalidGroup, "InvalidGroup", false, false, "a name or a number in the request about a group is out of range"},
}

// info finds c's row; nil for a number this build does not know.
func (c Code) info() *codeInfo {
	for i := range codeTable {
		if codeTable[i].code == c {
			return &codeTable[i]
		}
	}
	return nil
}

// String is the code's name.
func (c Code) String() string {
	if in := c.info(); in != nil {
		return in.name
	}
	return "Code(" + strconv.Itoa(int(c)) + ")"
}

// Retriable reports whether the same request may succeed later. A code of a
// newer broker that this build does not know is not retriable.
func (c Code) Retriable() bool {
	in := c.info()
	return in != nil && in.retriable
}

// OutcomeUnknown reports whether a batch that was answered with c may still be
// in the log. A code that this build does not know says nothing about it.
func (c Code) OutcomeUnknown() bool {
	in := c.info()
	return in == nil || in.unknown
}

// Help is one sentence for a person.
func (c Code) Help() string {
	if in := c.info(); in != nil {
		return in.help
	}
	return "a code of a newer broker"
}

// Codes lists every known code in order of number.
func Codes() []Code {
	cs := make([]Code, len(codeTable))
	for i := range codeTable {
		cs[i] = codeTable[i].code
	}
	return cs
}
