package settings

import (
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/engine/stage"
)

// values of a table with every default, to be read by tests.
func defaults(t *testing.T) *Config {
	t.Helper()
	c, err := Merge()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestEverySettingHasARowOfItsOwn(t *testing.T) {
	shape := regexp.MustCompile(`^[a-z]+\.[a-z]+(_[a-z]+)*$`)
	flagShape := regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)
	seen := map[string]bool{}
	all := Table()
	for i := range all {
		s := &all[i]
		if !shape.MatchString(s.Name) || !flagShape.MatchString(s.Flag) || s.Help == "" || s.Default == "" {
			t.Errorf("row %+v: name, flag, default or help", s)
		}
		for _, name := range []string{s.Name, "--" + s.Flag, s.Env()} {
			if seen[name] {
				t.Errorf("%s is there twice", name)
			}
			seen[name] = true
		}
		if strings.HasSuffix(s.Help, ".") || strings.ToLower(s.Help[:1]) != s.Help[:1] && !strings.HasPrefix(s.Help, "CPU") {
			t.Errorf("%s: help is a phrase, not a sentence: %q", s.Name, s.Help)
		}
	}
	if fields := reflect.TypeFor[Options]().NumField(); fields != len(all) {
		t.Errorf("%d options and %d rows", fields, len(all))
	}
}

// A row that stores into the option of another would leave one unset.
func TestEveryRowStoresIntoAnOptionOfItsOwn(t *testing.T) {
	for i := range Table() {
		o := Options{}
		s := table(&o)[i]
		texts := []string{s.Default, "true", "7MiB", "17", "7s", "3", "on", "off", "busy", "block", "uring", "json", "warn", "0-1", "text"}
		changed := false
		for _, text := range texts {
			o = Options{}
			if s.value.set(text) == nil && !reflect.DeepEqual(o, Options{}) {
				changed = true
				break
			}
		}
		n := 0
		v := reflect.ValueOf(o)
		for f := range v.NumField() {
			if !v.Field(f).IsZero() {
				n++
			}
		}
		if !changed || n != 1 {
			t.Errorf("%s changes %d options", s.Name, n)
		}
	}
}

func TestDefaultsAreAcceptedAndSafe(t *testing.T) {
	c := defaults(t)
	if c.Insecure || c.Listen != "127.0.0.1:7878" || c.AutoCreate {
		t.Errorf("insecure %v, auto create %v", c.Insecure, c.AutoCreate)
	}
	if c.WakeLimit >= 0 {
		t.Errorf("the machine's CPUs are kept awake, %v, and nobody has asked for it", c.WakeLimit)
	}
	if c.IdleTimeout != 120*time.Second || c.MaxMessageBytes != 1<<20 || c.Shards != 0 || c.JournalSize != 0 {
		t.Errorf("%+v", c.Options)
	}
	for name, where := range c.where {
		if where != defaultSource {
			t.Errorf("%s comes from %s", name, where)
		}
	}
}

func TestSizesAreReadAndWrittenExactly(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "1": 1, "4096": 4 << 10, "64KiB": 64 << 10, "1MiB": 1 << 20, "3GiB": 3 << 30, "2TiB": 2 << 40, "12B": 12,
	} {
		got, err := ParseSize(text)
		if err != nil || got != want {
			t.Errorf("%q is %d, %v", text, got, err)
		}
		if back, err := ParseSize(FormatSize(want)); err != nil || back != want {
			t.Errorf("%d was written as %q", want, FormatSize(want))
		}
	}
	for _, text := range []string{"", "KiB", "-1", "+1", "1.5MiB", "64KB", "64 KiB", "9223372036854775808", "8388608TiB", "0x10"} {
		if n, err := ParseSize(text); err == nil {
			t.Errorf("%q was taken for %d", text, n)
		}
	}
}

func TestDurationsAreWrittenShort(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"75us": 75 * time.Microsecond, "1ms": time.Millisecond, "1.5s": 1500 * time.Millisecond,
		"30s": 30 * time.Second, "2m": 2 * time.Minute, "1h": time.Hour, "1h0m5s": time.Hour + 5*time.Second, "24h": 24 * time.Hour,
	} {
		if got := formatDuration(d); got != want {
			t.Errorf("%v was written as %q", d, got)
		}
	}
}

