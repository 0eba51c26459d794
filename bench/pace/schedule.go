// Package pace says when the messages of an open loop are meant to be sent: absolute times
// that nothing moves.
package pace

import (
	"errors"
	"fmt"
	"math/bits"
	"time"
)

// ErrSchedule: a schedule has no times.
var ErrSchedule = errors.New("schedule")

// Schedule is when messages of an open loop are meant to be sent. They arrive
// in groups of Batch messages, as an application hands them over; a group is one
// frame. The times depend on nothing but the schedule: what falls behind does
// not move what comes after.
type Schedule struct {
	// Rate is the number of messages a second; 0 with Burst.
	Rate int64
	// Batch is the number of messages of a group, 1 or more.
	Batch int64
	// Burst, if Messages is not 0, replaces the even rate.
	Burst Burst
	// Poisson makes the gaps random, with the same mean: arrivals of many that
	// know nothing of each other.
	Poisson bool
	// Day, if not 0, makes Rate the mean of a curve that repeats after so long: a day of
	// many users, with a quiet night and three peaks; see [PeakOfDay]. A day may be short:
	// its rates are the same, what is shorter is how long each lasts.
	Day time.Duration
}

// Burst is a load that comes in bursts: Messages of them evenly within Length,
// then silence until the Period is over.
type Burst struct {
	Messages int64         `json:"messages"`
	Length   time.Duration `json:"length_ns"`
	Period   time.Duration `json:"period_ns"`
}

// Bounds of the length of a day.
const (
	shortestDay = perDay * time.Millisecond
	longestDay  = hours * time.Hour
)

// Validate reports a schedule that has no times.
func (s Schedule) Validate() error {
	switch {
	case s.Batch < 1:
		return fmt.Errorf("%w: %d messages a batch, expected at least 1", ErrSchedule, s.Batch)
	case s.Burst.Messages == 0 && s.Rate < 1:
		return fmt.Errorf("%w: rate %d messages/s, expected at least 1", ErrSchedule, s.Rate)
	case s.Burst.Messages < 0 || s.Burst.Messages > 0 && (s.Burst.Length <= 0 || s.Burst.Period < s.Burst.Length):
		return fmt.Errorf("%w: burst of %d messages in %v every %v: the length must be positive and within the period",
			ErrSchedule, s.Burst.Messages, s.Burst.Length, s.Burst.Period)
	case s.Poisson && s.Burst.Messages > 0 || s.Day != 0 && (s.Poisson || s.Burst.Messages > 0):
		return fmt.Errorf("%w: bursts, Poisson arrivals, a day: expected one of them", ErrSchedule)
	case s.Day != 0 && (s.Day < shortestDay || s.Day > longestDay):
		return fmt.Errorf("%w: a day of %v, expected %v to %v", ErrSchedule, s.Day, shortestDay, longestDay)
	}
	return nil
}

// At is the intended time of group i, from 0, in nanoseconds after the start, if
// they are not random. A schedule lasts 292 years.
func (s Schedule) At(i int64) int64 {
	if s.Day != 0 {
		return s.inDay(i)
	}
	if s.Burst.Messages == 0 {
		return mulDiv(i*s.Batch, int64(time.Second), s.Rate)
	}
	groups := s.Groups()
	return i/groups*int64(s.Burst.Period) + mulDiv(i%groups, int64(s.Burst.Length), groups)
}

// Groups is the number of groups of a burst.
func (s Schedule) Groups() int64 { return (s.Burst.Messages + s.Batch - 1) / s.Batch }

// PerSecond is the mean rate in messages a second.
func (s Schedule) PerSecond() float64 {
	if s.Burst.Messages == 0 {
		return float64(s.Rate)
	}
	return float64(s.Groups()*s.Batch) / s.Burst.Period.Seconds()
}

// mulDiv is a * b / c without overflow in between; none is negative.
func mulDiv(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(q)
}
