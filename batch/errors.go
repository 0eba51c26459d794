package batch

import (
	"errors"
	"fmt"
)

// The kinds of failure. Every error of this package is one of them or wraps one
// of them; an [Error] around it names the field, the place and the two values.
var (
	// ErrTruncated means that the bytes end before the structure does. More
	// bytes may cure it.
	ErrTruncated = errors.New("truncated")

	// ErrCorrupt means that a checksum does not match its bytes.
	ErrCorrupt = errors.New("checksum mismatch")

	// ErrMagic means a message format other than record batch v2.
	ErrMagic = errors.New("unsupported message format")

	// ErrTooLarge means that a size exceeds its limit: a batch the broker's, a
	// record the builder's, decompressed records the reader's.
	ErrTooLarge = errors.New("too large")

	// ErrFull means that a record does not fit into a builder now, but would
	// fit into an empty one: finish the batch and append to the next.
	ErrFull = errors.New("batch: full")

	// ErrCodec means that the attributes name a compression that does not exist.
	ErrCodec = errors.New("unknown compression codec")

	// ErrCompression means that compressed records do not decode.
	ErrCompression = errors.New("compressed records do not decode")

	// ErrInvalid means that a field has a value that the format or the rule in
	// question forbids.
	ErrInvalid = errors.New("invalid")
)

// Error says what is wrong with a batch and where. errors.Is finds its kind.
type Error struct {
	Kind  error  // one of the sentinels of this package
	Field string // the field as docs/format/batch.md calls it
	// At is the field's position in bytes: from the start of the batch for a
	// header field, from the start of the decompressed records for a field of a
	// record.
	At int
	// Record is the index of the record within its batch, or of the message
	// within its plain batch; -1 where the failure belongs to none.
	Record   int
	Expected int64 // the expected value, or the bound that Found violates
	Found    int64
	Cause    error // what a compression library said, or nil
}

// Error gives kind, field, place, expected and found in one line.
func (e *Error) Error() string {
	place := fmt.Sprintf("%s at byte %d", e.Field, e.At)
	if e.Record >= 0 {
		place = fmt.Sprintf("record %d: %s", e.Record, place)
	}
	if e.Cause != nil {
		return fmt.Sprintf("batch: %s: %v: %v", place, e.Kind, e.Cause)
	}
	if e.Kind == ErrCorrupt {
		return fmt.Sprintf("batch: %s: %v: expected %#08x, found %#08x", place, e.Kind, e.Expected, e.Found)
	}
	most := ""
	if e.Kind == ErrTooLarge {
		most = "at most "
	}
	return fmt.Sprintf("batch: %s: %v: expected %s%d, found %d", place, e.Kind, most, e.Expected, e.Found)
}

// Unwrap returns the kind and, where there is one, the cause.
func (e *Error) Unwrap() []error {
	if e.Cause == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Cause}
}

// fail builds the error of a header field. It is kept out of line so that the
// checks stay small; formatting waits until somebody reads the error.
//
//go:noinline
func fail(kind error, field string, at int, expected, found int64) error {
	return &Error{Kind: kind, Field: field, At: at, Record: -1, Expected: expected, Found: found}
}

// failRecord builds the error of a field of record i.
//
//go:noinline
func failRecord(kind error, i int, field string, at int, expected, found int64) error {
	return &Error{Kind: kind, Field: field, At: at, Record: i, Expected: expected, Found: found}
}
