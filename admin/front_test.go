package admin

import (
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/admin/flight"
	"github.com/mqd-broker/mqd/engine/aio/sim"
	"github.com/mqd-broker/mqd/node"
)

func TestProbesFollowTheBroker(t *testing.T) {
	r := newRig(t)
	r.mustSay(PathStartup, 503, "not started", "being recovered")
	r.mustSay(PathReady, 503, "not ready", "being recovered")
	r.mustSay(PathLive, 200, "live")
	r.start()
	r.mustSay(PathStartup, 200, "started")
	r.mustSay(PathReady, 200, "ready")
	r.mustSay(PathLive, 200, "live")
	if err := r.service.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.mustSay(PathReady, 503, "stopping")
	r.mustSay(PathStartup, 200)
	r.mustSay(PathLive, 200)
}

func TestALoopThatDoesNotTurnIsDead(t *testing.T) {
	r := newRig(t)
	r.start()
	silence := r.service.Condition().Node.Silence()
	if len(silence) != 2 || silence[0] >= maxSilence {
		t.Fatalf("silence %v", silence)
	}
	c := r.service.Condition()
	if why := stalls(&c, maxSilence); len(why) != 0 {
		t.Errorf("loops that turn count as dead: %v", why)
	}
	if why := stalls(&c, -1); len(why) != 2 || !strings.Contains(why[1], "the loop of shard 1 has not turned") {
		t.Errorf("loops that have been silent for too long: %q", why)
	}
	r.w.Kill() // its loops end, and nothing else does
	<-r.service.Failed()
	for answered := true; answered; { // one ends before the other
		answered = false
		for _, s := range r.service.Condition().Node.Figures(t.Context()).Shards {
			answered = answered || s.Answered
		}
	}
	var st Status
	r.decode(PathStatus, &st)
	if len(st.Warnings) != 2 || !strings.Contains(st.Warnings[0], "shard 0 did not answer") {
		t.Errorf("warnings %q", st.Warnings)
	}
	m := r.scrape(PathMetrics)
	_, turns := m.values[`mqd_shard_turns_total{shard="1"}`]
	_, batches := m.values[`mqd_append_batches_total{shard="1"}`]
	if m.values[`mqd_shard_answered{shard="1"}`] != 0 || !turns || batches {
		t.Errorf("metrics of a shard that does not answer: %v", m.values)
	}
}

func TestMetricsAreWellFormed(t *testing.T) {
	r := newRig(t)
	before := r.scrape(PathMetrics)
	if before.values[`mqd_state{state="starting"}`] != 1 || before.values["mqd_ready"] != 0 {
		t.Errorf("before the start: %v", before.values)
	}
	r.start()
	all := r.scrape(PathMetrics)
	for series, want := range map[string]float64{
		`mqd_state{state="serving"}`: 1, `mqd_state{state="starting"}`: 0, "mqd_ready": 1, "mqd_shards": 2, "mqd_reopened_total": 0,
		`mqd_log_failed{shard="0"}`: 0, `mqd_log_failed{shard="1"}`: 0, "mqd_device_failed": 0, "mqd_ballast_missing": 0,
		`mqd_shard_answered{shard="1"}`: 1, `mqd_receive_buffers{shard="1"}`: 32, `mqd_disk_full{shard="1"}`: 0,
		`mqd_cache_size_bytes{shard="0"}`: 4 << 20, "mqd_node_term": 1, "mqd_recovery_damaged": 0,
	} {
		if got, ok := all.values[series]; !ok || got != want {
			t.Errorf("%s is %v, expected %v", series, got, want)
		}
	}
	// Every metric is there, and no other.
	for _, f := range families() {
		if _, ok := all.kinds[f.name]; !ok && f.name != "mqd_cpu_wake_limit_seconds" && !strings.HasPrefix(f.name, "mqd_log_") && !strings.HasPrefix(f.name, "mqd_group_") {
			t.Errorf("%s is missing", f.name)
		}
		delete(all.kinds, f.name)
	}
	if len(all.kinds) > 0 {
		t.Errorf("unknown metrics: %v", all.kinds)
	}
	for name := range r.scrape(PathPublicMetrics).kinds {
		if name == "mqd_partitions_left_out" || strings.HasPrefix(name, "mqd_group") {
			t.Errorf("%s is public", name)
		}
	}
}

