package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mqd-broker/mqd/admin"
	"github.com/mqd-broker/mqd/bench/machine"
	"github.com/mqd-broker/mqd/cmd/mqd/benching"
	"github.com/mqd-broker/mqd/cmd/mqd/signals"
	"github.com/spf13/cobra"
)

// asProgram in the environment makes the test binary the program itself: the one
// that bench starts as a broker.
const asProgram = "TEST_AS_MQD"

func init() {
	if os.Getenv(asProgram) != "" {
		os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		// It would run all tests, and they would start it again.
		fmt.Fprintln(os.Stderr, "the tests of mqd are no broker unless "+asProgram+" is set")
		os.Exit(2)
	}
}

func newBench() *cobra.Command {
	return benching.New(benching.Needs{Platform: benchPlatform, Revision: revision, Reach: reach, Check: benchCheck})
}

// runBench runs a verb of bench and returns what it prints.
func runBench(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := newBench()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	var out bytes.Buffer
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	err := cmd.Execute()
	return out.String(), err
}

func TestAnInterruptedBenchSaysSo(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	cmd := newBench()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs([]string{"net", "--dir", t.TempDir()})
	cmd.SetOut(&bytes.Buffer{})
	if err := cmd.ExecuteContext(ctx); !errors.Is(err, signals.ErrInterrupted) {
		t.Errorf("ended with %v, want %v", err, signals.ErrInterrupted)
	}
}

func TestMetricsAreFetchedDuringAMeasurement(t *testing.T) {
	var n atomic.Int64
	var fails atomic.Bool
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1); fails.Load() || r.URL.Path != admin.PathMetrics {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer s.Close()
	if _, err := benchPlatform(); err != nil {
		t.Skipf("no driver here: %v", err)
	}
	t.Setenv(asProgram, "1")
	args := []string{"run", "--dir", t.TempDir(), "--class", "memory", "--messages", "300", "--duration", "1m", "--warmup", "0", "--client", "block", "--floors=false", "--scrape", "1ms,0s", "-o", "json"}
	out, err := runBench(t, append(args, "--", "--journal-size", "8MiB")...)
	if err != nil || strings.Count(out, "metrics fetched every 1ms") != 1 {
		t.Fatalf("%v:\n%s", err, out)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := machine.StartBroker(t.Context(), program, t.TempDir(), "--admin-listen=", "--journal-size", "8MiB")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.Stop(); err != nil {
			t.Error(err)
		}
	}()
	args = append(args, "--server", b.Addr)
	if _, err := runBench(t, args...); err == nil || !strings.Contains(err.Error(), "--admin") {
		t.Errorf("without an address: %v", err)
	}
	args = append(args, "--admin", s.Listener.Addr().String())
	if _, err := runBench(t, args...); err != nil || n.Load() == 0 {
		t.Errorf("%d requests, %v", n.Load(), err)
	}
	fails.Store(true)
	if _, err := runBench(t, args...); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("metrics that are not served: %v", err)
	}
}

func TestBadFlagsOfBenchAreRefused(t *testing.T) {
	for _, args := range [][]string{
		{"run", "--class", "sometimes"}, {"run", "--client", "spin"}, {"run", "--spread", "wide"}, {"run", "--read", "never"},
		{"run", "--burst", "many"}, {"run", "--repeat", "0"}, {"run", "-o", "yaml"}, {"run", "--server", "127.0.0.1:1", "--", "--idle", "busy"},
		{"run", "--scrape", "-1s"}, {"run", "--scrape", "often"}, {"run", "--codec", "zip"}, {"run", "--arrival", "never"}, {"run", "--sizes", "some"}, {"run", "--arrival", "poisson"}, {"max", "--keys", "-1"}, {"run", "--spec", "none.yaml"}, {"report"}, {"compare", "none"}, {"jitter", "--duration", "0s"},
		{"disk", "--ops", "erase"}, {"disk", "--sizes", "big"}, {"disk", "--file-size", "none"}, {"net", "--client", "spin"},
	} {
		if _, err := runBench(t, args...); err == nil {
			t.Errorf("%q was taken", args)
		}
	}
}

