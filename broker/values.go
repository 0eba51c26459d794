package broker

import "github.com/mqd-broker/mqd/engine"

// What the front doors need of the engine, which they do not import.
type (
	// TopicID names a topic for life.
	TopicID = engine.TopicID
	// Class is a durability class; a greater one promises more.
	Class = engine.Class
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