func TestCountersNeverGoBackWhileScraped(t *testing.T) {
	r := newRig(t)
	r.start()
	last := r.scrape(PathMetrics)
	for range 20 {
		next := r.scrape(PathMetrics)
		for series, v := range last.values {
			name, _, _ := strings.Cut(series, "{")
			if w, ok := next.values[series]; next.kinds[name] == counter && (!ok || w < v) {
				t.Errorf("%s went from %v to %v", series, v, w)
			}
		}
		last = next
	}
}

func TestBuffersThatAreAwayAreCounted(t *testing.T) {
	r := newRig(t)
	r.start()
	r.produce("orders", 1, "a message")
	m := r.scrape(PathPublicMetrics)
	for away := 1.0; away > 0; { // nothing is asked any more: what was lent comes home
		away, m = 0, r.scrape(PathPublicMetrics)
		for _, shard := range []string{"0", "1"} {
			for _, pool := range []string{"receive", "frame", "send", "cache"} {
				n, ok := m.values[`mqd_buffers_away{shard="`+shard+`",pool="`+pool+`"}`]
				if !ok || n < 0 {
					t.Fatalf("shard %s: %v of pool %s are away, %v", shard, n, pool, ok)
				}
				away += n
			}
		}
	}
	for _, shard := range []string{"0", "1"} {
		if ratio := m.values[`mqd_pool_reuse_ratio{shard="`+shard+`",pool="receive"}`]; ratio != 1 {
			t.Errorf("shard %s: ratio %v", shard, ratio)
		}
	}
	if m.values[`mqd_receives_total{shard="0"}`]+m.values[`mqd_receives_total{shard="1"}`] == 0 {
		t.Error("nothing was received")
	}
	for _, c := range []struct {
		taken, missed uint64
		want          float64
	}{{0, 0, 1}, {3, 1, 0.75}, {0, 2, 0}} {
		if got := reuse(c.taken, c.missed); got != c.want {
			t.Errorf("%d and %d: %v", c.taken, c.missed, got)
		}
	}
}

func TestWhatTheProcessHoldsAndLacksIsTold(t *testing.T) {
	r := newRig(t, func(o *Options) {
		o.WakeLimit = func() (time.Duration, bool) { return 10 * time.Microsecond, true }
		o.Warnings = func() []string { return []string{"something is missing"} }
	})
	var st Status
	r.decode(PathStatus, &st)
	if st.WakeLimitMicros == nil || *st.WakeLimitMicros != 10 || len(st.Warnings) != 1 || st.Warnings[0] != "something is missing" {
		t.Errorf("%+v", st)
	}
	if v := r.scrape(PathPublicMetrics).values["mqd_cpu_wake_limit_seconds"]; v != 1e-5 {
		t.Errorf("the metric is %v", v)
	}
	plain := newRig(t)
	plain.decode(PathStatus, &st)
	if _, there := plain.scrape(PathMetrics).values["mqd_cpu_wake_limit_seconds"]; there || st.WakeLimitMicros != nil {
		t.Error("a limit is told that nobody holds")
	}
}

