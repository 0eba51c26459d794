// Package ethtool asks the drivers of network cards what only they know.
package ethtool

import (
	"encoding/binary"
	"time"
)

// Coalescing is how long a card keeps what it has received to itself, so that one
// interrupt tells of more of it.
type Coalescing struct {
	// Wait is the time from the first packet to the interrupt, in whole microseconds.
	Wait time.Duration
	// Adaptive says that the driver changes it with the load.
	Adaptive bool
}

// The kernel's struct ethtool_coalesce is a row of numbers of 32 bits.
const (
	coalesceNumbers = 23
	// atWait and atAdaptive are places in the row: rx_coalesce_usecs and
	// use_adaptive_rx_coalesce.
	atWait, atAdaptive = 1, 10
)

// coalescing reads the kernel's answer.
func coalescing(b *[4 * coalesceNumbers]byte) Coalescing {
	number := func(at int) uint32 { return binary.NativeEndian.Uint32(b[4*at:]) }
	return Coalescing{
		Wait:     time.Duration(number(atWait)) * time.Microsecond,
		Adaptive: number(atAdaptive) != 0,
	}
}
