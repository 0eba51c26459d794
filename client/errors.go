package client

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/mqd-broker/mqd/client/internal/lane"
	"github.com/mqd-broker/mqd/client/internal/link"
	"github.com/mqd-broker/mqd/net/wire"
)

// The kinds of failure that programs tell apart, for errors.Is. An [Error]
// around one of them says where it happened.
//
// There is none for a broker that does not lead a partition. A broker is one process and
// leads all of its partitions; a request that reaches another shard than the partition's
// is passed on inside of it, and a client that hears of a new owner changes over by itself.
var (
	// ErrClosed: the client, producer or consumer was closed.
	ErrClosed = link.ErrClosed

	// ErrBufferFull: the producer's buffer has no room, see [WithBuffer].
	// Nothing was queued; this is how backpressure shows.
	ErrBufferFull = errors.New("mqd: buffer full")

	// ErrOutcomeUnknown: the records may or may not be in the log. The
	// connection died between send and acknowledgement, the caller stopped
	// waiting, or the broker itself could not tell.
	ErrOutcomeUnknown = errors.New("mqd: outcome unknown")

	// ErrTooLarge: a record does not fit into any batch, or a batch is above
	// the topic's limit. Nothing was written.
	ErrTooLarge = lane.ErrTooLarge

	// ErrDisconnected: there is no connection to the broker at the moment. The
	// client goes on trying.
	ErrDisconnected = link.ErrDisconnected

	// ErrProtocol: the broker sent something that the protocol does not allow.
	ErrProtocol = link.ErrProtocol

	// ErrUnknownTopic: no topic has this name.
	ErrUnknownTopic = errors.New("mqd: unknown topic")

	// ErrUnknownPartition: the topic has no such partition.
	ErrUnknownPartition = errors.New("mqd: unknown partition")

	// ErrTopicExists: a topic of this name exists already.
	ErrTopicExists = errors.New("mqd: topic exists")

	// ErrClassTooWeak: the topic promises less than [WithMinClass] demands.
	ErrClassTooWeak = errors.New("mqd: durability class too weak")

	// ErrOffsetOutOfRange: the offset lies outside the log. The Error carries
	// the valid range.
	ErrOffsetOutOfRange = errors.New("mqd: offset out of range")

	// ErrDiverged: the log is not the one that a [Position] with an Epoch was taken from.
	// The broker's data have been replaced, as by an older backup, and the offset means
	// another record now. The partition has stopped; [Consumer.Seek] begins again, where the
	// program thinks right.
	ErrDiverged = errors.New("mqd: the log is another one")

	// ErrFenced: the consumer does not own the partition any more, or another process
	// has taken its instance over. What was not committed goes to the next owner.
	ErrFenced = errors.New("mqd: not the owner any more")

	// ErrThrottled: the broker has too much to do, or its disk is full. It took nothing; the
	// same later may go well. A producer with [WithIdempotence] tries again by itself.
	ErrThrottled = errors.New("mqd: the broker takes nothing for the moment")

	// ErrCorrupt: data does not match its checksum, here or in the broker's
	// store.
	ErrCorrupt = errors.New("mqd: corrupt data")

	// ErrInvalid: an argument or option that can never work.
	ErrInvalid = errors.New("mqd: invalid argument")
)

// Code is the broker's answer, with a name, a help text and whether a retry can
// help; package net/wire has the table.
type Code = wire.Code

// codeSentinels are the codes that have a sentinel.
var codeSentinels = map[Code]error{
	wire.CodeUnknownTopic:     ErrUnknownTopic,
	wire.CodeUnknownPartition: ErrUnknownPartition,
	wire.CodeTopicExists:      ErrTopicExists,
	wire.CodeClassTooWeak:     ErrClassTooWeak,
	wire.CodeBatchTooLarge:    ErrTooLarge,
	wire.CodeOffsetOutOfRange: ErrOffsetOutOfRange,
	wire.CodeCorrupt:          ErrCorrupt,
	wire.CodeCorruptBatch:     ErrCorrupt,
	wire.CodeBackpressure:     ErrThrottled,
	wire.CodeFencedMember:     ErrFenced,
	wire.CodeUnknownMember:    ErrFenced,
}

