package catalog

import (
	"errors"
	"fmt"
)

// What a command asks for is refused with one of these. They are compared with
// errors.Is.
var (
	// ErrInvalidTopic: a topic cannot have this name or id.
	ErrInvalidTopic = errors.New("invalid topic")
	// ErrInvalidPartitions: the number of partitions is out of range.
	ErrInvalidPartitions = errors.New("invalid number of partitions")
	// ErrInvalidConfig: a setting is unknown, given twice or out of range.
	ErrInvalidConfig = errors.New("invalid configuration")
	// ErrTopicExists: the name or the id is taken.
	ErrTopicExists = errors.New("topic exists")
	// ErrUnknownTopic: no topic has this id.
	ErrUnknownTopic = errors.New("unknown topic")
	// ErrProducers: producer ids are not the next ones.
	ErrProducers = errors.New("producer ids out of order")
)

// What stored bytes are refused with.
var (
	// ErrDamaged: a record or a snapshot is not what was written.
	ErrDamaged = errors.New("catalog damaged")
	// ErrUnsupported: a newer program wrote it, and it must not be skipped.
	ErrUnsupported = errors.New("catalog written by a newer program")
	// ErrOffset: a record was given out of order.
	ErrOffset = errors.New("catalog record out of order")
)

// FormatError says what is wrong with a record or a snapshot, and where.
type FormatError struct {
	What            string // "record" or "snapshot"
	Kind            error  // ErrDamaged or ErrUnsupported
	Field           string // as docs/format/catalog.md calls it
	At              int    // position in bytes from the start
	Expected, Found int64
}

// Error puts the parts in one line.
func (e *FormatError) Error() string {
	return fmt.Sprintf("catalog %s: %v: %s at byte %d: expected %d, found %d", e.What, e.Kind, e.Field, e.At, e.Expected, e.Found)
}

// Unwrap returns the kind.
func (e *FormatError) Unwrap() error { return e.Kind }
