package group

import (
	"errors"
	"fmt"
)

// Code is the outcome of a request, or of one of its entries. Zero is success.
type Code uint8

// The codes.
const (
	OK Code = iota
	// Invalid: a name or a number of the request is out of range.
	Invalid
	// Unknown: there is no such group.
	Unknown
	// UnknownMember: the group has no such member, any more. It joins again.
	UnknownMember
	// Fenced: the member does not own the partition, or did so under an older
	// generation; or its instance has been taken over by another member.
	Fenced
	// Backwards: the offset is below the one that is committed.
	Backwards
	// Active: the group has members, or the partition an owner, which forbids it.
	Active
	// WrongMode: the group divides its partitions in another way.
	WrongMode
	// Limit: a limit is reached.
	Limit
	// Beyond: the offset is behind the end of the partition's log.
	Beyond
	// Raised: the offset was below the start of the partition's log; the start was
	// committed instead. This is no failure.
	Raised
)

var codeNames = [...]string{"OK", "Invalid", "Unknown", "UnknownMember", "Fenced", "Backwards", "Active", "WrongMode", "Limit", "Beyond", "Raised"}

// String is the code's name.
func (c Code) String() string {
	if int(c) < len(codeNames) {
		return codeNames[c]
	}
	return "Code(?)"
}

// What stored bytes are refused with. They are compared with errors.Is.
var (
	// ErrDamaged: a record or a snapshot is not what was written.
	ErrDamaged = errors.New("groups damaged")
	// ErrUnsupported: a newer program wrote it, and it must not be skipped.
	ErrUnsupported = errors.New("groups written by a newer program")
)

// FormatError says what is wrong with a record or a snapshot, and where.
type FormatError struct {
	What            string // "record" or "snapshot"
	Kind            error  // ErrDamaged or ErrUnsupported
	Field           string // as docs/format/groups.md calls it
	At              int    // position in bytes from the start
	Expected, Found int64
}

// Error puts the parts in one line.
func (e *FormatError) Error() string {
	return fmt.Sprintf("group %s: %v: %s at byte %d: expected %d, found %d", e.What, e.Kind, e.Field, e.At, e.Expected, e.Found)
}

// Unwrap returns the kind.
func (e *FormatError) Unwrap() error { return e.Kind }
