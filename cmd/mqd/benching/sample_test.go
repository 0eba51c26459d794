package benching

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mqd-broker/mqd/bench"
	"github.com/mqd-broker/mqd/bench/figure"
	"github.com/mqd-broker/mqd/engine/stage"
)

func TestAnIntervalIsTheDifferenceOfTwoReadings(t *testing.T) {
	before, err := readStages(strings.NewReader(`[{"shard":0,"stages":{"append":{"count":2,"sum_nanos":20,"buckets":[[10,2]]}}}]`))
	if err != nil {
		t.Fatal(err)
	}
	after, err := readStages(strings.NewReader(`[{"shard":0,"stages":{"append":{"count":4,"sum_nanos":60,"buckets":[[10,2],[20,2]]},"device":{"count":1,"sum_nanos":7,"buckets":[[7,1]]}}},
		{"shard":1,"stages":null},{"shard":2,"stages":{"append":{"count":2,"sum_nanos":60,"buckets":[[30,2]]}}}]`))
	if err != nil {
		t.Fatal(err)
	}
	began := time.Unix(100, 0)
	a := reading{at: began.Add(time.Second), client: time.Second, broker: 3 * time.Second, collections: 4, heap: 5, stages: before}
	b := reading{at: began.Add(3 * time.Second), client: 2 * time.Second, broker: 6 * time.Second, collections: 7, heap: 9, stages: after}
	want := bench.Sample{
		At: 3 * time.Second, Length: 2 * time.Second, Client: 0.5, Broker: 1.5, Collections: 3, Heap: 9,
		Stages: map[string]int64{"append": 25, "device": 7},
	}
	if got := between(began, a, b); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	// Where the broker has not answered, and a thread has ended with its time, nothing is made up.
	b.stages, b.client = nil, 0
	if got := between(began, a, b); got.Stages != nil || got.Collections != 0 || got.Client != 0 || got.Broker != 1.5 {
		t.Errorf("%+v", got)
	}
	if got := stageTimes(before, after); len(got) != 2 || got[0] != (bench.StageTimes{Name: "append", Count: 4, Mean: 25, P50: 20, P99: 30}) {
		t.Errorf("%+v", got)
	}
	if got := stageTimes(nil, map[string]*stage.Histogram{"append": {}}); got != nil {
		t.Errorf("stages without samples: %+v", got)
	}
}

func TestTheRuntimeIsFoundAmongTheMetrics(t *testing.T) {
	text := "# HELP mqd_go_heap_bytes x\n# TYPE mqd_go_heap_bytes gauge\nmqd_go_heap_bytes 1.5e+06\nmqd_go_gc_cycles_total 12\nmqd_x{a=\"b\"} 3\n\n"
	if cycles, heap := readRuntime(strings.NewReader(text)); cycles != 12 || heap != 1_500_000 {
		t.Errorf("%d collections, %d bytes", cycles, heap)
	}
	if cycles, heap := readRuntime(strings.NewReader("")); cycles != 0 || heap != 0 {
		t.Errorf("%d collections, %d bytes", cycles, heap)
	}
}

