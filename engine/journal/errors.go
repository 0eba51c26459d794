package journal

import (
	"errors"
	"fmt"
)

// Errors of appending.
var (
	// ErrFull: no round buffer is free, or the ring has no room. Nothing has
	// happened; the caller tries again after the next progress.
	ErrFull = errors.New("journal is full")
	// ErrTooLarge: the body exceeds Options.MaxBody.
	ErrTooLarge = errors.New("entry is larger than the journal accepts")
	// ErrFailed: a write or a flush has failed; see Journal.Err. The journal
	// accepts nothing until it is opened again.
	ErrFailed = errors.New("journal has failed")
	// ErrClosed: the journal is closed or closing.
	ErrClosed = errors.New("journal is closed")
	// ErrDeviceFailed: a flush has failed on this device, here or in another
	// journal or segment; nothing on it is acknowledged any more.
	ErrDeviceFailed = errors.New("device has failed to flush")
)

// Errors of opening and replay.
var (
	// ErrNotJournal: both anchors are zero: the region was never made a journal.
	ErrNotJournal = errors.New("region holds no journal")
	// ErrAnchor: an anchor cannot be read; with both, the journal cannot be
	// opened.
	ErrAnchor = errors.New("anchor is damaged")
	// ErrVersion: written by a newer program than this.
	ErrVersion = errors.New("journal format is newer than this program")
	// ErrExists: there is a file where a journal was to be created.
	ErrExists = errors.New("file exists")
	// ErrRegion: the size or block size of the region does not fit.
	ErrRegion = errors.New("region does not fit")
	// ErrUnreadable: the device refuses to read more blocks than isolated
	// damage explains.
	ErrUnreadable = errors.New("region cannot be read")
)

// Errors of decoding, for tools and tests.
var (
	// ErrMagic: the block does not begin as a round (an anchor) does.
	ErrMagic = errors.New("wrong magic")
	// ErrChecksum: a CRC-32C does not fit.
	ErrChecksum = errors.New("wrong checksum")
	// ErrInvalid: a field has a value that no writer produces.
	ErrInvalid = errors.New("invalid field")
)

// WriteError is a failed or short write of a round or an anchor. LSN is 0 for an
// anchor.
type WriteError struct {
	LSN    uint64
	Pos    int64 // byte offset in the region
	Length int   // bytes
	Err    error
}

// Error says what was written and where.
func (e *WriteError) Error() string {
	if e.LSN == 0 {
		return fmt.Sprintf("journal: write of the anchor at %d: %v", e.Pos, e.Err)
	}
	return fmt.Sprintf("journal: write of round %d, %d bytes at %d: %v", e.LSN, e.Length, e.Pos, e.Err)
}

// Unwrap returns the cause.
func (e *WriteError) Unwrap() error { return e.Err }

// FlushError is a failed flush, or a failed DSYNC write, which contains one: an
// error of the whole device. errors.Is finds ErrDeviceFailed and the cause.
type FlushError struct {
	LSN uint64 // newest round that the flush was to make durable, 0 for an anchor's
	Err error
}

// Error says what was flushed.
func (e *FlushError) Error() string {
	return fmt.Sprintf("journal: flush up to round %d: %v", e.LSN, e.Err)
}

// Unwrap returns ErrDeviceFailed and the cause.
func (e *FlushError) Unwrap() []error { return []error{ErrDeviceFailed, e.Err} }

// KindError is an entry that this program must understand to recover and does
// not. It is an ErrVersion.
type KindError struct {
	UUID [16]byte
	LSN  uint64
	Kind Kind
}

// Error names the kind and the version that does not know it.
func (e *KindError) Error() string {
	return fmt.Sprintf("journal %x: round %d holds an entry of kind %d, which is required and unknown to format version %d: %v",
		e.UUID, e.LSN, e.Kind, Version, ErrVersion)
}

// Unwrap returns ErrVersion.
func (e *KindError) Unwrap() error { return ErrVersion }