func TestAFailedLogIsSeenAndReopened(t *testing.T) {
	r := newRig(t)
	r.start()
	if status, body := r.ask(http.MethodPost, PathReopen, OrderHeader, "x"); status != http.StatusConflict || !strings.Contains(body, "every log works") {
		t.Fatalf("reopening of logs that work: %d %s", status, body)
	}
	heal := r.flushesFail()
	r.fail()
	r.mustSay(PathReady, 503, "the log of shard 0 has failed", "the log of shard 1 has failed", "mqd admin reopen")
	r.mustSay(PathLive, 200)
	m := r.scrape(PathPublicMetrics)
	if m.values[`mqd_log_failed{shard="0"}`] != 1 || m.values["mqd_ready"] != 0 || m.values["mqd_device_failed"] != 1 {
		t.Error("the metrics do not show it")
	}
	var st Status
	r.decode(PathStatus, &st)
	if st.Ready || !st.Live || st.State != "serving" || len(st.Reasons) != 2 || !st.Serving.Shards[0].LogFailed || st.Serving.Shards[0].Error == "" || strings.Contains(st.Reasons[0], "\n") {
		t.Errorf("status: %+v", st)
	}

	status, body := r.ask(http.MethodPost, PathReopen, OrderHeader, "x")
	if status != http.StatusInternalServerError || !strings.Contains(body, "not reopened: ") || strings.Count(body, "\n") != 1 {
		t.Fatalf("reopening on a device that fails: %d %s", status, body)
	}
	r.mustSay(PathReady, 503, "down: the logs could not be opened again", "mqd admin reopen")
	r.mustSay(PathLive, 200)
	r.mustSay(PathStartup, 200)
	m = r.scrape(PathMetrics)
	if m.values[`mqd_log_failed{shard="1"}`] != 1 || m.values[`mqd_state{state="down"}`] != 1 {
		t.Error("the alarm ended although nothing is served")
	}
	st = Status{}
	if r.decode(PathStatus, &st); st.Ready || st.State != "down" || st.Serving != nil {
		t.Errorf("status: %+v", st)
	}

	heal()
	r.w.Crash(sim.KeepAll) // a filesystem whose flush has failed wants that
	if status, body := r.ask(http.MethodPost, PathReopen, OrderHeader, "x"); status != http.StatusOK {
		t.Fatalf("reopening: %d %s", status, body)
	}
	r.mustSay(PathReady, 200)
	m = r.scrape(PathMetrics)
	if m.values[`mqd_log_failed{shard="0"}`] != 0 || m.values["mqd_reopened_total"] != 1 || m.values["mqd_ready"] != 1 {
		t.Error("the metrics do not show that it works again")
	}
}

func TestOrdersAreTakenFromThisMachineAndNoPage(t *testing.T) {
	r := newRig(t)
	r.start()
	for what, header := range map[string][]string{
		"a form":       {},
		"a page":       {OrderHeader, "x", "Origin", "http://127.0.0.1:1"},
		"another name": {OrderHeader, "x", "Host", "evil.example"},
		"name, port":   {OrderHeader, "x", "Host", "evil.example:9644"},
	} {
		if status, body := r.ask(http.MethodPost, PathReopen, header...); status != http.StatusForbidden {
			t.Errorf("%s: %d %s", what, status, body)
		}
	}
	for _, host := range []string{"localhost", "localhost:1", "[::1]", "[::1]:1", "127.0.0.1"} {
		if status, body := r.ask(http.MethodPost, PathReopen, OrderHeader, "x", "Host", host); status != http.StatusConflict {
			t.Errorf("as %s: %d %s", host, status, body)
		}
	}
	if status, _ := r.ask(http.MethodGet, PathReopen, OrderHeader, "x"); status != http.StatusMethodNotAllowed {
		t.Errorf("an order by GET: %d", status)
	}
	for peer, may := range map[string]bool{
		"127.0.0.1:5": true, "[::1]:5": true, "[::ffff:127.0.0.1]:5": true, "192.168.1.1:5": false, "[fe80::1]:5": false, "": false,
	} {
		req := &http.Request{RemoteAddr: peer, Host: "localhost", Header: http.Header{OrderHeader: {"x"}}}
		if err := mayOrder(req); (err == nil) != may {
			t.Errorf("from %q: %v", peer, err)
		}
	}
}

func TestProfilesAreServedWhereTheyAreWanted(t *testing.T) {
	newRig(t).mustSay("/debug/pprof/", 404)
	r := newRig(t, func(o *Options) { o.Profiles = true })
	r.mustSay("/debug/pprof/", 200, "goroutine")
	r.mustSay("/debug/pprof/goroutine?debug=1", 200, "goroutine profile")
	r.mustSay("/", 200, "/debug/pprof/", PathMetrics)
	r.mustSay("/nothing", 404)
}

