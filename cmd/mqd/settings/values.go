package settings

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mqd-broker/mqd/engine/stage"
)

// Switch is the kind that a flag needs no value for. Libraries of flags know it by
// this name.
const Switch = "bool"

// value is how a setting's text becomes an option.
type value interface {
	// set parses text and stores the result, if it is within the limits.
	set(text string) error
	// kind names what is expected, in one word.
	kind() string
	// limits is the range or the list of what is allowed, "" for anything.
	limits() string
}

// sizeUnits are the units of sizes, the largest first.
var sizeUnits = []struct {
	name string
	size int64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}

// ParseSize reads a whole number of bytes with an optional unit.
func ParseSize(text string) (int64, error) {
	digits, unit := text, int64(1)
	for _, u := range sizeUnits {
		if d, ok := strings.CutSuffix(text, u.name); ok {
			digits, unit = d, u.size
			break
		}
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || int64(n) > math.MaxInt64/unit {
		return 0, fmt.Errorf("%q, expected a size such as 4096, 64KiB or 512MiB", text)
	}
	return int64(n) * unit, nil
}

// FormatSize is the inverse of ParseSize, in the largest unit that is exact.
func FormatSize(n int64) string {
	for _, u := range sizeUnits {
		if u.size > 1 && n >= u.size && n%u.size == 0 {
			return strconv.FormatInt(n/u.size, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10)
}

// sizeValue is a number of bytes, min to max, and a multiple of step.
type sizeValue struct {
	to             *int64
	min, max, step int64
	auto           bool // "auto" is allowed, and stored as 0
}

func (v sizeValue) kind() string   { return "size" }
func (v sizeValue) limits() string { return orAuto(FormatSize(v.min)+" to "+FormatSize(v.max), v.auto) }

func (v sizeValue) set(text string) error {
	if v.auto && text == Auto {
		*v.to = 0
		return nil
	}
	n, err := ParseSize(text)
	switch {
	case err != nil:
		return err
	case n < v.min || n > v.max:
		return fmt.Errorf("%s, expected %s", text, v.limits())
	case v.step > 0 && n%v.step != 0:
		return fmt.Errorf("%s, expected a multiple of %s", text, FormatSize(v.step))
	}
	*v.to = n
	return nil
}

// countValue is a whole number, min to max.
type countValue struct {
	to       *int
	min, max int
	auto     bool // "auto" is allowed, and stored as 0
	power    bool // only powers of two
}

func (v countValue) kind() string { return "number" }

func (v countValue) limits() string {
	return orAuto(strconv.Itoa(v.min)+" to "+strconv.Itoa(v.max), v.auto)
}

func (v countValue) set(text string) error {
	if v.auto && text == Auto {
		*v.to = 0
		return nil
	}
	n, err := strconv.Atoi(text)
	switch {
	case err != nil:
		return fmt.Errorf("%q, expected a whole number, %s", text, v.limits())
	case n < v.min || n > v.max:
		return fmt.Errorf("%s, expected %s", text, v.limits())
	case v.power && n&(n-1) != 0:
		return fmt.Errorf("%s, expected a power of two", text)
	}
	*v.to = n
	return nil
}

// durationValue is a time with its unit, min to max.
type durationValue struct {
	to       *time.Duration
	min, max time.Duration
}

func (v durationValue) kind() string { return "duration" }

func (v durationValue) limits() string { return formatDuration(v.min) + " to " + formatDuration(v.max) }

func (v durationValue) set(text string) error {
	d, err := time.ParseDuration(text)
	switch {
	case err != nil && strings.HasSuffix(text, "d"):
		return fmt.Errorf("%q, expected a duration such as 200us, 100ms or 30s; a day is 24h", text)
	case err != nil:
		return fmt.Errorf("%q, expected a duration such as 200us, 100ms or 30s", text)
	case d < v.min || d > v.max:
		return fmt.Errorf("%s, expected %s", text, v.limits())
	}
	*v.to = d
	return nil
}

// limitValue is a time of whole units, or off, which is stored as -1.
type limitValue struct {
	durationValue
	unit time.Duration
}

func (v limitValue) limits() string { return Off + ", or " + v.durationValue.limits() }

func (v limitValue) set(text string) error {
	if text == Off {
		*v.to = -1
		return nil
	}
	if err := v.durationValue.set(text); err != nil {
		return fmt.Errorf("%w, or %s", err, Off)
	}
	if *v.to%v.unit != 0 {
		return fmt.Errorf("%s, expected a multiple of %s", text, formatDuration(v.unit))
	}
	return nil
}

// stagesValue are times of stages: device=50ms,append=20ms, or off.
type stagesValue struct{ to *stage.Limits }

// Bounds of such a time.
const leastStage, mostStage = 100 * time.Microsecond, time.Minute

func (v stagesValue) kind() string { return "list" }

func (v stagesValue) limits() string {
	var names []string
	for _, info := range stage.Table {
		names = append(names, info.Name)
	}
	return fmt.Sprintf("%s, or STAGE=TIME,... of %s with %s to %s", Off, strings.Join(names, ", "), formatDuration(leastStage), formatDuration(mostStage))
}

func (v stagesValue) set(text string) error {
	var all stage.Limits
	if text == Off {
		*v.to = all
		return nil
	}
	for part := range strings.SplitSeq(text, ",") {
		name, of, _ := strings.Cut(strings.TrimSpace(part), "=")
		at := slices.IndexFunc(stage.Table[:], func(i stage.Info) bool { return i.Name == name })
		most, err := time.ParseDuration(of)
		if at < 0 || err != nil || most < leastStage || most > mostStage || all[at] != 0 {
			return fmt.Errorf("%q, expected %s", part, v.limits())
		}
		all[at] = int64(most)
	}
	*v.to = all
	return nil
}

// formatDuration writes a duration without units that are zero, in ASCII.
func formatDuration(d time.Duration) string {
	text := strings.Replace(d.String(), "\u00b5s", "us", 1)
	for _, zero := range []struct{ tail, keep string }{{"m0s", "m"}, {"h0m", "h"}} {
		if head, ok := strings.CutSuffix(text, zero.tail); ok {
			text = head + zero.keep
		}
	}
	return text
}

// wordValue is one of some words.
type wordValue struct {
	to    *string
	words []string
}

func (v wordValue) kind() string   { return "word" }
func (v wordValue) limits() string { return strings.Join(v.words, ", ") }

func (v wordValue) set(text string) error {
	if !slices.Contains(v.words, text) {
		return fmt.Errorf("%q, expected one of %s", text, v.limits())
	}
	*v.to = text
	return nil
}

// textValue is any text.
type textValue struct {
	to    *string
	empty bool   // may be empty
	word  string // stands for empty, and empty for it
}

func (v textValue) kind() string   { return "text" }
func (v textValue) limits() string { return "" }

func (v textValue) set(text string) error {
	if v.word != "" && text == v.word {
		text = ""
	}
	if text == "" && !v.empty && v.word == "" {
		return fmt.Errorf("empty")
	}
	*v.to = text
	return nil
}

// switchValue is true or false.
type switchValue struct{ to *bool }

func (v switchValue) kind() string   { return Switch }
func (v switchValue) limits() string { return "true, false" }

func (v switchValue) set(text string) error {
	switch text {
	case "true", "false":
		*v.to = text == "true"
		return nil
	}
	return fmt.Errorf("%q, expected true or false", text)
}

// cpusValue is a list of CPUs as the kernel writes them: "0-3,6".
type cpusValue struct{ to *[]int }

func (v cpusValue) kind() string   { return "list" }
func (v cpusValue) limits() string { return "auto or CPU numbers such as 0-3,6" }

func (v cpusValue) set(text string) error {
	if text == Auto {
		*v.to = nil
		return nil
	}
	cpus, err := ParseCPUs(text)
	if err != nil || len(cpus) == 0 {
		return fmt.Errorf("%q, expected %s", text, v.limits())
	}
	*v.to = cpus
	return nil
}

// MaxCPU is the largest number of a CPU that the kernel's affinity masks hold.
const MaxCPU = 1023

// ParseCPUs reads a list of numbers and ranges, in the order given. White space
// at the ends is ignored; the empty list has no CPU.
func ParseCPUs(text string) ([]int, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil, nil
	}
	var cpus []int
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(part, "-")
		lo, err := strconv.Atoi(first)
		hi := lo
		if err == nil && isRange {
			hi, err = strconv.Atoi(last)
		}
		if err != nil || lo < 0 || hi < lo || hi > MaxCPU {
			return nil, fmt.Errorf("%q is no list of CPUs", text)
		}
		for cpu := lo; cpu <= hi; cpu++ {
			if slices.Contains(cpus, cpu) {
				return nil, fmt.Errorf("%q names CPU %d twice", text, cpu)
			}
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}

func orAuto(limits string, allowed bool) string {
	if allowed {
		return Auto + ", or " + limits
	}
	return limits
}
