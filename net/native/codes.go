package native

import (
	"github.com/mqd-broker/mqd/broker"
	"github.com/mqd-broker/mqd/net/wire"
)

// codes maps the broker's codes to the protocol's, by number.
var codes = [...]wire.Code{
	broker.OK:                 wire.CodeNone,
	broker.UnknownTopic:       wire.CodeUnknownTopic,
	broker.UnknownPartition:   wire.CodeUnknownPartition,
	broker.TopicExists:        wire.CodeTopicExists,
	broker.InvalidTopic:       wire.CodeInvalidTopic,
	broker.InvalidConfig:      wire.CodeInvalidConfig,
	broker.InvalidPartitions:  wire.CodeInvalidPartitions,
	broker.CorruptBatch:       wire.CodeCorruptBatch,
	broker.InvalidBatch:       wire.CodeInvalidBatch,
	broker.BatchTooLarge:      wire.CodeBatchTooLarge,
	broker.ClassTooWeak:       wire.CodeClassTooWeak,
	broker.DuplicateSequence:  wire.CodeDuplicateSequence,
	broker.OutOfOrderSequence: wire.CodeOutOfOrderSequence,
	broker.FencedProducer:     wire.CodeFencedProducer,
	broker.OffsetOutOfRange:   wire.CodeOffsetOutOfRange,
	broker.Corrupt:            wire.CodeCorrupt,
	broker.Storage:            wire.CodeStorageError,
	broker.Busy:               wire.CodeBackpressure,
	broker.ShuttingDown:       wire.CodeShuttingDown,
	broker.NotReady:           wire.CodeNotReady,
	broker.Internal:           wire.CodeInternal,
}

// codeOf is the protocol's code for an outcome.
func codeOf(c broker.Code) wire.Code {
	if int(c) < len(codes) {
		return codes[c]
	}
	return wire.CodeInternal
}

// messageOf is the text for people that comes with an outcome.
func messageOf(c broker.Code, text string) string {
	if text == "" && c != broker.OK {
		return c.Help()
	}
	return text
}

// Classes and encodings have the same numbers on both sides.
var (
	_ = [1]struct{}{}[uint8(broker.ClassMemory)-uint8(wire.ClassMemory)]
	_ = [1]struct{}{}[uint8(broker.ClassWritten)-uint8(wire.ClassWritten)]
	_ = [1]struct{}{}[uint8(broker.ClassFlushed)-uint8(wire.ClassFlushed)]
	_ = [1]struct{}{}[uint8(broker.EncodingRecordBatch)-uint8(wire.EncodingRecordBatch)]
	_ = [1]struct{}{}[uint8(broker.EncodingPlain)-uint8(wire.EncodingPlain)]
	_ = [1]struct{}{}[uint64(-broker.TimeEnd)-uint64(-wire.TimeEnd)]
	_ = [1]struct{}{}[uint64(-broker.TimeStart)-uint64(-wire.TimeStart)]
)
