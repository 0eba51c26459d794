package top

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/admin"
)

// fake is a broker whose shards go on by the same work with every look at them.
type fake struct {
	mu     sync.Mutex
	looks  int
	shards int
	broken bool
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var answer any
	n := float64(f.looks)
	switch r.URL.Path {
	case admin.PathStatus:
		answer = admin.Status{Version: "v1", State: "serving", Ready: true, Warnings: []string{"the ballast is missing"}, Serving: &admin.Serving{Address: "127.0.0.1:7878", Driver: "sim", Connections: 3}}
	case admin.PathShards:
		var all []admin.ShardMetrics
		for i := range f.shards {
			all = append(all, admin.ShardMetrics{Shard: i, Answered: i != 1, LogError: map[bool]string{true: "broken"}[i == 2], Metrics: map[string]float64{
				"mqd_append_batches_total": 1000 * n, "mqd_append_bytes_total": 200_000 * n, "mqd_journal_rounds_total": 10 * n,
				"mqd_shard_busy_seconds_total": n * float64(i), "mqd_journal_used_bytes": 1, "mqd_journal_size_bytes": 4,
			}})
		}
		answer = all
		if f.broken {
			answer = "no list"
		}
	case admin.PathStages:
		var all []admin.ShardStages
		for i := range f.shards {
			// Older samples are slow, those of the interval are not.
			all = append(all, admin.ShardStages{Shard: i, Stages: map[string]admin.StageTimes{
				"device": {Count: 1000 + uint64(10*n), Buckets: [][2]uint64{{5, uint64(10 * n)}, {900, 1000}}},
			}})
		}
		answer = all
		f.looks++
	}
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// run runs the verb against a fake broker.
func run(t *testing.T, f *fake, out io.Writer, terminal bool, args ...string) error {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	cmd := New(func(io.Writer) bool { return terminal })
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetOut(out)
	cmd.SetArgs(append(args, "--admin", s.Listener.Addr().String()))
	return cmd.ExecuteContext(t.Context())
}

func TestOnceShowsAnInterval(t *testing.T) {
	var out bytes.Buffer
	if err := run(t, &fake{shards: 3}, &out, true, "--once", "--interval", "100ms"); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for _, want := range []string{
		"mqd v1: serving, ready, 127.0.0.1:7878, driver sim, 3 connections", "  the ballast is missing\n",
		"BATCH/RND", "works", "silent", "FAILED", "100.0", "25%", "5ns / 5ns / 5ns",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if strings.Contains(text, "\x1b") {
		t.Error("one interval is drawn instead of written")
	}
}

func TestOnlyTheBusiestOfManyShardsAreShown(t *testing.T) {
	var out bytes.Buffer
	if err := run(t, &fake{shards: 40}, &out, false, "--once", "--interval", "100ms"); err != nil {
		t.Fatal(err)
	}
	if n := len(regexp.MustCompile(`(?m)^\s*[0-9]+ +(works|silent|FAILED)`).FindAllString(out.String(), -1)); n != mostShards {
		t.Errorf("%d shards are shown:\n%s", n, out.String())
	}
	if !strings.Contains(out.String(), "and 24 shards that are less busy") || !regexp.MustCompile(`(?m)^\s*39 `).MatchString(out.String()) {
		t.Error(out.String())
	}
}

// screens ends a run when there have been enough of them.
type screens struct {
	text bytes.Buffer
	left int
}

var errEnough = errors.New("enough")

func (s *screens) Write(b []byte) (int, error) {
	if s.left--; s.left < 0 {
		return 0, errEnough
	}
	return s.text.Write(b)
}

func TestTerminalsAreDrawnOnAndFilesWrittenTo(t *testing.T) {
	for terminal, want := range map[bool]int{true: 2, false: 0} {
		out := &screens{left: 3}
		if err := run(t, &fake{shards: 1}, out, terminal, "--interval", "100ms"); !errors.Is(err, errEnough) {
			t.Fatal(err)
		}
		if got := strings.Count(out.text.String(), home); got != want {
			t.Errorf("terminal %v: drawn %d times", terminal, got)
		}
		if got := strings.Count(out.text.String(), "mqd v1: serving"); got != map[bool]int{true: 2, false: 3}[terminal] {
			t.Errorf("terminal %v: %d screens", terminal, got)
		}
	}
}

func TestWhatIsNoBrokerIsSaid(t *testing.T) {
	if err := run(t, &fake{broken: true}, io.Discard, false, "--once"); err == nil || !strings.Contains(err.Error(), admin.PathShards) {
		t.Errorf("error %v", err)
	}
	if err := run(t, &fake{}, io.Discard, false, "--interval", "1ms"); err == nil {
		t.Error("an interval of 1 ms is accepted")
	}
}

func TestNumbersAreShort(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 7.4: "7", 999: "999", 1500: "1.5k", 123_456: "123k", 2_000_000: "2.0M", 9.99e14: "999T"} {
		if got := short(v); got != want {
			t.Errorf("%v becomes %s, want %s", v, got, want)
		}
	}
	for nanos, want := range map[int64]string{5: "5ns", 12_345: "12us", int64(25 * time.Millisecond): "25ms", int64(20 * time.Second): "20s"} {
		if got := brief(nanos); got != want {
			t.Errorf("%d becomes %s, want %s", nanos, got, want)
		}
	}
}

func TestThatNobodyIsThereIsSaidOnce(t *testing.T) {
	const addr = "127.0.0.1:1"
	cmd := New(func(io.Writer) bool { return false })
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetOut(io.Discard)
	cmd.SetArgs([]string{"--once", "--admin", addr})
	if err := cmd.ExecuteContext(t.Context()); err == nil || strings.Count(err.Error(), addr) != 1 {
		t.Errorf("error %v", err)
	}
}