// Mistakes are told at once, by the flag's name, and not behind seconds of floors.
func TestBenchSaysAtOnceWhatIsWrong(t *testing.T) {
	if _, err := benchPlatform(); err != nil {
		t.Skipf("no driver here: %v", err)
	}
	clearEnv(t)
	for line, want := range map[string]string{
		"run --server 127.0.0.1:1 --client poll":  `no broker listens at 127.0.0.1:1 (connection refused); start one with "mqd serve", or name another broker with --server`,
		"backlog --pause 1s --server 127.0.0.1:1": `no broker listens at 127.0.0.1:1 (connection refused); start one with "mqd serve", or name another broker with --server`,
		"backlog --server 127.0.0.1:1":            `no broker listens at 127.0.0.1:1 (connection refused); start one with "mqd serve", or name another broker with --server`,
		"run --server 127.0.0.1:x":                `the broker's address (--server) is "127.0.0.1:x", expected host:port with a port of 1 to 65535`,
		"run --dir /no/such":                      "--dir is /no/such, expected a directory that exists",
		"disk --dir /no/such":                     "--dir is /no/such, expected a directory that exists",
		"disk --depths 1,0":                       "--depths is 0, expected 1 to 64",
		"disk --sizes 5000":                       "--sizes has 5000, expected 4KiB to 1MiB, in steps of 4KiB",
		"disk --sizes big":                        "--sizes has big, expected 4KiB to 1MiB, in steps of 4KiB",
		"disk --file-size 5":                      "--file-size is 5, expected 1MiB or a multiple of it",
		"disk --duration 0s":                      "--duration is 0s, expected more than 0",
		"net --depths 0":                          "--depths is 0, expected 1 to 32768",
		"net --batch-messages 0":                  "--batch-messages is 0, expected 1 to 100000",
		"jitter --duration 0s":                    "--duration is 0s, expected more than 0",
	} {
		out, err := runBench(t, strings.Fields(line)...)
		if err == nil || err.Error() != want || out != "" {
			t.Errorf("%s: error %v, want %s\n%s", line, err, want, out)
		}
	}
}

