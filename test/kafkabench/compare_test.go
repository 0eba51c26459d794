package main

import (
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/bench"
	"github.com/mqd-broker/mqd/cmd/mqd/benching"
	"github.com/mqd-broker/mqd/net/wire"
	"github.com/mqd-broker/mqd/test/rig"
)

var long = flag.Bool("kafkabench.long", false, "test with Apache Kafka, where it is installed")

func TestEveryCaseIsAFileOfItsOwnInTheClass(t *testing.T) {
	cases, err := casesOf(compareCases, "written")
	if err != nil || len(cases) != 2 {
		t.Fatalf("%d cases, error %v", len(cases), err)
	}
	for i, text := range cases {
		loads, err := benching.ParseSpec(text)
		if err != nil || len(loads) != 1 || loads[0].Class != wire.ClassWritten || loads[0].Open() != (i == 0) || loads[0].Size != 180 {
			t.Errorf("case %d: %+v, error %v", i, loads, err)
		}
		short, err := lasting(text, 300*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		loads, err = benching.ParseSpec(short)
		if err != nil || loads[0].Duration != 300*time.Millisecond || loads[0].Warmup > 0 || loads[0].Class != wire.ClassWritten {
			t.Errorf("case %d: %+v, error %v", i, loads, err)
		}
	}
}

func TestCasesThatCannotBeComparedAreRefused(t *testing.T) {
	for name, text := range map[string]string{
		"a list":         "version: 1\ncases: [{rate: [1000, 2000]}]",
		"an unknown key": "version: 1\ncases: [{speed: 5}]",
		"nothing":        "",
	} {
		if _, err := casesOf([]byte(text), "flushed"); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

func TestTheTableHasMediansAndRatios(t *testing.T) {
	made := func(ack ...int64) [][]*bench.Result {
		var rounds []*bench.Result
		for _, v := range ack {
			rounds = append(rounds, &bench.Result{Load: bench.Load{Name: "even"}, Ack: bench.Summary{P50: v, P99: 10 * v, P999: 100 * v}, Rate: float64(v), Verdict: bench.Valid})
		}
		return [][]*bench.Result{rounds}
	}
	sides := []*side{{name: "A", durability: "flushed", rounds: made(3000, 1000, 2000)}, {name: "B", durability: "page cache", rounds: made(8000, 90_000, 7000)}}
	sides[1].rounds[0][1].Verdict = bench.Invalid
	var out strings.Builder
	if err := table(&out, "flushed", sides); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"| even | A | flushed | 2 µs | 20 µs | 200 µs | 0 µs | 0 µs | 2000 | 0 µs | in time |",
		"| even | B | page cache | 8 µs | 80 µs | 800 µs | 0 µs | 0 µs | 8000 | 0 µs | late in 1 of 3 |",
		"| | B : A | | 4 | 4 | 4 | - | - | 4 | - | |",
	} {
		if !strings.Contains(out.String(), line+"\n") {
			t.Errorf("no line\n%s\nin\n%s", line, out.String())
		}
	}
	sides[0].rounds[0][0].Verdict = bench.Failed
	if err := table(io.Discard, "flushed", sides); !errors.Is(err, bench.ErrFailed) {
		t.Errorf("error %v of a measurement that has lost messages", err)
	}
}

func TestWithoutApacheKafkaTheComparisonSaysSo(t *testing.T) {
	dir := t.TempDir()
	err := compare(t.Context(), []string{"-apache", filepath.Join(dir, "none"), "-dir", dir}, io.Discard)
	if !errors.Is(err, errNoApache) || !strings.Contains(err.Error(), "Java and Maven") {
		t.Errorf("error %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, error %v", left, err)
	}
	for _, args := range [][]string{{"-classes", "flushed,safe"}, {"-repeat", "0"}, {"-warm", "-1s"}, {"-spec", "none.yaml"}} {
		if err := compare(t.Context(), append(args, "-dir", dir), io.Discard); err == nil || errors.Is(err, errNoApache) {
			t.Errorf("%q: error %v", args, err)
		}
	}
}

// The real thing, in a form that is short and tells nothing of speed.
func TestThreeSidesRunFromEndToEnd(t *testing.T) {
	if !*long {
		t.Skip("only with -kafkabench.long: it needs Java, and Apache Kafka from test/interop/install.sh --broker")
	}
	rig.NeedDriver(t)
	spec := filepath.Join(t.TempDir(), "cases.yaml")
	if err := os.WriteFile(spec, []byte("version: 1\ncases:\n  - {name: open, rate: 2000, duration: 300ms, warmup: 0s}\n  - {name: closed, depth: 4, batch-messages: 5, duration: 300ms, warmup: 0s, partitions: 3}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := rig.DataDir(t)
	var out strings.Builder
	if err := compare(t.Context(), []string{"-mqd", rig.Binary(t), "-spec", spec, "-dir", dir, "-repeat", "2", "-warm", "1s"}, &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if rows := strings.Count(out.String(), "| Apache Kafka |"); rows != 6 {
		t.Errorf("%d rows of Apache Kafka, expected 6:\n%s", rows, out.String())
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, error %v", left, err)
	}
	t.Log(out.String())
}
