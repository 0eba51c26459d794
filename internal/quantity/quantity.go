// Package quantity writes numbers for a person.
package quantity

import (
	"fmt"
	"slices"
	"strings"
)

// integer is what can be counted.
type integer interface {
	~int | ~int32 | ~uint32 | ~int64 | ~uint64
}

// Of is a number of things, with the noun that fits it: "1 batch", "2,000 batches".
func Of[T integer](n T, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return Grouped(n) + " " + many
}

// Grouped is a number with a comma after every three digits: "1,234,567".
func Grouped[T integer](n T) string {
	text := fmt.Sprint(n)
	sign := ""
	if text[0] == '-' {
		sign, text = "-", text[1:]
	}
	var parts []string
	for len(text) > 3 {
		parts = append(parts, text[len(text)-3:])
		text = text[:len(text)-3]
	}
	parts = append(parts, text)
	slices.Reverse(parts)
	return sign + strings.Join(parts, ",")
}

// Bytes is a size in the unit that fits it, with three digits: "1.50 KiB".
func Bytes(n int64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	v, unit := float64(n), ""
	for _, u := range []string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"} {
		if unit = u; v < 1<<20 {
			break
		}
		v /= 1 << 10
	}
	v /= 1 << 10
	digits := 0
	if v < 10 {
		digits = 2
	} else if v < 100 {
		digits = 1
	}
	return fmt.Sprintf("%.*f %s", digits, v, unit)
}
