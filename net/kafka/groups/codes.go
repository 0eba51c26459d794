package groups

import (
	"github.com/mqd-broker/mqd/broker"
	"github.com/mqd-broker/mqd/broker/group"
)

// Kafka's error codes, those that are answered here.
const (
	codeNone                 = 0
	codeUnknown              = -1
	codeUnknownTopic         = 3
	codeMetadataTooLarge     = 12
	codeLoading              = 14
	codeNotAvailable         = 15
	codeNotCoordinator       = 16
	codeIllegalGeneration    = 22
	codeInconsistentProtocol = 23
	codeInvalidGroup         = 24
	codeUnknownMember        = 25
	codeInvalidSession       = 26
	codeRebalancing          = 27
	codeInvalidRequest       = 42
	codeNonEmptyGroup        = 68
	codeGroupNotFound        = 69
	codeMemberIDRequired     = 79
	codeGroupFull            = 81
	codeFencedInstance       = 82
	codeSubscribed           = 86
)

// failed is the code of a request that the broker did not carry out, codeNone of one that
// it did. Clients look for the coordinator again with each of them, and come back.
func failed(c broker.Code) int16 {
	switch c {
	case broker.OK:
		return codeNone
	case broker.NotReady:
		return codeLoading
	case broker.ShuttingDown, broker.Storage:
		return codeNotCoordinator
	case broker.Internal:
		return codeUnknown
	}
	return codeNotAvailable
}

// outcomes maps what a group says to Kafka's codes, by number.
var outcomes = [...]int16{
	group.OK:            codeNone,
	group.Invalid:       codeInvalidGroup,
	group.Unknown:       codeNone, // a group without offsets is one that nobody has heard of
	group.UnknownMember: codeUnknownMember,
	group.Fenced:        codeIllegalGeneration,
	group.Backwards:     codeInvalidRequest,
	group.Active:        codeUnknownMember, // only members may commit
	group.WrongMode:     codeInvalidRequest,
	group.Limit:         codeNotAvailable,
	group.Beyond:        codeInvalidRequest,
	group.Raised:        codeNone,
}

// outcome is the code of a whole request.
func outcome(r *broker.Group) int16 {
	switch {
	case r.Code != broker.OK:
		return failed(r.Code)
	case int(r.Outcome) < len(outcomes):
		return outcomes[r.Outcome]
	}
	return codeUnknown
}
