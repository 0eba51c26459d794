package main

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// startAgent starts a real agent on the loopback interface and returns its address.
func startAgent(t *testing.T, token string) string {
	t.Helper()
	ready := filepath.Join(t.TempDir(), "address")
	cmd := exec.Command(os.Args[0], "bench", "agent", "--listen", "127.0.0.1:0", "--token-file", token, "--ready-file", ready)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil {
			t.Errorf("the agent ended with %v: %s", err, said.String())
		}
	})
	for look := time.NewTicker(5 * time.Millisecond); ; <-look.C {
		if text, err := os.ReadFile(ready); err == nil && strings.HasSuffix(string(text), "\n") {
			return strings.TrimSpace(string(text))
		}
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("the agent ended: %v: %s", err, said.String())
		default:
		}
	}
}

func TestAnAgentSaysThatItsPortIsTaken(t *testing.T) {
	if _, err := benchPlatform(); err != nil {
		t.Skipf("no driver here: %v", err)
	}
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("a token for the test\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	addr := l.Addr().String()
	want := "port in use: another program listens on " + addr + "; stop it, or name another address with --listen"
	if _, err := runBench(t, "agent", "--token-file", token, "--listen", addr); err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestAgentsProduceAndConsumeInProcessesOfTheirOwn(t *testing.T) {
	if _, err := benchPlatform(); err != nil {
		t.Skipf("no driver here: %v", err)
	}
	t.Setenv(asProgram, "1")
	token, dir := filepath.Join(t.TempDir(), "token"), t.TempDir()
	if err := os.WriteFile(token, []byte("a token for the test\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var produce, consume []string
	for range 2 {
		produce, consume = append(produce, startAgent(t, token)), append(consume, startAgent(t, token))
	}
	out, err := runBench(t, "run", "--dir", dir, "--class", "memory", "--rate", "2000", "--messages", "400", "--duration", "1m", "--warmup", "0",
		"--partitions", "3", "--client", "block", "--repeat", "2", "--floors=false", "-o", "json", "--token-file", token,
		"--produce-on", strings.Join(produce, ","), "--consume-on", strings.Join(consume, ","), "--", "--journal-size", "8MiB")
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	var report struct {
		Colocated bool
		Agents    []struct {
			Role  string
			Host  struct{ Kernel string }
			Clock struct {
				Error int64 `json:"error_ns"`
			}
		}
		Cases []struct {
			Rounds []any
			Result struct {
				Sent, Acked, Read int64
				ClockError        int64                 `json:"clock_error_ns"`
				EndToEnd          struct{ Count int64 } `json:"end_to_end"`
				Load              struct{ Connections int }
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	if len(report.Agents) != 4 || report.Agents[1].Role != "produce" || report.Agents[2].Role != "consume" || report.Agents[3].Clock.Error <= 0 || !report.Colocated {
		t.Errorf("%+v, colocated %v", report.Agents, report.Colocated)
	}
	if len(report.Cases) != 1 || len(report.Cases[0].Rounds) != 2 {
		t.Fatalf("%s", out)
	}
	if r := report.Cases[0].Result; r.Sent != 800 || r.Acked != 800 || r.Read != 800 || r.EndToEnd.Count != 800 || r.ClockError <= 0 || r.Load.Connections != 2 {
		t.Errorf("%+v", r)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, error %v", left, err)
	}
	// With another token they do nothing.
	if err := os.WriteFile(token, []byte("not the same token"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := runBench(t, "run", "--dir", dir, "--rate", "2000", "--token-file", token, "--produce-on", produce[0], "--consume-on", consume[0]); err == nil || !strings.Contains(err.Error(), "not the same token") {
		t.Errorf("error %v: %s", err, out)
	}
}

func TestBenchLooksAtTheBrokerMeanwhile(t *testing.T) {
	if _, err := benchPlatform(); err != nil {
		t.Skipf("no driver here: %v", err)
	}
	t.Setenv(asProgram, "1")
	// A shard that is kept from its CPU for long does not answer in time.
	r := sampled(t)
	for range 4 {
		if len(r.Stages) > 0 {
			break
		}
		r = sampled(t)
	}
	if !strings.Contains(r.settings, "journal") || len(r.Samples) == 0 || len(r.Stages) == 0 || r.Stages[0].Count == 0 || r.Pause == nil || r.Pause.Length != 200_000_000 {
		t.Errorf("%+v", r)
	}
}

// looked is what a result has of a broker that was looked at.
type looked struct {
	settings string
	Stages   []struct {
		Name  string
		Count int64
	}
	Samples []any
	Pause   *struct {
		Length int64 `json:"length_ns"`
	}
}

// sampled makes a short measurement with samples.
func sampled(t *testing.T) looked {
	t.Helper()
	dir, result := t.TempDir(), t.TempDir()
	if out, err := runBench(t, "run", "--dir", dir, "--class", "memory", "--rate", "2000", "--duration", "600ms", "--pause", "200ms", "--warmup", "50ms",
		"--client", "block", "--floors=false", "--samples", "100ms", "--out", result, "--", "--journal-size", "8MiB"); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(result, "result.json"))
	if err != nil {
		t.Fatal(err)
	}
	var report struct {
		Settings string
		Cases    []struct{ Result looked }
	}
	if err := json.Unmarshal(text, &report); err != nil {
		t.Fatal(err)
	}
	r := report.Cases[0].Result
	r.settings = report.Settings
	return r
}
