package tally

import "github.com/mqd-broker/mqd/internal/invariant"

// Cause says what an append was refused for.
type Cause uint8

// The causes.
const (
	Memory      Cause = iota // for the newest bytes
	Journal                  // its ring has no room
	Pending                  // as many wait as may
	Reservation              // of offsets, not durable yet
	Slow                     // the ring is filling: it has to wait its time
	Disk                     // it is full
)

// OfSpace reports whether the cause may be that bytes find no space on the disk.
func (c Cause) OfSpace() bool { return c == Memory || c == Journal || c == Disk }

// Refused counts a refusal.
func (s *Stats) Refused(c Cause) {
	switch c {
	case Memory:
		s.BusyMemory++
	case Journal:
		s.BusyJournal++
	case Pending:
		s.BusyPending++
	case Reservation:
		s.BusyReservation++
	case Slow:
		s.BusySlow++
	case Disk:
		s.BusyDisk++
	default:
		invariant.Violated("tally: a refusal has a known cause")
	}
}
