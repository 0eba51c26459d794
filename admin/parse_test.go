package admin

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// samples are values by series, as written: name{label="value",...}.
type samples struct {
	values map[string]float64
	kinds  map[string]string // by name
}

var (
	nameForm  = regexp.MustCompile(`^mqd_[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
	labelForm = regexp.MustCompile(`^([a-z_]+)="((?:[^"\\\n]|\\[\\"n])*)"`)
)

// units may end the name of a metric, behind which only _total may stand. Other spellings
// of the same are wrong.
var badUnits = regexp.MustCompile(`_(ms|us|ns|msec|sec|secs|millis|micros|nanos|milliseconds|microseconds|nanoseconds|minutes|kib|mib|kb|mb|byte|size|percent)(_total)?$`)

// parse reads Prometheus' text format and takes nothing that it allows and this program
// has no reason for: HELP, TYPE and then all samples of a family, each once.
func parse(text string) (samples, error) {
	s := samples{map[string]float64{}, map[string]string{}}
	if !strings.HasSuffix(text, "\n") {
		return s, fmt.Errorf("the last line does not end")
	}
	name, kind, helped := "", "", ""
	inFamily := 0
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		fail := func(what string) error { return fmt.Errorf("line %d: %s: %q", i+1, what, line) }
		if rest, ok := strings.CutPrefix(line, "# HELP "); ok {
			var help string
			helped, help, _ = strings.Cut(rest, " ")
			switch _, twice := s.kinds[helped]; {
			case twice:
				return s, fail("a family for the second time")
			case name != "" && inFamily == 0:
				return s, fail("the family before has no sample")
			case help == "" || !strings.HasSuffix(help, ".") || strings.ToUpper(help[:1]) != help[:1]:
				return s, fail("help is no sentence")
			}
			name = ""
			continue
		}
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, kind, _ = strings.Cut(rest, " ")
			inFamily = 0
			switch {
			case name != helped || !nameForm.MatchString(name):
				return s, fail("a type without help, or a bad name")
			case kind != "counter" && kind != "gauge" && kind != "histogram":
				return s, fail("a bad type")
			case (kind == "counter") != strings.HasSuffix(name, "_total"):
				return s, fail("counters, and nothing else, end in _total")
			case badUnits.MatchString(name):
				return s, fail("the unit is not a base unit, or not in the plural")
			}
			s.kinds[name] = kind
			continue
		}
		series, number, _ := strings.Cut(line, " ")
		if at := strings.LastIndexByte(line, '}'); at >= 0 {
			series, number = line[:at+1], strings.TrimPrefix(line[at+1:], " ")
		}
		of := name
		if kind == "histogram" {
			end := strings.IndexByte(series, '{')
			if end < 0 || !slices.Contains([]string{name + "_bucket", name + "_sum", name + "_count"}, series[:end]) {
				return s, fail("a sample that is no part of a histogram")
			}
			of = series[:end]
		}
		if name == "" || !ofFamily(series, of) {
			return s, fail("a sample of another family")
		}
		v, err := strconv.ParseFloat(number, 64)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) || kind == "counter" && v < 0 {
			return s, fail("a bad value")
		}
		if _, twice := s.values[series]; twice {
			return s, fail("a series for the second time")
		}
		s.values[series] = v
		inFamily++
	}
	if inFamily == 0 {
		return s, fmt.Errorf("the last family has no sample")
	}
	return s, nil
}

// ofFamily reports whether a series is name with well-formed labels, each once.
func ofFamily(series, name string) bool {
	if series == name {
		return true
	}
	labels, ok := strings.CutPrefix(series, name+"{")
	if !ok {
		return false
	}
	seen := map[string]bool{}
	for {
		m := labelForm.FindStringSubmatch(labels)
		if m == nil || seen[m[1]] {
			return false
		}
		seen[m[1]] = true
		labels = labels[len(m[0]):]
		if labels == "}" {
			return true
		}
		if labels, ok = strings.CutPrefix(labels, ","); !ok {
			return false
		}
	}
}

func TestTheParserTellsBadFromGood(t *testing.T) {
	const head = "# HELP mqd_a_bytes Some bytes.\n# TYPE mqd_a_bytes gauge\n"
	for text, good := range map[string]bool{
		head + "mqd_a_bytes 1\n":                                  true,
		head + "mqd_a_bytes{a=\"x \\\" } y\",b=\"\"} 1e+06\n":     true,
		head + "mqd_a_bytes{a=\"x\"} 1\nmqd_a_bytes{a=\"y\"} 1\n": true,
		head + "mqd_a_bytes 1":                                    false,
		head + "mqd_a_bytes x\n":                                  false,
		head + "mqd_a_bytes NaN\n":                                false,
		head + "mqd_b_bytes 1\n":                                  false,
		head + "mqd_a_bytes{a=\"x} 1\n":                           false,
		head + "mqd_a_bytes{a=\"x\",a=\"y\"} 1\n":                 false,
		head + "mqd_a_bytes{a=\"x\"} 1\nmqd_a_bytes{a=\"x\"} 2\n": false,
		head: false,
		head + "mqd_a_bytes 1\n" + head + "mqd_a_bytes 1\n": false,
		"mqd_a_bytes 1\n": false,
		strings.ReplaceAll(head+"mqd_a_bytes 1\n", "_bytes", "_ms"):          false,
		strings.ReplaceAll(head+"mqd_a_bytes 1\n", "gauge", "counter"):       false,
		strings.ReplaceAll(head+"mqd_a_bytes 1\n", "_bytes", "_bytes_total"): false,
		strings.ReplaceAll(head+"mqd_a_bytes 1\n", "Some bytes.", "bytes"):   false,
	} {
		if _, err := parse(text); (err == nil) != good {
			t.Errorf("%q: %v", text, err)
		}
	}
}
