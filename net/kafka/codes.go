package kafka

import "github.com/mqd-broker/mqd/broker"

// Kafka's error codes, those that are answered.
const (
	codeNone               = 0
	codeUnknown            = -1
	codeOffsetOutOfRange   = 1
	codeCorruptMessage     = 2
	codeUnknownTopic       = 3
	codeLeaderNotAvailable = 5
	codeNotLeader          = 6
	codeRequestTimedOut    = 7
	codeMessageTooLarge    = 10
	codeInvalidTopic       = 17
	codeInvalidAcks        = 21
	codeUnsupportedVersion = 35
	codeTopicExists        = 36
	codeInvalidPartitions  = 37
	codeInvalidReplication = 38
	codeInvalidAssignment  = 39
	codeInvalidConfig      = 40
	codeNotController      = 41
	codeInvalidRequest     = 42
	codeOutOfOrderSequence = 45
	codeDuplicateSequence  = 46
	codeInvalidEpoch       = 47
	codeStorage            = 56
	codeFetchSession       = 70
	codeFencedEpoch        = 74
	codeUnknownEpoch       = 75
	codeUnsupportedCodec   = 76
	codeInvalidRecord      = 87
	codeUnknownTopicID     = 100
)

// Values of fields that say that there is nothing.
const (
	unknownOffset = -1
	unknownEpoch  = -1
)

// nodeID is the id of the one broker that there is.
const nodeID int32 = 1

// codes maps the broker's codes to Kafka's, by number.
var codes = [...]int16{
	broker.OK:                 codeNone,
	broker.UnknownTopic:       codeUnknownTopic,
	broker.UnknownPartition:   codeUnknownTopic,
	broker.TopicExists:        codeTopicExists,
	broker.InvalidTopic:       codeInvalidTopic,
	broker.InvalidConfig:      codeInvalidConfig,
	broker.InvalidPartitions:  codeInvalidPartitions,
	broker.CorruptBatch:       codeCorruptMessage,
	broker.InvalidBatch:       codeInvalidRecord,
	broker.BatchTooLarge:      codeMessageTooLarge,
	broker.ClassTooWeak:       codeInvalidRequest,
	broker.DuplicateSequence:  codeDuplicateSequence,
	broker.OutOfOrderSequence: codeOutOfOrderSequence,
	broker.FencedProducer:     codeInvalidEpoch,
	broker.OffsetOutOfRange:   codeOffsetOutOfRange,
	broker.Corrupt:            codeCorruptMessage,
	broker.Storage:            codeStorage,
	broker.Busy:               codeRequestTimedOut,
	broker.ShuttingDown:       codeNotLeader,
	broker.NotReady:           codeLeaderNotAvailable,
	broker.Internal:           codeUnknown,
}

// codeOf is Kafka's code for an outcome.
func codeOf(c broker.Code) int16 {
	if int(c) < len(codes) {
		return codes[c]
	}
	return codeUnknown
}

// adminCodeOf is codeOf for requests of administrators.
func adminCodeOf(c broker.Code) int16 {
	if c == broker.ShuttingDown {
		return codeNotController
	}
	return codeOf(c)
}

// fetchCodeOf is codeOf for fetches and look-ups: a time-out in one of those is fatal to
// consumers, while they come back to a leader that has moved.
func fetchCodeOf(c broker.Code) int16 {
	if c == broker.Busy || c == broker.NotReady {
		return codeNotLeader
	}
	return codeOf(c)
}

// epochCode judges the epoch of the leader that a client knows, -1 for none: one of an
// earlier life of the broker makes it look at metadata again, and so does one that is not
// yet.
func (s *Server) epochCode(known int32) int16 {
	switch term := s.b.Node().Term(); {
	case known < 0 || known == term:
		return codeNone
	case known < term:
		return codeFencedEpoch
	}
	return codeUnknownEpoch
}

// messageOf is the text for people that comes with an outcome.
func messageOf(c broker.Code, text string) string {
	if text == "" && c != broker.OK {
		return c.Help()
	}
	return text
}
