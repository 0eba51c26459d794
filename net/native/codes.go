package native

import (
	"github.com/mqd-broker/mqd/broker"
	"github.com/mqd-broker/mqd/net/wire"
)

// codes maps every code of the broker to the protocol's.
var codes = [...]wire.Code{
	broker.OK:                wire.CodeNone,
	broker.UnknownTopic:      wire.CodeUnknownTopic,
	broker.UnknownPartition:  wire.CodeUnknownPartition,
	broker.TopicExists:       wire.CodeTopicExists,
	broker.InvalidTopic:      wire.CodeInvalidTopic,
	broker.InvalidConfig:     wire.CodeInvalidConfig,
	broker.InvalidPartitions: wire.CodeInvalidPartitions,
	broker.CorruptBatch:      wire.CodeCorruptBatch,
	broker.InvalidBatch:      wire.CodeInvalidBatch,
	broker.BatchTooLarge:     wire.CodeBatchTooLarge,
	broker.ClassTooWeak:      wire.CodeClassTooWeak,
	broker.OffsetOutOfRange:  wire.CodeOffsetOutOfRange,
	broker.Corrupt:           wire.CodeCorrupt,
	broker.Storage:           wire.CodeStorageError,
	broker.Busy:              wire.CodeBackpressure,
	broker.ShuttingDown:      wire.CodeShuttingDown,
	broker.NotReady:          wire.CodeNotReady,
	broker.Internal:          wire.CodeInternal,
}

func codeOf(c broker.Code) wire.Code {
	if int(c) < len(codes) {
		return codes[c]
	}
	return wire.CodeInternal
}

// message is the text of an answer with a code.
func message(c broker.Code, text string) string {
	if text == "" && c != broker.OK {
		return c.Help()
	}
	return text
}
