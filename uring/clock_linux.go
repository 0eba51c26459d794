package uring

import (
	crand "crypto/rand"
	"math/rand/v2"
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
)

// start is the zero of monotonic time, one for all drivers of the process.
var start = time.Now()

// clock reads the kernel's clocks through the vDSO: no system call.
type clock struct{}

var _ aio.Clock = clock{}

// Now is one reading of CLOCK_MONOTONIC. (time.Now reads two clocks.)
func (clock) Now() int64 { return int64(time.Since(start)) }

// Wall is the time of the calendar.
func (clock) Wall() int64 { return time.Now().UnixNano() }

// newRand returns a generator with a seed from the kernel.
func newRand() *rand.ChaCha8 {
	var seed [32]byte
	crand.Read(seed[:]) // never fails: see its documentation
	return rand.NewChaCha8(seed)
}
