package benching

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/bench"
	"github.com/mqd-broker/mqd/bench/pace"
	"github.com/mqd-broker/mqd/bench/report"
	"github.com/mqd-broker/mqd/net/wire"
	"github.com/spf13/cobra"
)

// bench compare takes the first two cases: what differs in scrapes alone stands together.
func TestLoadsWithAndWithoutScrapesStandTogether(t *testing.T) {
	f, cmd := &runFlags{}, &cobra.Command{}
	f.add(cmd)
	if err := cmd.Flags().Parse([]string{"--scrape", "1s,0s"}); err != nil {
		t.Fatal(err)
	}
	loads, err := f.loads()
	if err != nil || len(loads) != 4 {
		t.Fatalf("%d loads, %v", len(loads), err)
	}
	if a, b := loads[0], loads[1]; a.Client != b.Client || a.Scrape != time.Second || b.Scrape != 0 {
		t.Errorf("%v\n%v", a.Title(), b.Title())
	}
}

func TestListsOfBenchRunAreCombined(t *testing.T) {
	f := &runFlags{
		classes: []string{"memory", "flushed"}, client: []string{"poll", "block"}, partitions: []int{1, 64},
		batch: []int{16}, depths: []int{4}, rates: []int64{0}, scrapes: []time.Duration{0}, spread: "one", read: "after", codec: "none", arrival: "constant",
		load: bench.Load{Connections: 1, Threads: 1, Duration: time.Second},
	}
	loads, err := f.loads()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range loads {
		if l.BatchMessages != 16 || l.Depth != 4 || l.Spread != bench.One || l.Reading != bench.After || l.Warmup >= 0 {
			t.Errorf("%+v", l)
		}
		got = append(got, l.Class.String()+" "+l.Client.String()+" "+strings.Repeat("|", l.Partitions/64))
	}
	want := []string{
		"memory poll ", "memory block ", "memory poll |", "memory block |",
		"flushed poll ", "flushed block ", "flushed poll |", "flushed block |",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if loads[0].Class != wire.ClassMemory {
		t.Errorf("class %v", loads[0].Class)
	}
}

func TestBurstsAreReadFromTheCommandLine(t *testing.T) {
	got, err := parseBurst("50000/50ms/1s")
	if want := (pace.Burst{Messages: 50000, Length: 50 * time.Millisecond, Period: time.Second}); err != nil || got != want {
		t.Errorf("%+v, error %v", got, err)
	}
	for _, bad := range []string{"50000", "0/1s/1s", "-5/1s/1s", "a/1s/1s", "1/x/1s", "1/1s/x", "1/1s/1s/1s"} {
		if _, err := parseBurst(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestAFileOfCasesIsReadAsFlagsAre(t *testing.T) {
	loads, err := ParseSpec([]byte(`
version: 1
all: {class: memory, duration: 2s, warmup: 500ms}
cases:
  - name: steady
    rate: 100000
    arrival: poisson
    sizes: 50-90
    keys: 10
  - {name: many, partitions: [1, 64], batch-messages: 16, depth: 8, codec: lz4, compressible: 0.5, class: flushed, client: block}
`))
	if err != nil || len(loads) != 3 {
		t.Fatalf("%+v, error %v", loads, err)
	}
	a, b := loads[0], loads[2]
	if a.Name != "steady" || a.Class != wire.ClassMemory || a.Rate != 100_000 || !a.Poisson || a.Sizes != "50-90" || a.Keys != 10 ||
		a.Duration != 2*time.Second || a.Warmup != 500*time.Millisecond || a.Client != bench.Poll {
		t.Errorf("%+v", a)
	}
	if b.Name != "many" || b.Class != wire.ClassFlushed || b.Partitions != 64 || b.BatchMessages != 16 || b.Depth != 8 || b.Codec != batch.CodecLz4 ||
		b.Plain != 0.5 || b.Rate != 0 || b.Client != bench.Block || b.Duration != 2*time.Second {
		t.Errorf("%+v", b)
	}
}

func TestBadFilesOfCasesAreRefused(t *testing.T) {
	for name, text := range map[string]string{
		"nothing": "", "no cases": "version: 1", "version": "version: 2\ncases: [{rate: 1}]", "key": "version: 1\ncases: [{raet: 1}]",
		"value": "version: 1\ncases: [{rate: fast}]", "list": "version: 1\ncases: [{spread: [one, key]}]", "top": "version: 1\nextra: 1\ncases: [{rate: 1}]",
		"of the run": "version: 1\ncases: [{server: x}]", "two": "version: 1\ncases: [{rate: 1}]\n---\n{}", "class": "version: 1\nall: {class: x}\ncases: [{rate: 1}]",
	} {
		if _, err := ParseSpec([]byte(text)); !errors.Is(err, errSpec) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestAFileOfCasesIsRefusedInTheWordsOfWhoWroteIt(t *testing.T) {
	for file, want := range map[string]string{
		"":                                             "nothing is in it",
		"fast":                                         "line 1: expected the keys version, all and cases",
		"cases: [{rate: 1}]":                           "version is missing, expected 1",
		"version: one\ncases: [{rate: 1}]":             "line 1: version one, expected 1",
		"version: 1\nextra: 1":                         `line 2: unknown key "extra", expected version, all or cases`,
		"version: 1\nversion: 1":                       `line 2: "version" is here for the second time`,
		"version: 1\nall: 5\ncases: [{rate: 1}]":       "line 2: expected names of flags with their values, as rate: 1000",
		"version: 1\ncases: {rate: 1}":                 "line 2: cases is no list",
		"version: 1\ncases: []":                        "no cases",
		"version: 1\ncases:\n- 5":                      "line 3: expected names of flags with their values, as rate: 1000",
		"version: 1\ncases:\n- rate: 1\n  rate: 2":     `line 4: mapping key "rate" already defined at line 3`,
		"version: 1\ncases: [{raet: 1}]":               `case 1: unknown key "raet"`,
		"version: 1\ncases: [{rate: 1}, {rate: fast}]": "case 2: rate is fast, expected a whole number",
		"version: 1\ncases: [{rate: [1, 2.5]}]":        "case 1: rate is 2.5, expected a whole number",
		"version: 1\ncases: [{duration: 5}]":           "case 1: duration is 5, expected a duration such as 100ms or 30s",
		"version: 1\ncases: [{scrape: often}]":         "case 1: scrape is often, expected a duration such as 100ms or 30s",
		"version: 1\ncases: [{key-skew: much}]":        "case 1: key-skew is much, expected a number",
		"version: 1\ncases: [{connections: {a: 1}}]":   "case 1: connections is map[a:1], expected a whole number",
		"version: 1\ncases: [{spread: [one, key]}]":    "case 1: spread is a list, expected one value",
	} {
		if _, err := ParseSpec([]byte(file)); text(err) != "file of cases: "+want {
			t.Errorf("%q: %v, want %s", file, err, want)
		}
	}
	// What holds for several cases can be said once.
	loads, err := ParseSpec([]byte("version: 1\ncases:\n- &a {rate: 5}\n- {<<: *a, depth: 3}\n- *a"))
	if err != nil || len(loads) != 3 || loads[1].Rate != 5 || loads[1].Depth != 3 || loads[2].Rate != 5 {
		t.Errorf("%+v, error %v", loads, err)
	}
}

func TestTheGateLooksAtTheUpperBound(t *testing.T) {
	c := report.Comparison{Ratios: []report.Ratio{{Percentile: "p50", High: 9}, {Percentile: "p99", High: 1.19}}}
	if err := gate(c, 1.2); err != nil {
		t.Error(err)
	}
	if err := gate(c, 1.1); !errors.Is(err, errSlower) {
		t.Errorf("error %v", err)
	}
	if err := gate(c, 0); err != nil {
		t.Error(err)
	}
}

func TestEveryProfileIsAFileOfLoads(t *testing.T) {
	var named []string
	for _, name := range profileNames() {
		text, err := profileText(name)
		if err != nil {
			t.Fatal(err)
		}
		loads, err := ParseSpec(text)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, l := range loads {
			if err := l.Validate(); err != nil || !l.Open() {
				t.Errorf("%s: %s: open %v, error %v", name, l.Title(), l.Open(), err)
			}
			named = append(named, l.Name)
		}
	}
	want := []string{"burst", "constant", "day", "180 B", "1 KiB", "4 KiB", "16 KiB", "64 KiB", "256 KiB", "1 MiB"}
	if !slices.Equal(named, want) {
		t.Errorf("cases %q, want %q", named, want)
	}
}

// flagsOf are the flags of a command line of bench run.
func flagsOf(t *testing.T, args ...string) (*runFlags, *cobra.Command) {
	t.Helper()
	f, cmd := &runFlags{}, &cobra.Command{}
	f.add(cmd)
	f.addCases(cmd)
	if err := cmd.Flags().Parse(args); err != nil {
		t.Fatal(err)
	}
	return f, cmd
}

func TestFlagsWinOverAProfile(t *testing.T) {
	load := func(args ...string) ([]bench.Load, error) {
		f, cmd := flagsOf(t, args...)
		return f.cases(cmd)
	}
	loads, err := load("--profile", "day", "--class", "memory,written", "--duration", "3s", "--repeat", "2")
	if err != nil || len(loads) != 2 {
		t.Fatalf("%d loads, error %v", len(loads), err)
	}
	for i, class := range []wire.Class{wire.ClassMemory, wire.ClassWritten} {
		if l := loads[i]; l.Class != class || l.Duration != 3*time.Second || l.Day != 3*time.Second || l.Rate != 115_741 || l.Client != bench.Poll {
			t.Errorf("%+v", l)
		}
	}
	if _, err := load("--profile", "night"); err == nil || !strings.Contains(err.Error(), "burst, constant, day, sizes") {
		t.Errorf("an unknown profile: %v", err)
	}
	if _, err := load("--profile", "day", "--spec", "x.yaml"); !errors.Is(err, errSpec) {
		t.Errorf("both: %v", err)
	}
	// Nobody but the user of a file says what is in it.
	if _, err := load("--spec", "x.yaml", "--rate", "5"); !errors.Is(err, errSpec) || !strings.Contains(err.Error(), "--rate describes a load") {
		t.Errorf("a load beside a file: %v", err)
	}
}

// What a load takes for "not said" is not what somebody has said.
func TestNonsenseIsNotMeasuredAsTheDefault(t *testing.T) {
	for flags, want := range map[string]string{
		"--rate=100,-5":        "--rate is -5, expected 0 or more",
		"--duration=0s":        "--duration is 0s, expected more than 0",
		"--duration=-1s":       "--duration is -1s, expected more than 0",
		"--warmup=-1s":         "--warmup is -1s, expected 0 or more",
		"--partitions=1,0":     "--partitions is 0, expected 1 to 10000",
		"--batch-messages=0":   "--batch-messages is 0, expected 1 to 100000",
		"--connections=0":      "--connections is 0, expected 1 to 1000",
		"--threads=65":         "--threads is 65, expected 1 to 64",
		"--depth=-1":           "--depth is -1, expected 0 to 32768",
		"--size=-1":            "--size is -1, expected 0 or more",
		"--burst=0/50ms/1s":    `--burst "0/50ms/1s": expected 1 message or more`,
		"--depth=0 --warmup=0": "",
	} {
		f, cmd := flagsOf(t, strings.Fields(flags)...)
		_, err := f.cases(cmd)
		if got := text(err); got != want {
			t.Errorf("%s: %q, want %q", flags, got, want)
		}
	}
	_, err := ParseSpec([]byte("version: 1\ncases: [{partitions: 0}]"))
	if want := "file of cases: case 1: --partitions is 0, expected 1 to 10000"; text(err) != want {
		t.Errorf("in a file: %q, want %q", text(err), want)
	}
	f, cmd := flagsOf(t, "--arrival=day")
	loads, err := f.cases(cmd)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := text(loads[0].Validate()), "invalid setting: arrivals of poisson or a day (--arrival) without a rate (--rate)"; !strings.HasSuffix(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// text is what an error says, "" for none.
func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestCPUsThatMayNotBeUsedAreNamed(t *testing.T) {
	if got, want := text(mayUse([]int{1, 9}, []int{0, 1})), "--cpus has 9, expected some of 0 1"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if err := errors.Join(mayUse([]int{1, 0}, []int{0, 1}), mayUse([]int{9}, nil)); err != nil {
		t.Error(err)
	}
}

func TestAnAgentListensWhereItIsTold(t *testing.T) {
	for listen, want := range map[string]string{
		"0.0.0.0:7879": "tcp4", "127.0.0.1:0": "tcp4", "[::]:7879": "tcp", ":7879": "tcp", "localhost:7879": "tcp",
	} {
		if got, err := networkOf(listen); err != nil || got != want {
			t.Errorf("%s: %s, want %s, error %v", listen, got, want, err)
		}
	}
	for _, listen := range []string{"foo", "127.0.0.1:x", "127.0.0.1:65536"} {
		if _, err := networkOf(listen); text(err) != `--listen is "`+listen+`", expected host:port, with a port of 0 to 65535` {
			t.Errorf("%s: error %v", listen, err)
		}
	}
}
