// Package draw gives the sizes and the keys of messages, one after another, from tables
// that a seed decides: a draw costs a load.
package draw

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
)

// The default mix of message sizes, in bytes: a truncated exponential
// distribution between MixMin and MixMax whose mean is MixMean.
const (
	MixMin  = 50
	MixMax  = 512
	MixMean = 180

	// sizeSteps is the length of a table of sizes, a power of two.
	sizeSteps = 8192
	// MaxSize is the largest message, in bytes.
	MaxSize = 1 << 20
)

// ErrSizes: sizes that messages cannot have.
var ErrSizes = errors.New("sizes of messages")

// Sizes gives the sizes of messages, one after another, from a table: a draw
// costs a load. Its zero value is not usable.
type Sizes struct {
	table []uint32
	next  uint32
	max   int
}

// FixedSize gives messages of n bytes each; the smallest that there may be has least.
func FixedSize(n, least int) (*Sizes, error) {
	if n < least || n > MaxSize {
		return nil, fmt.Errorf("%w: %d bytes, expected %d to %d", ErrSizes, n, least, MaxSize)
	}
	return &Sizes{table: []uint32{uint32(n)}, max: n}, nil
}

// MixedSizes gives sizes of the default mix in an order that seed decides. The
// table holds one size for each of 8192 equal parts of the distribution, so that
// its mean does not depend on the seed.
func MixedSizes(seed uint64) *Sizes {
	s := &Sizes{table: make([]uint32, sizeSteps), max: MixMax}
	rate := truncatedRate(MixMax-MixMin, MixMean-MixMin)
	whole := 1 - math.Exp(-rate*(MixMax-MixMin))
	for i := range s.table {
		u := (float64(i) + 0.5) / sizeSteps
		s.table[i] = uint32(math.Round(MixMin - math.Log1p(-u*whole)/rate))
	}
	s.shuffle(seed)
	return s
}

// ParseSizes reads how large messages are:
//
//	mix                          the default mix; so is ""
//	180                          all the same
//	50-512                       evenly between two bounds
//	lognormal:180:0.8:50-4096    median, sigma of the logarithm, bounds
//
// The smallest message that there may be has least bytes; seed decides the order.
func ParseSizes(text string, least int, seed uint64) (*Sizes, error) {
	if text == "" || text == "mix" {
		return MixedSizes(seed), nil
	}
	if n, err := strconv.Atoi(text); err == nil {
		return FixedSize(n, least)
	}
	median, sigma, bounds := 0.0, 0.0, text
	if rest, ok := strings.CutPrefix(text, "lognormal:"); ok {
		parts := strings.Split(rest, ":")
		if len(parts) != 3 {
			return nil, badSizes(text, least)
		}
		var merr, serr error
		median, merr = strconv.ParseFloat(parts[0], 64)
		sigma, serr = strconv.ParseFloat(parts[1], 64)
		if bounds = parts[2]; merr != nil || serr != nil || !(median > 0) || !(sigma > 0) || math.IsInf(median+sigma, 0) {
			return nil, badSizes(text, least)
		}
	}
	from, to, ok := strings.Cut(bounds, "-")
	low, lerr := strconv.Atoi(from)
	high, herr := strconv.Atoi(to)
	if !ok || lerr != nil || herr != nil || low < least || high < low || high > MaxSize {
		return nil, badSizes(text, least)
	}
	s := &Sizes{table: make([]uint32, sizeSteps), max: high}
	for i := range s.table {
		u := (float64(i) + 0.5) / sizeSteps
		n := float64(low) + u*float64(high-low)
		if median > 0 {
			n = median * math.Exp(sigma*math.Sqrt2*math.Erfinv(2*u-1))
		}
		s.table[i] = uint32(math.Round(min(max(n, float64(low)), float64(high))))
	}
	s.shuffle(seed)
	return s, nil
}

func badSizes(text string, least int) error {
	return fmt.Errorf("%w: %q, expected mix, a number, a range as 50-512, or lognormal:MEDIAN:SIGMA:LOW-HIGH, in bytes from %d to %d",
		ErrSizes, text, least, MaxSize)
}

func (s *Sizes) shuffle(seed uint64) {
	r := rand.New(rand.NewPCG(seed, 0))
	r.Shuffle(len(s.table), func(i, j int) { s.table[i], s.table[j] = s.table[j], s.table[i] })
}

// Next is the next size in bytes.
func (s *Sizes) Next() int {
	n := s.table[s.next&uint32(len(s.table)-1)]
	s.next++
	return int(n)
}

// Max is the largest size that comes, in bytes.
func (s *Sizes) Max() int { return s.max }

// Mean is the mean size in bytes.
func (s *Sizes) Mean() float64 {
	sum := 0.0
	for _, n := range s.table {
		sum += float64(n)
	}
	return sum / float64(len(s.table))
}

// truncatedRate is the rate of the exponential distribution that, cut off at
// limit, has the given mean, which must be below half of limit.
func truncatedRate(limit, mean float64) float64 {
	// The mean falls as the rate rises: halve the interval.
	low, high := 1e-9, 1.0
	for range 200 {
		mid := (low + high) / 2
		if 1/mid-limit/math.Expm1(mid*limit) > mean {
			low = mid
		} else {
			high = mid
		}
	}
	return (low + high) / 2
}
