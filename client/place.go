package client

import (
	"time"

	"github.com/mqd-broker/mqd/net/wire"
)

// Place says where in a partition to begin: [Start], [End], [Offset] or [Time].
// The zero Place is [Start].
type Place struct {
	kind   placeKind
	offset int64
	at     time.Time
}

type placeKind uint8

const (
	placeStart placeKind = iota
	placeEnd
	placeOffset
	placeTime
)

// Start is the first record stored.
func Start() Place { return Place{kind: placeStart} }

// End is behind everything that can be read now: only new records follow.
func End() Place { return Place{kind: placeEnd} }

// Offset is a certain offset, 0 or greater. The values [OffsetStart] and
// [OffsetEnd] mean [Start] and [End].
func Offset(n int64) Place {
	switch n {
	case OffsetStart:
		return Start()
	case OffsetEnd:
		return End()
	}
	return Place{kind: placeOffset, offset: n}
}

// Time is the first record at or after t, or the end if there is none.
func Time(t time.Time) Place { return Place{kind: placeTime, at: t} }

// time is the place as a list offsets request has it; not for an offset.
func (p Place) time() int64 {
	switch p.kind {
	case placeEnd:
		return wire.TimeEnd
	case placeTime:
		return max(0, p.at.UnixMilli())
	}
	return wire.TimeStart
}
