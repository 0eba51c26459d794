package broker

import "strconv"

// Code is the outcome of a request. Zero is success. It is the broker's own;
// each front door maps it to the codes of its protocol in one file.
type Code uint16

// The codes.
const (
	OK Code = iota
	UnknownTopic
	UnknownPartition
	TopicExists
	InvalidTopic
	InvalidConfig
	InvalidPartitions
	CorruptBatch
	InvalidBatch
	BatchTooLarge
	ClassTooWeak
	DuplicateSequence
	OutOfOrderSequence
	FencedProducer
	OffsetOutOfRange
	Corrupt
	Storage
	Busy
	ShuttingDown
	NotReady
	Internal
)

// codeRow describes a code.
type codeRow struct {
	name string
	// retriable: the same request may succeed later.
	retriable bool
	// unknown: a produce with this code may still turn up in the log, an
	// administrative request may still take effect.
	unknown bool
	help    string
}

// codeTable is the one table of the broker's codes, by number.
var codeTable = [...]codeRow{
	OK:                 {"OK", false, false, "success"},
	UnknownTopic:       {"UnknownTopic", false, false, "no topic has this name or id"},
	UnknownPartition:   {"UnknownPartition", false, false, "the topic has no partition of this number"},
	TopicExists:        {"TopicExists", false, false, "a topic of this name exists already"},
	InvalidTopic:       {"InvalidTopic", false, false, "a topic cannot have this name"},
	InvalidConfig:      {"InvalidConfig", false, false, "a configuration key is unknown or its value is out of range"},
	InvalidPartitions:  {"InvalidPartitions", false, false, "the number of partitions is out of range"},
	CorruptBatch:       {"CorruptBatch", false, false, "a checksum in the batch does not match; nothing was written"},
	InvalidBatch:       {"InvalidBatch", false, false, "the batch's structure is wrong; nothing was written"},
	BatchTooLarge:      {"BatchTooLarge", false, false, "the batch is larger than max.message.bytes; nothing was written"},
	ClassTooWeak:       {"ClassTooWeak", false, false, "the topic's durability class is weaker than demanded; nothing was written"},
	DuplicateSequence:  {"DuplicateSequence", false, false, "the producer's sequence was written before and its offset is no longer known"},
	OutOfOrderSequence: {"OutOfOrderSequence", false, false, "the producer's sequence does not follow its last one; nothing was written"},
	FencedProducer:     {"FencedProducer", false, false, "a newer epoch of this producer has written; nothing was written"},
	OffsetOutOfRange:   {"OffsetOutOfRange", false, false, "the offset lies outside the log"},
	Corrupt:            {"Corrupt", false, false, "stored data at this offset is damaged"},
	Storage:            {"Storage", true, true, "the storage device failed; nothing is acknowledged"},
	Busy:               {"Busy", true, false, "the broker is over a limit and took nothing"},
	ShuttingDown:       {"ShuttingDown", true, false, "the broker is stopping and took nothing"},
	NotReady:           {"NotReady", true, false, "the broker has not finished its recovery"},
	Internal:           {"Internal", false, true, "the broker met a bug of its own"},
}

// String is the code's name.
func (c Code) String() string {
	if int(c) < len(codeTable) {
		return codeTable[c].name
	}
	return "Code(" + strconv.Itoa(int(c)) + ")"
}

// Retriable reports whether the same request may succeed later.
func (c Code) Retriable() bool { return int(c) < len(codeTable) && codeTable[c].retriable }

// OutcomeUnknown reports whether the request may have taken effect although it was
// answered with c.
func (c Code) OutcomeUnknown() bool { return int(c) < len(codeTable) && codeTable[c].unknown }

// Help is one sentence for a person.
func (c Code) Help() string {
	if int(c) < len(codeTable) {
		return codeTable[c].help
	}
	return "an unknown code"
}

// Codes lists all codes in order of number.
func Codes() []Code {
	cs := make([]Code, len(codeTable))
	for i := range cs {
		cs[i] = Code(i)
	}
	return cs
}