func TestListsOfCPUsAreThoseOfTheKernel(t *testing.T) {
	for text, want := range map[string][]int{
		"": nil, "\n": nil, "3": {3}, "0-3": {0, 1, 2, 3}, "5,0-1\n": {5, 0, 1}, "1023": {1023},
	} {
		got, err := ParseCPUs(text)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q is %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"a", "1-", "-1", "3-1", "1,,2", "1024", "0-2,1", "1,1"} {
		if got, err := ParseCPUs(text); err == nil {
			t.Errorf("%q was taken for %v", text, got)
		}
	}
}

func TestTimesOfStagesAreReadByTheirNames(t *testing.T) {
	var none stage.Limits
	device := none
	device[stage.Device] = 20_000_000
	both := device
	both[stage.FetchWait] = 60_000_000_000
	for text, want := range map[string]stage.Limits{"off": none, "device=20ms": device, "fetch_wait=1m, device=20ms": both} {
		c, err := Merge(Layer{"trace.stages": {text, "flag"}})
		if err != nil || c.TraceStages != want {
			t.Errorf("%q: %v, %v", text, c.TraceStages, err)
		}
	}
	for _, text := range []string{"", "device", "device=", "device=20", "device=1us", "device=2m", "devices=20ms", "device=20ms,device=20ms", "device=20ms,", "off,device=20ms"} {
		if _, err := Merge(Layer{"trace.stages": {text, "flag"}}); err == nil || !strings.Contains(err.Error(), "expected off, or STAGE=TIME,... of socket, parse, append, round_wait, device,") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestLimitsMayBeOff(t *testing.T) {
	for text, want := range map[string]time.Duration{"off": -1, "0us": 0, "0s": 0, "10us": 10 * time.Microsecond, "100ms": 100 * time.Millisecond} {
		c, err := Merge(Layer{WakeLimit: {text, "flag"}})
		if err != nil || c.WakeLimit != want {
			t.Errorf("%q: %v, %v", text, c, err)
		}
	}
}

func TestValuesOutsideTheirLimitsAreRefusedWithTheLimits(t *testing.T) {
	for name, c := range map[string]struct{ setting, text, want string }{
		"size too small":    {"journal.size", "4096", "flag: journal.size is 4096, expected auto, or 256KiB to 64GiB"},
		"size odd":          {"journal.size", "1048577", "flag: journal.size is 1048577, expected a multiple of 4KiB"},
		"size no number":    {"cache.size", "lots", `flag: cache.size is "lots", expected a size such as 4096, 64KiB or 512MiB`},
		"number too large":  {"shard.count", "65", "flag: shard.count is 65, expected auto, or 1 to 64"},
		"number no number":  {"shard.count", "two", `flag: shard.count is "two", expected a whole number, auto, or 1 to 64`},
		"no power of two":   {"net.recv_buffers", "100", "flag: net.recv_buffers is 100, expected a power of two"},
		"duration unitless": {"net.idle_timeout", "30", `flag: net.idle_timeout is "30", expected a duration such as 200us, 100ms or 30s`},
		"duration in days":  {"net.idle_timeout", "7d", `flag: net.idle_timeout is "7d", expected a duration such as 200us, 100ms or 30s; a day is 24h`},
		"duration too long": {"shard.spin", "1s", "flag: shard.spin is 1s, expected 1us to 10ms"},
		"unknown word":      {"shard.pin", "yes", `flag: shard.pin is "yes", expected one of auto, on, off`},
		"no switch":         {"net.insecure", "1", `flag: net.insecure is "1", expected true or false`},
		"empty text":        {"data.dir", "", "flag: data.dir is empty"},
		"limit too long":    {"shard.wake_limit", "1s", "flag: shard.wake_limit is 1s, expected 0s to 100ms, or off"},
		"limit too fine":    {"shard.wake_limit", "1500ns", "flag: shard.wake_limit is 1500ns, expected a multiple of 1us"},
		"limit no time":     {"shard.wake_limit", "none", `flag: shard.wake_limit is "none", expected a duration such as 200us, 100ms or 30s, or off`},
		"no CPUs":           {"shard.cpus", "", `flag: shard.cpus is "", expected auto or CPU numbers such as 0-3,6`},
	} {
		_, err := Merge(Layer{c.setting: {c.text, "flag"}})
		if err == nil || err.Error() != c.want {
			t.Errorf("%s: %v\nwant %s", name, err, c.want)
		}
	}
}