func TestRequestsThatAskShardsAreBounded(t *testing.T) {
	r := newRig(t)
	r.start()
	for range askers {
		r.front.ask <- struct{}{}
	}
	r.mustSay(PathMetrics, 503, "try again")
	r.mustSay(PathReady, 200)
	for range askers {
		<-r.front.ask
	}
	r.mustSay(PathMetrics, 200)
	var all sync.WaitGroup
	for range 4 * askers {
		all.Go(func() {
			if status, body := r.ask(http.MethodGet, PathShards); status != 200 && status != 503 {
				t.Errorf("%d %s", status, body)
			}
		})
	}
	all.Wait()
}

func TestShardsAndTopicsAsJSON(t *testing.T) {
	r := newRig(t)
	var topics []topicJSON
	var shards []struct {
		Shard    int                `json:"shard"`
		Answered bool               `json:"answered"`
		LogError string             `json:"log_error"`
		Metrics  map[string]float64 `json:"metrics"`
	}
	if r.decode(PathTopics, &topics); len(topics) != 0 {
		t.Errorf("topics before the start: %+v", topics)
	}
	if r.decode(PathShards, &shards); len(shards) != 0 {
		t.Errorf("shards before the start: %+v", shards)
	}
	r.start()
	r.produce("orders", 3, "hello")
	if r.decode(PathTopics, &topics); len(topics) != 1 || len(topics[0].Listed) != 3 {
		t.Fatalf("topics: %+v", topics)
	}
	got := topics[0]
	if got.Name != "orders" || got.Partitions != 3 || got.Durability != "flushed" || len(got.ID) != 32 || got.Listed[1].Class != "flushed" {
		t.Errorf("topic: %+v", got)
	}
	if p := got.Listed[0]; p.Durable != 1 || p.End != 1 || p.LogStart != 0 || got.Listed[1].End != 0 {
		t.Errorf("partitions: %+v", got.Listed)
	}
	r.decode(PathShards, &shards)
	batches := 0.0
	for _, s := range shards {
		batches += s.Metrics["mqd_produce_batches_total"]
	}
	// The topic is a record of the catalog, which is a batch too.
	if len(shards) != 2 || batches != 2 || !shards[1].Answered || shards[1].LogError != "" || len(shards[0].Metrics) != len(ofShards()) {
		t.Errorf("shards: %+v", shards)
	}
	m := r.scrape(PathMetrics)
	for series, want := range map[string]float64{
		`mqd_log_end_offset{topic="orders",partition="0"}`: 1, `mqd_log_durable_offset{topic="orders",partition="0"}`: 1,
		`mqd_log_end_offset{topic="orders",partition="2"}`: 0, "mqd_partitions_left_out": 0, "mqd_partitions": 3,
	} {
		if v, ok := m.values[series]; !ok || v != want {
			t.Errorf("%s is %v, expected %v", series, v, want)
		}
	}
	for series := range r.scrape(PathPublicMetrics).values {
		if strings.Contains(series, "orders") {
			t.Errorf("%s is public", series)
		}
	}
}

func TestAnAddressInUseIsAnError(t *testing.T) {
	r := newRig(t)
	if s, err := Listen(Options{Listen: r.front.Addr(), Service: node.NewService()}); err == nil {
		t.Errorf("two fronts at %s", s.Addr())
	}
}

func TestSettingsAreToldAsTheyAreNow(t *testing.T) {
	text := "a: 1\n"
	r := newRig(t, func(o *Options) { o.Settings = func() []byte { return []byte(text) } })
	r.mustSay(PathSettings, 200, "a: 1")
	text = "a: 2\n"
	r.mustSay(PathSettings, 200, "a: 2")
	var st Status
	if r.decode(PathStatus, &st); st.PID != os.Getpid() {
		t.Errorf("the process is %d, told was %d", os.Getpid(), st.PID)
	}
	newRig(t).mustSay(PathSettings, 200)
}

func TestATraceIsServedWhileARecorderRuns(t *testing.T) {
	newRig(t).mustSay(PathTrace, 404, "the flight recorder is off", "--trace-record")
	rec, err := flight.Start(flight.Options{Bytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, func(o *Options) { o.Recorder = rec })
	r.mustSay(PathTrace, 200, " trace\x00")
	rec.Stop()
	r.mustSay(PathTrace, 503, "disabled")
}
