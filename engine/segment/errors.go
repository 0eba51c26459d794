package segment

import (
	"errors"
	"fmt"
)

// Failures of an index. Each but ErrUnsupported comes wrapped together with
// [ErrRebuild].
var (
	// ErrRebuild: the index cannot be used and the log can replace it.
	ErrRebuild = errors.New("index must be rebuilt")
	// ErrIndexMissing: there is no index file.
	ErrIndexMissing = errors.New("index missing")
	// ErrIndexTruncated: the file ends before what it must contain.
	ErrIndexTruncated = errors.New("index truncated")
	// ErrIndexDamaged: a checksum or a rule of the format does not hold.
	ErrIndexDamaged = errors.New("index damaged")
	// ErrIndexIdentity: it is the index of another segment.
	ErrIndexIdentity = errors.New("index of another segment")
	// ErrIndexStale: it describes a shorter or longer log than there is.
	ErrIndexStale = errors.New("index does not match its log")
	// ErrIndexOpen: a sealed index is needed and this one has no footer yet.
	ErrIndexOpen = errors.New("index not sealed")
	// ErrUnsupported: a newer program wrote it. It is not rebuilt, because that
	// would destroy what the newer program knows.
	ErrUnsupported = errors.New("unsupported format")
)

// Failures of a log.
var (
	// ErrCorrupt: bytes of a log are not what was written. Every [CorruptError]
	// is one.
	ErrCorrupt = errors.New("log corrupt")
	// ErrLogSize: a log has not the size that its writer gave it.
	ErrLogSize = errors.New("log has another size")
)

// IndexError says what is wrong with an index file, and where.
type IndexError struct {
	Path            string // "" where only bytes were given
	Kind            error  // one of the ErrIndex sentinels, or ErrUnsupported
	Field           string // as docs/format/index.md calls it
	At              int64  // byte position in the file
	Expected, Found int64
}

// Error puts the parts in one line.
func (e *IndexError) Error() string {
	path := e.Path
	if path == "" {
		path = "index"
	}
	return fmt.Sprintf("%s: %v: %s at byte %d: expected %d, found %d", path, e.Kind, e.Field, e.At, e.Expected, e.Found)
}

// Unwrap returns the kind, and ErrRebuild unless rebuilding would be wrong.
func (e *IndexError) Unwrap() []error {
	if e.Kind == ErrUnsupported {
		return []error{e.Kind}
	}
	return []error{e.Kind, ErrRebuild}
}

// Check is a rule that a log must hold to, as far as it can be broken.
type Check uint8

// The checks. Their numbers stand in the quarantine list of an index.
const (
	// CheckNone is no broken rule.
	CheckNone Check = iota
	// CheckEnd: the log ends within a batch.
	CheckEnd
	// CheckMagic: no record batch v2 begins here.
	CheckMagic
	// CheckLength: the length is below a header, above the limit, or leads
	// past the end of the log.
	CheckLength
	// CheckCRC: the batch's CRC-32C does not match.
	CheckCRC
	// CheckFields: offset delta or record count make no sense although the
	// CRC matches.
	CheckFields
	// CheckOffset: the base offset does not follow the batch before.
	CheckOffset
	// CheckEpoch: the leader epoch is not the one of these offsets.
	CheckEpoch
	// CheckRegion: an aligned 4 KiB piece of a sealed log has changed, and
	// nothing else tells which batch it was.
	CheckRegion
	// CheckTail: the space behind the log's end is not zero.
	CheckTail

	checks // the number of checks
)

var checkNames = [checks]string{"none", "end of log", "magic", "length", "crc", "fields", "offset", "epoch", "region", "tail"}

// String names the check.
func (c Check) String() string {
	if c >= checks {
		return fmt.Sprintf("check(%d)", uint8(c))
	}
	return checkNames[c]
}

// CorruptError is damage in a log: where, which rule, what was expected.
type CorruptError struct {
	Path            string
	Pos             int64 // byte position in the log
	Offset          int64 // offset that was expected there, -1 if unknown
	Check           Check
	Expected, Found int64
}

// Error puts the parts in one line.
func (e *CorruptError) Error() string {
	form := "%s: %v: %v at byte %d, offset %d: expected %d, found %d"
	if e.Check == CheckCRC || e.Check == CheckRegion {
		form = "%s: %v: %v at byte %d, offset %d: expected %#08x, found %#08x"
	}
	return fmt.Sprintf(form, e.Path, ErrCorrupt, e.Check, e.Pos, e.Offset, e.Expected, e.Found)
}

// Unwrap returns ErrCorrupt.
func (e *CorruptError) Unwrap() error { return ErrCorrupt }