// Error is every failure that this package returns, but for [ErrInvalid] and
// [ErrBufferFull], which come as they are, a [BatchError], which holds one for
// each record, and the errors of a context in places where nothing had begun.
type Error struct {
	// Op is what was tried: "produce", "fetch", "topic-create", ...
	Op string
	// Topic and Partition are where; Partition is -1 for a whole topic.
	Topic     string
	Partition int32
	// Offset is the offset in question for a fetch or an offset to trim to that is out
	// of range, else -1.
	Offset int64
	// Code is the broker's answer, 0 where the broker did not answer.
	Code Code
	// Retriable: the same call may succeed later.
	Retriable bool
	// OutcomeUnknown: records of the call may or may not be in the log.
	// errors.Is finds [ErrOutcomeUnknown].
	OutcomeUnknown bool
	// ValidLow and ValidHigh are the valid range of an offset out of range, both -1
	// where it is not known, or 0 and the limit in bytes of a batch too large. Of a fetch
	// at damaged data ValidLow is the next offset that can be read, if it is known. Else
	// both are 0.
	ValidLow, ValidHigh int64
	// Err is the cause; may be nil with a Code.
	Err error
}

// Error says what was tried, where, and what came of it.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("mqd: ")
	b.WriteString(e.Op)
	if e.Topic != "" {
		b.WriteString(" " + e.Topic)
		if e.Partition >= 0 {
			fmt.Fprintf(&b, "/%d", e.Partition)
		}
		if e.Offset >= 0 {
			fmt.Fprintf(&b, " at offset %d", e.Offset)
		}
	}
	cause := ""
	if e.Err != nil {
		cause = plain(e.Err)
	}
	// A refused hello tells its code itself.
	if e.Code != wire.CodeNone && !errors.As(e.Err, new(*link.Refusal)) {
		fmt.Fprintf(&b, ": %s: %s", e.Code, e.Code.Help())
		cause = e.news(cause)
	}
	if e.Code == wire.CodeOffsetOutOfRange && e.ValidHigh >= 0 {
		fmt.Fprintf(&b, " (%d to %d)", e.ValidLow, e.ValidHigh)
	}
	if cause != "" {
		b.WriteString(": " + cause)
	}
	if e.OutcomeUnknown && !errors.Is(e.Err, ErrOutcomeUnknown) {
		b.WriteString(": outcome unknown")
	}
	return b.String()
}

// news is what a cause says that the name of the topic and the code's own words do not.
func (e *Error) news(cause string) string {
	if kind, ok := codeSentinels[e.Code]; ok {
		if rest, ok := strings.CutPrefix(cause, plain(kind)); ok && (rest == "" || strings.HasPrefix(rest, ": ")) {
			cause = strings.TrimPrefix(rest, ": ")
		}
	}
	if cause == e.Code.Help() || e.Topic != "" && cause == strconv.Quote(e.Topic) {
		return ""
	}
	return cause
}

// plain is an error's text for use within another one: the name of the package
// stands once, at the beginning.
func plain(err error) string {
	lines := strings.Split(err.Error(), "\n")
	for i, line := range lines {
		lines[i] = strings.ReplaceAll(strings.TrimPrefix(line, "mqd: "), ": mqd: ", ": ")
	}
	return strings.Join(lines, "; ")
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is makes errors.Is find [ErrOutcomeUnknown] and the sentinel of the code.
func (e *Error) Is(target error) bool {
	if target == ErrOutcomeUnknown {
		return e.OutcomeUnknown
	}
	s, ok := codeSentinels[e.Code]
	return ok && s == target
}

// codeError is the broker's refusal of an operation on a topic or partition.
func codeError(op, topic string, partition int32, code Code, message string) *Error {
	e := &Error{Op: op, Topic: topic, Partition: partition, Offset: -1, Code: code,
		Retriable: code.Retriable(), OutcomeUnknown: code.OutcomeUnknown()}
	if code == wire.CodeOffsetOutOfRange {
		e.ValidLow, e.ValidHigh = -1, -1
	}
	if message != "" {
		e.Err = errors.New(message)
	}
	return e
}

// readError is codeError for what changes nothing.
func readError(op, topic string, partition int32, code Code, message string) *Error {
	e := codeError(op, topic, partition, code, message)
	e.OutcomeUnknown = false
	return e
}

// opError wraps a failure that the broker did not answer with a code.
func opError(op, topic string, partition int32, err error) *Error {
	return &Error{Op: op, Topic: topic, Partition: partition, Offset: -1, Err: err,
		Retriable: errors.Is(err, ErrDisconnected)}
}

// unknownError is the failure of something that may have happened all the same.
func unknownError(op, topic string, partition int32, err error) *Error {
	e := opError(op, topic, partition, err)
	e.OutcomeUnknown = true
	return e
}

// invalid is the error of an argument that can never work.
func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}

// contextError prefers the cause that a context was given.
func contextError(ctx context.Context) error { return context.Cause(ctx) }

// refusal is opError that knows a hello which the broker refused.
func refusal(op, topic string, partition int32, err error) *Error {
	e := opError(op, topic, partition, err)
	var r *link.Refusal
	if errors.As(err, &r) {
		e.Code, e.Retriable = r.Code, r.Code.Retriable()
	}
	return e
}
