package checkpoint

import (
	"errors"
	"fmt"
)

var (
	// ErrNone: there is no checkpoint, or no node file.
	ErrNone = errors.New("not found")
	// ErrTruncated: the bytes end before what they must contain.
	ErrTruncated = errors.New("truncated")
	// ErrDamaged: a checksum or a rule of the format does not hold.
	ErrDamaged = errors.New("damaged")
	// ErrIdentity: it belongs to another node or shard.
	ErrIdentity = errors.New("belongs to another node or shard")
	// ErrUnsupported: a newer program wrote it. Nothing older may go on from
	// what it replaced.
	ErrUnsupported = errors.New("unsupported format version")
	// ErrHistory: an epoch table does not know what it would have to, or is full.
	ErrHistory = errors.New("not in the epoch table")
	// ErrTermsUsedUp: the node has started 2^31 - 1 times.
	ErrTermsUsedUp = errors.New("terms used up")
)

// FormatError says what is wrong with a file and where.
type FormatError struct {
	Path            string // "" where only bytes were given
	Kind            error  // one of the sentinels of this package
	Field           string // as docs/format/checkpoint.md calls it
	At              int64  // byte position in the file
	Expected, Found int64
}

// Error puts the parts in one line.
func (e *FormatError) Error() string {
	path := e.Path
	if path == "" {
		path = "checkpoint"
	}
	return fmt.Sprintf("%s: %v: %s at byte %d: expected %d, found %d", path, e.Kind, e.Field, e.At, e.Expected, e.Found)
}

// Unwrap returns the kind.
func (e *FormatError) Unwrap() error { return e.Kind }

func bad(kind error, field string, at, expected, found int64) error {
	return &FormatError{Kind: kind, Field: field, At: at, Expected: expected, Found: found}
}

// in names the file in err.
func in(path string, err error) error {
	var e *FormatError
	if errors.As(err, &e) {
		e.Path = path
	}
	return err
}