func TestBenchSaysThatItReplacesAResult(t *testing.T) {
	if _, err := benchPlatform(); err != nil {
		t.Skipf("no driver here: %v", err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "result.json")
	for _, want := range []string{"", file + " is of an earlier measurement; the result of this one replaces it\n"} {
		cmd := newBench()
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		var errs bytes.Buffer
		cmd.SetArgs([]string{"run", "--server", "127.0.0.1:1", "--out", dir})
		cmd.SetOut(&bytes.Buffer{})
		cmd.SetErr(&errs)
		if err := cmd.Execute(); err == nil || errs.String() != want {
			t.Errorf("error %v, said %q, want %q", err, errs.String(), want)
		}
		if err := os.WriteFile(file, []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestBenchMeasuresTheFloorsOfThisMachine(t *testing.T) {
	if _, err := benchPlatform(); err != nil {
		t.Skipf("no driver here: %v", err)
	}
	out, err := runBench(t, "net", "--duration", "50ms", "--depths", "1", "--server-idle", "adaptive")
	if err != nil || !strings.Contains(out, "kernel") || strings.Count(out, "\nadaptive") != 2 {
		t.Errorf("error %v:\n%s", err, out)
	}
	dir := t.TempDir()
	out, err = runBench(t, "disk", "--dir", dir, "--duration", "50ms", "--sizes", "4KiB", "--depths", "1", "--idle", "block", "--file-size", "1MiB", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var report struct {
		Host struct{ Kernel string }
		Disk []struct {
			Op      string
			Latency struct{ Count int64 }
		}
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	if len(report.Disk) != 3 || report.Disk[1].Op != "dsync" || report.Host.Kernel == "" {
		t.Errorf("%+v", report)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, error %v", left, err)
	}
}

func TestBenchRunMeasuresABrokerOfItsOwn(t *testing.T) {
	if _, err := benchPlatform(); err != nil {
		t.Skipf("no driver here: %v", err)
	}
	t.Setenv(asProgram, "1")
	dir := t.TempDir()
	out, err := runBench(t, "run", "--dir", dir, "--class", "flushed,memory", "--messages", "300", "--duration", "1m", "--warmup", "0",
		"--depth", "8", "--client", "block", "--repeat", "2", "-o", "json", "--", "--journal-size", "8MiB")
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	var report struct {
		Check struct{ Counts map[string]int }
		Cases []struct {
			Rounds []struct{ Verdict string }
			Result struct {
				Class       string
				Acked, Read int64
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	if len(report.Check.Counts) != 4 && runtime.GOOS == "linux" {
		t.Errorf("check: %+v", report.Check)
	}
	if len(report.Cases) != 2 || len(report.Cases[0].Rounds) != 2 || report.Cases[1].Result.Class != "memory" {
		t.Fatalf("%s", out)
	}
	for _, c := range report.Cases {
		if c.Result.Acked != 600 || c.Result.Read != 600 {
			t.Errorf("class %s: %d acknowledged, %d read", c.Result.Class, c.Result.Acked, c.Result.Read)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, error %v", left, err)
	}
}

func TestBenchAllPutsEveryFigureBesideItsBudget(t *testing.T) {
	if _, err := benchPlatform(); err != nil {
		t.Skipf("no driver here: %v", err)
	}
	t.Setenv(asProgram, "1")
	dir := t.TempDir()
	out, err := runBench(t, "all", "--dir", dir, "--rounds", "1", "--piece", "50ms", "--long", "200ms", "--backlog", "2000", "--restart-size", "1MiB", "--", "--journal-size", "8MiB")
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	for _, want := range []string{
		"kernel", "noise", "flushed ack, 1 in flight, client poll, p50", "flushed ack, 1 in flight, client block, p99",
		"memory ack, 1 in flight, client poll, p50", "flushed, 1 connection, 64 a frame", "1024 partitions / 1", "burst of 50,000", "produce with a follower", "CPU of the broker a message", "/ of the smaller", "catch-up", "resident memory", "restart after kill -9",
		"end to end, 100,000 msg/s", "idle broker, CPU", "DSYNC alone makes durable",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, error %v", left, err)
	}
}

func TestWhatBenchLeavesIsShownAndCompared(t *testing.T) {
	if _, err := benchPlatform(); err != nil {
		t.Skipf("no driver here: %v", err)
	}
	t.Setenv(asProgram, "1")
	dir := t.TempDir()
	spec, result, again := filepath.Join(dir, "cases.yaml"), filepath.Join(dir, "result"), filepath.Join(dir, "again")
	const cases = `{version: 1, all: {messages: 200, duration: 1m, warmup: 0s, client: block, depth: 4, class: memory}, cases: [{name: plain}, {name: packed, codec: lz4, compressible: 0.9}]}`
	if err := os.WriteFile(spec, []byte(cases), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := runBench(t, "run", "--dir", dir, "--spec", spec, "--repeat", "5", "--out", result, "--", "--journal-size", "8MiB"); err != nil || !strings.Contains(out, "durable 4 KiB write") {
		t.Fatalf("error %v:\n%s", err, out)
	}
	for _, name := range []string{"result.json", "report.html", "series.csv", "case-2.ack.hgrm", "case-2.hlog"} {
		if info, err := os.Stat(filepath.Join(result, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if out, err := runBench(t, "report", result, "--out", again); err != nil {
		t.Fatalf("error %v:\n%s", err, out)
	}
	one, err := runBench(t, "report", result)
	two, terr := runBench(t, "report", filepath.Join(again, "result.json"))
	if err != nil || terr != nil || one != two || !strings.Contains(one, "packed: ") || !strings.Contains(one, "the broker used") {
		t.Errorf("errors %v, %v:\n%s\nand again\n%s", err, terr, one, two)
	}
	if out, err := runBench(t, "compare", result); err != nil || !strings.Contains(out, "5 pairs of rounds") || !strings.Contains(out, "p99.9") {
		t.Errorf("error %v:\n%s", err, out)
	}
	if out, err := runBench(t, "compare", result, again, "--at-most", "1000", "-o", "json"); err != nil || !strings.Contains(out, `"ratio": 1,`) {
		t.Errorf("error %v:\n%s", err, out)
	}
	if _, err := runBench(t, "compare", result, "--case-b", "3"); err == nil {
		t.Error("a case that is not there was compared")
	}
}

func TestBenchTriesRates(t *testing.T) {
	if _, err := benchPlatform(); err != nil {
		t.Skipf("no driver here: %v", err)
	}
	t.Setenv(asProgram, "1")
	flags := []string{"--dir", t.TempDir(), "--floors=false", "--duration", "100ms", "--warmup", "0s", "--client", "block", "-o", "json"}
	for _, verb := range [][]string{{"sweep", "--rates", "1500,3000"}, {"max", "--from", "2000", "--resolution", "0.5"}} {
		out, err := runBench(t, append(append(verb, flags...), "--", "--journal-size", "8MiB")...)
		if err != nil {
			t.Fatalf("%s: %v:\n%s", verb, err, out)
		}
		var d struct {
			Verb  string
			Cases []struct{}
			Steps []struct{ Rate int64 }
		}
		if err := json.Unmarshal([]byte(out), &d); err != nil || d.Verb != verb[0] || len(d.Steps) == 0 || len(d.Steps) != len(d.Cases) || d.Steps[0].Rate < 1500 {
			t.Errorf("%s: error %v, %+v", verb, err, d)
		}
	}
	if _, err := runBench(t, "max", "--rate", "5"); err == nil {
		t.Error("max took a rate")
	}
	if _, err := runBench(t, "sweep", "--partitions", "1,2"); err == nil {
		t.Error("sweep took two loads")
	}
}
