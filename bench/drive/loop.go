package drive

import (
	"fmt"
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
)

// Idle says what a loop does while it waits.
type Idle uint8

const (
	// Poll polls, and yields the CPU after every turn that found nothing.
	Poll Idle = iota
	// Block sleeps in the kernel until something completes.
	Block
	// Adaptive polls as Poll does for 75 µs after the last work and then
	// sleeps: what a broker's shard does by default.
	Adaptive
)

const (
	// adaptiveSpin is how long an Adaptive loop polls.
	adaptiveSpin = 75 * time.Microsecond
	// maxSleep bounds a sleep, so that a loop sees that it is to end.
	maxSleep = 100 * time.Millisecond
	// Far is a time that a loop does not wait for.
	Far = int64(1) << 62
)

var idleNames = [...]string{"poll", "block", "adaptive"}

// String is the mode's name on the command line.
func (i Idle) String() string {
	if int(i) < len(idleNames) {
		return idleNames[i]
	}
	return fmt.Sprintf("idle(%d)", uint8(i))
}

// MarshalText puts the name into JSON.
func (i Idle) MarshalText() ([]byte, error) { return []byte(i.String()), nil }

// ParseIdle reads a name that String gives.
func ParseIdle(name string) (Idle, error) {
	for i, n := range idleNames {
		if n == name {
			return Idle(i), nil
		}
	}
	return 0, fmt.Errorf("%w: idle mode %q, expected poll, block or adaptive", ErrConfig, name)
}

// UnmarshalText reads the name from JSON.
func (i *Idle) UnmarshalText(text []byte) (err error) {
	*i, err = ParseIdle(string(text))
	return err
}

// Loop turns one driver on the thread that owns it.
type Loop struct {
	Driver   aio.Driver
	Clock    aio.Clock
	platform Platform
	idle     Idle
	lastWork int64
}

// NewLoop makes the loop of a driver.
func NewLoop(drv aio.Driver, p Platform, idle Idle) *Loop {
	return &Loop{Driver: drv, Clock: drv.Clock(), platform: p, idle: idle}
}

// Turn submits what is queued, delivers what has completed and, if that was
// nothing, idles as the mode has it: never beyond the time until.
func (l *Loop) Turn(until int64) error {
	if l.idle == Block {
		_, err := l.sleep(until)
		return err
	}
	n, err := l.Driver.Poll(0)
	if n > 0 || err != nil {
		if l.idle == Adaptive {
			l.lastWork = l.Clock.Now()
		}
		return err
	}
	if l.idle == Adaptive && l.Clock.Now()-l.lastWork > int64(adaptiveSpin) {
		n, err := l.sleep(until)
		if n > 0 {
			l.lastWork = l.Clock.Now()
		}
		return err
	}
	l.platform.Yield()
	return nil
}

func (l *Loop) sleep(until int64) (int, error) {
	wait := min(maxSleep, time.Duration(until-l.Clock.Now()))
	return l.Driver.Poll(max(0, wait))
}
