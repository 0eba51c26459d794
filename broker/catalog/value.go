package catalog

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// ValueType says how a setting's value is written.
type ValueType uint8

const (
	// BytesValue is a size: "4096", "64KiB", "512MiB".
	BytesValue ValueType = iota
	// DurationValue is a time with its unit: "200us", "100ms", "1.5s".
	DurationValue
	// MillisValue is a time in milliseconds, with no unit or with any: "604800000",
	// "168h".
	MillisValue
	// RatioValue is a part of a whole, from 0 to 1, with up to three decimals: "0.5". It
	// counts in thousandths.
	RatioValue
	// EnumValue is one of the words that Info.Words lists.
	EnumValue
)

// String names the type for a person.
func (t ValueType) String() string {
	switch t {
	case BytesValue:
		return "bytes"
	case DurationValue:
		return "duration"
	case MillisValue:
		return "milliseconds"
	case RatioValue:
		return "ratio"
	default:
		return "word"
	}
}

// units of sizes, the largest first.
var units = []struct {
	name string
	size int64
}{{"EiB", 1 << 60}, {"PiB", 1 << 50}, {"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}

// parseBytes reads a whole number of bytes with an optional unit.
func parseBytes(text string) (int64, error) {
	digits, size := text, int64(1)
	for _, u := range units {
		if d, ok := strings.CutSuffix(text, u.name); ok {
			digits, size = d, u.size
			break
		}
	}
	if digits == "" || digits[0] < '0' || digits[0] > '9' {
		return 0, fmt.Errorf("%q is no size, expected one such as 4096, 64KiB or 512MiB", text)
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n > math.MaxInt64/size {
		return 0, fmt.Errorf("%q is no size, expected one such as 4096, 64KiB or 512MiB", text)
	}
	return n * size, nil
}

// formatBytes is the inverse of parseBytes, in the largest unit that is exact.
func formatBytes(n int64) string {
	for _, u := range units[:len(units)-1] {
		if n >= u.size && n%u.size == 0 {
			return strconv.FormatInt(n/u.size, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10)
}

// formatDuration is Go's text without the zeros behind it: "1h" instead of "1h0m0s".
func formatDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

func parseDuration(text string) (int64, error) {
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%q is no duration, expected one such as 200us, 100ms or 1.5s", text)
	}
	return int64(d), nil
}

// parseMillis reads whole milliseconds, with a unit or without.
func parseMillis(text string) (int64, error) {
	if text != "" && strings.Trim(text, "0123456789") == "" {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n, nil
		}
	} else if d, err := time.ParseDuration(text); err == nil && d%time.Millisecond == 0 {
		return d.Milliseconds(), nil
	}
	return 0, fmt.Errorf("%q is no time in milliseconds, expected one such as 604800000, 90s or 168h", text)
}

// parseRatio reads a decimal number as thousandths.
func parseRatio(text string) (int64, error) {
	whole, part, _ := strings.Cut(text, ".")
	digits := whole + (part + "000")[:3]
	if n, err := strconv.ParseUint(digits, 10, 31); err == nil && len(part) <= 3 && whole != "" {
		return int64(n), nil
	}
	return 0, fmt.Errorf("%q is no ratio, expected one such as 0, 0.25 or 1", text)
}

// parse reads a value of i's type, whatever its bounds.
func (i *Info) parse(text string) (int64, error) {
	if i.limit && text == "-1" {
		return Unlimited, nil
	}
	switch i.Type {
	case BytesValue:
		return parseBytes(text)
	case DurationValue:
		return parseDuration(text)
	case MillisValue:
		return parseMillis(text)
	case RatioValue:
		return parseRatio(text)
	}
	for n, word := range i.Words {
		if text == word {
			return i.min + int64(n), nil
		}
	}
	return 0, fmt.Errorf("%q, expected one of %s", text, strings.Join(i.Words, ", "))
}

// format writes a value as parse reads it.
func (i *Info) format(v int64) string {
	if i.limit && v == Unlimited {
		return "-1"
	}
	switch i.Type {
	case BytesValue:
		return formatBytes(v)
	case DurationValue:
		return formatDuration(time.Duration(v))
	case MillisValue:
		return strconv.FormatInt(v, 10)
	case RatioValue:
		return strconv.FormatFloat(float64(v)/1000, 'f', -1, 64)
	}
	return i.Words[v-i.min]
}
