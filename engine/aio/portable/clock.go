package portable

import (
	crand "crypto/rand"
	"math/rand/v2"
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
)

// epoch is where the monotonic time of this process's drivers begins.
var epoch = time.Now()

// clock is the machine's, read without entering the kernel.
type clock struct{}

var _ aio.Clock = clock{}

// Now is monotonic time; Since reads only that one of the clocks.
func (clock) Now() int64 { return time.Since(epoch).Nanoseconds() }

// Wall is the time of the calendar.
func (clock) Wall() int64 { return time.Now().UnixNano() }

// newRand makes a generator that nobody can foresee.
func newRand() *rand.ChaCha8 {
	var seed [32]byte
	crand.Read(seed[:]) // it never fails: see its documentation
	return rand.NewChaCha8(seed)
}
