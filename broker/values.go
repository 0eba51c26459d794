package broker

import (
	"errors"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/broker/catalog"
	"github.com/mqd-broker/mqd/broker/catalogfile"
	"github.com/mqd-broker/mqd/broker/options"
	"github.com/mqd-broker/mqd/engine"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/segment"
)

// What the front doors need of the engine, which they do not import.
type (
	// TopicID names a topic for life.
	TopicID = engine.TopicID
	// Class is a durability class; a greater one promises more.
	Class = engine.Class
)

// The names of package options that callers need.
type (
	// Options of a node. Zero fields take the defaults.
	Options = options.Node
	// Events tells what an operator should hear of.
	Events = options.Events
	// AutoCreate says what happens to metadata requests for topics that do not exist.
	AutoCreate = options.AutoCreate
)

// Topics is the catalog as a start reads it.
type Topics = catalogfile.Topics

// NewTopics makes the catalog for a recovery of the data directory o.Dir. report,
// which may be nil, tells an operator in one line of what was found.
func NewTopics(o Options, fs aio.FS, report func(format string, args ...any)) *Topics {
	return catalogfile.NewTopics(o, fs, report)
}

// CatalogConfig is the configuration of the catalog's partition.
func CatalogConfig() engine.PartitionConfig { return catalogfile.CatalogConfig() }

// What happens to metadata requests for topics that do not exist.
const (
	AutoCreateOff = options.AutoCreateOff
	AutoCreateOn  = options.AutoCreateOn
)

// The durability classes.
const (
	ClassNone    = engine.ClassNone
	ClassMemory  = engine.ClassMemory
	ClassWritten = engine.ClassWritten
	ClassFlushed = engine.ClassFlushed
)

// MaxPieces is the largest number of pieces of memory in the answer to a fetch.
const MaxPieces = engine.MaxPieces

// Encoding is the form of a batch in a produce request.
type Encoding uint8

const (
	// EncodingRecordBatch is the record batch v2, the form that is stored.
	EncodingRecordBatch Encoding = iota
	// EncodingPlain is the plain batch; see docs/format/batch.md.
	EncodingPlain
)

// The catalog knows nothing of the engine. Each index is 0, or their values differ
// and this does not compile.
var (
	_ = [1]struct{}{}[catalog.Memory-catalog.Class(ClassMemory)]
	_ = [1]struct{}{}[catalog.Written-catalog.Class(ClassWritten)]
	_ = [1]struct{}{}[catalog.Flushed-catalog.Class(ClassFlushed)]
	_ = [1]struct{}{}[catalog.LogAppendTime-catalog.TimestampType(batch.LogAppendTime)]
	_ = [1]struct{}{}[catalog.MinSegmentBytes-segment.MinSegmentBytes]
	_ = [1]struct{}{}[catalog.MaxSegmentBytes-segment.MaxSegmentBytes]
	_ = [1]struct{}{}[catalog.DefaultSegmentBytes-segment.DefaultSegmentBytes]
	_ = [1]struct{}{}[catalog.MinIndexInterval-segment.MinIndexInterval]
	_ = [1]struct{}{}[catalog.MaxIndexInterval-segment.MaxIndexInterval]
	_ = [1]struct{}{}[catalog.DefaultIndexInterval-segment.DefaultIndexInterval]
)

// codeOf is the code of an error of the engine.
func codeOf(err error) Code {
	switch {
	case err == nil:
		return OK
	case errors.Is(err, engine.ErrDropped):
		return UnknownTopic
	case errors.Is(err, engine.ErrClassTooWeak):
		return ClassTooWeak
	case errors.Is(err, engine.ErrTooLarge):
		return BatchTooLarge
	case errors.Is(err, engine.ErrForgotten):
		return DuplicateSequence
	case errors.Is(err, engine.ErrOutOfOrder):
		return OutOfOrderSequence
	case errors.Is(err, engine.ErrFenced):
		return FencedProducer
	case errors.Is(err, engine.ErrOutOfRange):
		return OffsetOutOfRange
	case errors.Is(err, engine.ErrCorrupt):
		return Corrupt
	case errors.Is(err, engine.ErrStorage):
		return Storage
	case errors.Is(err, engine.ErrClosing):
		return ShuttingDown
	}
	return Internal
}

// batchCode is the code of an error of package batch.
func batchCode(err error) Code {
	switch {
	case errors.Is(err, batch.ErrTooLarge):
		return BatchTooLarge
	case errors.Is(err, batch.ErrCorrupt):
		return CorruptBatch
	}
	return InvalidBatch
}

// catalogCode is the code of an error of package catalog.
func catalogCode(err error) Code {
	for _, c := range [...]struct {
		err  error
		code Code
	}{
		{catalog.ErrInvalidTopic, InvalidTopic},
		{catalog.ErrInvalidPartitions, InvalidPartitions},
		{catalog.ErrInvalidConfig, InvalidConfig},
		{catalog.ErrTopicExists, TopicExists},
		{catalog.ErrUnknownTopic, UnknownTopic},
	} {
		if errors.Is(err, c.err) {
			return c.code
		}
	}
	return Internal
}
