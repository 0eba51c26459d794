package engine

import (
	"errors"

	"github.com/mqd-broker/mqd/engine/layout"
)

// Errors of the engine. They are compared with errors.Is.
var (
	// ErrBusy: memory or journal are full at the moment; try again after room
	// has been made. Never shown to clients as it is.
	ErrBusy = errors.New("no room at the moment")
	// ErrDiskFull: there is no room, and will not be before the disk has some.
	ErrDiskFull = errors.New("no room: the disk is full")
	// ErrStorage: the log has failed; it acknowledges nothing until it is
	// opened again.
	ErrStorage = errors.New("storage failed")
	// ErrDropped: the partition's topic is being deleted.
	ErrDropped = errors.New("partition dropped")
	// ErrClosing: the store is coming to an orderly end.
	ErrClosing = errors.New("store is closing")
	// ErrClassTooWeak: the producer demands a stronger class than the topic's.
	ErrClassTooWeak = errors.New("durability class weaker than demanded")
	// ErrTooLarge: the batch is over the topic's limit.
	ErrTooLarge = errors.New("batch larger than max.message.bytes")
	// ErrOutOfOrder: the batch of an idempotent producer does not follow the one
	// before, or is another than the one of its sequence number.
	ErrOutOfOrder = errors.New("sequence number out of order")
	// ErrForgotten: the batch has been appended, so long ago that its offset is not
	// known any more.
	ErrForgotten = errors.New("appended before, offset not known")
	// ErrFenced: the producer has written with a newer epoch.
	ErrFenced = errors.New("producer fenced by a newer epoch")
	// ErrOutOfRange: the offset is below the log start or above the log end.
	ErrOutOfRange = errors.New("offset out of range")
	// ErrCorrupt: what is stored at the offset does not check.
	ErrCorrupt = layout.ErrCorrupt
)