func TestColocatedSaysWhoSharesAMachine(t *testing.T) {
	for _, c := range []struct {
		agents string
		server string
		own    bool
		want   bool
	}{
		{"", "127.0.0.1:1", true, true},
		{"", "10.0.0.5:1", false, false},
		{"10.0.0.7:1 10.0.0.8:1", "10.0.0.5:1", false, false},
		{"10.0.0.7:1 10.0.0.5:2", "10.0.0.5:1", false, true},
		{"127.0.0.1:1 127.0.0.1:2", "127.0.0.1:3", true, true},
		{"127.0.0.1:1 127.0.0.1:2", "10.0.0.5:1", false, false},
		{"localhost:1 10.0.0.8:1", "127.0.0.1:3", true, true},
		{"no address", "10.0.0.5:1", false, true}, // what cannot be told is not held for the better
	} {
		var a agentFlags
		if all := strings.Fields(c.agents); len(all) == 2 {
			a = agentFlags{produce: all[:1], consume: all[1:]}
		}
		if got := a.colocated(c.server, c.own); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

func TestABrokerThatIsStartedHasAnAdminAddress(t *testing.T) {
	for _, c := range []struct {
		server, admin string
		scrape        time.Duration
		serve         string
		want          string // "new": a port of its own
	}{
		{"", "", 0, "--shards 1", "new"}, {"", "", time.Second, "", "new"},
		{"", "", 0, "--admin-listen 127.0.0.1:9 --shards 1", "127.0.0.1:9"}, {"", "", 0, "--admin-listen=127.0.0.1:9", "127.0.0.1:9"}, {"", "", 0, "--admin-listen=", ""},
		{"10.0.0.5:1", "", 0, "", ""}, {"10.0.0.5:1", "10.0.0.5:2", time.Second, "", "10.0.0.5:2"}, {"10.0.0.5:1", "", time.Second, "", "error"},
	} {
		f, serve := &runFlags{server: c.server, admin: c.admin}, strings.Fields(c.serve)
		before := len(serve)
		err := f.findAdmin([]bench.Load{{Scrape: c.scrape}}, &serve)
		own := len(serve) == before+2 && serve[before] == "--admin-listen" && serve[before+1] == f.admin && loopback(f.admin)
		if (c.want == "error") != (err != nil) || (c.want == "new") != own || c.want != "new" && c.want != "error" && f.admin != c.want {
			t.Errorf("%+v: %q, serve %q, error %v", c, f.admin, serve, err)
		}
	}
}

func TestAnAgentOnAnotherMachineNeedsAServer(t *testing.T) {
	a := agentFlags{produce: []string{"127.0.0.1:1", "localhost:2"}, consume: []string{"[::1]:3"}}
	if addr, far := a.far(); far {
		t.Errorf("%s is far", addr)
	}
	a.consume = append(a.consume, "10.0.0.8:1")
	if addr, far := a.far(); !far || addr != "10.0.0.8:1" {
		t.Errorf("%q, %v", addr, far)
	}
}

func TestATokenIsLongEnough(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	for text, want := range map[string]string{"": "0 bytes", " sixteen bytes...\n": "", " fourteen byte\n\n": "13 bytes"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := readToken(path)
		if want == "" && (err != nil || string(got) != "sixteen bytes...") || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %q, error %v, want %q", text, got, err, want)
		}
	}
	if _, err := readToken(""); err == nil || !strings.Contains(err.Error(), "--token-file is missing") {
		t.Errorf("no file: %v", err)
	}
}

func TestSamplesAreForThePage(t *testing.T) {
	for _, c := range []struct {
		args string
		want time.Duration
	}{
		{"", 0}, {"--out x", time.Second}, {"--samples 50ms", 50 * time.Millisecond}, {"--out x --samples 0s", 0},
	} {
		f, cmd := flagsOf(t, strings.Fields(c.args)...)
		if got := f.sampling(cmd); got != c.want {
			t.Errorf("%q: %v, want %v", c.args, got, c.want)
		}
	}
}

// lines gets what show writes, a line at a time.
type lines chan string

func (l lines) Write(b []byte) (int, error) {
	l <- string(b)
	return len(b), nil
}

func TestARunUnderWayIsALineThatGoesAway(t *testing.T) {
	// In a bubble, so that the first line is of the first millisecond on any machine.
	synctest.Test(t, func(t *testing.T) {
		written := make(lines)
		var looks atomic.Int64
		end := show(t.Context(), written, func() *figure.Glance {
			looks.Add(1)
			g := figure.NewGlance()
			g.Acked = 5
			return g
		}, time.Millisecond)
		if first := <-written; !strings.HasPrefix(first, "\r\x1b[K   0 s") || !strings.Contains(first, "messages/s") || looks.Load() < 2 {
			t.Errorf("%q after %d looks", first, looks.Load())
		}
		ended := make(chan struct{})
		go func() { end(); close(ended) }()
		last := ""
		for done := false; !done; {
			select {
			case last = <-written:
			case <-ended:
				done = true
			}
		}
		if last != "\r\x1b[K" {
			t.Errorf("the last was %q", last)
		}
	})
	var none strings.Builder
	if liveTo(&none) != nil {
		t.Error("what is no terminal is one")
	}
}
