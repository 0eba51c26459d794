package report

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/mqd-broker/mqd/bench"
	"github.com/mqd-broker/mqd/bench/agent"
	"github.com/mqd-broker/mqd/bench/figure"
	"github.com/mqd-broker/mqd/bench/machine"
	"github.com/mqd-broker/mqd/bench/pace"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
	"github.com/mqd-broker/mqd/tuning"
	"github.com/mqd-broker/mqd/tuning/fixture"
	"github.com/mqd-broker/mqd/tuning/topology"
)

// simPlatform measures on a simulated machine in real time.
type simPlatform struct{ w *sim.World }

func (p simPlatform) NewDriver(o aio.Options) (aio.Driver, error) { return p.w.Driver(o), nil }
func (p simPlatform) Pin(int) error                               { return nil }
func (p simPlatform) Yield()                                      { runtime.Gosched() }

// measured is a document of real measurements: of a server that only answers.
func measured(t *testing.T) *Document {
	t.Helper()
	p := simPlatform{sim.New(sim.Options{Seed: 1, Mode: sim.RealTime})}
	e, err := bench.StartEcho(p, bench.NoCPU, bench.Block, 64<<10)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Stop(); err != nil {
			t.Error(err)
		}
	}()
	run := func(ctx context.Context, load bench.Load) (*bench.Result, error) {
		return bench.Run(ctx, p, bench.Target{Addr: e.Addr, Echo: true}, load)
	}
	loads := []bench.Load{
		{Name: "open", Rate: 5000, Poisson: true, Keys: 3, Sizes: "50-90", Plain: 0.5},
		{Name: "<closed> & \"quoted\" </script>", Depth: 4},
		{Rate: 5000, Day: time.Second},
		{Burst: pace.Burst{Messages: 100, Length: 10 * time.Millisecond, Period: 50 * time.Millisecond}},
	}
	for i := range loads {
		loads[i].Client, loads[i].Messages, loads[i].Duration, loads[i].Warmup = bench.Block, 600, time.Second, -1
	}
	cases, err := bench.Interleave(t.Context(), run, loads, 2)
	if err != nil {
		t.Fatal(err)
	}
	network, err := bench.PingPong(t.Context(), p, bench.NetOptions{Duration: 20 * time.Millisecond, ServerCPU: bench.NoCPU, ClientCPU: bench.NoCPU},
		bench.NetResult{Client: bench.Block, Server: bench.Block, Depth: 1})
	if err != nil {
		t.Fatal(err)
	}
	told(cases[0].Result)
	m := fixture.Build(t, fixture.Metal())
	host := topology.Read(m, fixture.DataDir)
	check := tuning.Check(&tuning.Host{Files: m, Machine: host, Profile: tuning.Detect(host)}).Brief()
	return &Document{
		Check: check, Schema: Version, Verb: "run", Args: []string{"--rate", "5000"}, Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Colocated: true,
		Agents:   []*agent.Agent{{Addr: "10.0.0.7:7879", Role: "produce", Host: machine.Host{Kernel: "6.12"}, Clock: agent.Offset{Ahead: -5, Error: 3}}},
		Settings: "io.driver: <uring>\n",
		Host:     machine.Host{Kernel: "none"}, Floors: Floors{Network: []bench.NetResult{network}}, Cases: cases,
		Steps: []Step{{Rate: 1, Broken: "x"}},
	}
}

// told adds what a broker tells of itself, and a pause.
func told(r *bench.Result) {
	r.Stages = []bench.StageTimes{{Name: "append", Count: 5, Mean: 1200, P50: 1000, P99: 2500}, {Name: "device", Count: 5, Mean: 90_000, P50: 80_000, P99: 200_000}}
	r.Samples = []bench.Sample{
		{At: time.Second, Length: time.Second, Client: 0.5, Broker: 0.25, Collections: 2, Heap: 1 << 20, Stages: map[string]int64{"append": 1100, "device": 85_000}},
		{At: 2 * time.Second, Length: time.Second, Client: 1, Broker: 0.75, Heap: 2 << 20, Stages: map[string]int64{"device": 95_500}},
	}
	r.Pause = &figure.Pause{Length: time.Second, Backlog: 1000, Produced: 1000, Drained: 5000, Parity: 250 * time.Millisecond, TailPaused: 90_000, TailDraining: 900_000}
	r.ClockError = 12_000
	s := r.Series
	s.BeforeDone, s.BeforeRead, s.BeforeDrained = 10, 8, 5
	for i := range s.Points {
		s.Points[i].Read, s.Points[i].Drained = s.Points[i].Done, 1
	}
}

func TestSamplesAreARowEach(t *testing.T) {
	d := &Document{Cases: []*bench.Case{{Result: &bench.Result{Series: &bench.Series{}}}, {Result: &bench.Result{Series: &bench.Series{}}}}}
	told(d.Cases[1].Result)
	var b bytes.Buffer
	if err := d.SamplesCSV(&b); err != nil {
		t.Fatal(err)
	}
	want := `case,seconds,client_cpus,broker_cpus,broker_collections,broker_heap_bytes,append_mean_us,device_mean_us
2,1.000,0.500,0.250,2,1048576,1.1,85.0
2,2.000,1.000,0.750,0,2097152,0.0,95.5
`
	if b.String() != want {
		t.Errorf("%s\nwant\n%s", b.String(), want)
	}
}

func TestThePageDrawsWhoReadsAndWhatItTakes(t *testing.T) {
	r := &bench.Result{Series: &bench.Series{Interval: time.Second, Points: []bench.Point{{Done: 4, EndToEndP99: 5000}, {Done: 6, EndToEndP99: 7000}}}}
	told(r)
	v := newCaseView(r)
	if !slices.Equal(v.Behind, []float64{2, 2}) || !slices.Equal(v.Backlog, []float64{8, 13}) || !slices.Equal(v.Tail, []float64{5, 7}) {
		t.Errorf("behind %v, backlog %v, tail %v", v.Behind, v.Backlog, v.Tail)
	}
	want := []track{{"client", [][2]float64{{1, 0.5}, {2, 1}}}, {"broker", [][2]float64{{1, 0.25}, {2, 0.75}}}}
	if !reflect.DeepEqual(v.CPU, want) || !reflect.DeepEqual(v.Collector, []track{{"collections", [][2]float64{{1, 2}, {2, 0}}}}) {
		t.Errorf("CPU %v, collector %v", v.CPU, v.Collector)
	}
	if want := []track{{"append", [][2]float64{{1, 1.1}}}, {"device", [][2]float64{{1, 85}, {2, 95.5}}}}; !reflect.DeepEqual(v.StageTracks, want) {
		t.Errorf("stages %v, want %v", v.StageTracks, want)
	}
	// Without a reader and without samples there is nothing to draw.
	if v := newCaseView(&bench.Result{Series: &bench.Series{Interval: 1, Points: []bench.Point{{Done: 4}}}}); v.Behind != nil || v.Backlog != nil || v.CPU != nil || v.StageTracks != nil {
		t.Errorf("%+v", v)
	}
}

func TestResultsOfTheFormBeforeAreRead(t *testing.T) {
	d, dir := measured(t), t.TempDir()
	if err := Write(dir, d); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, Name)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes.Replace(text, []byte(Version), []byte("mqd-bench-result/1"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	if back, err := Read(dir); err != nil || len(back.Cases) != len(d.Cases) {
		t.Errorf("error %v", err)
	}
}

func TestAResultIsOfItsSchemaAndReadAsItWasWritten(t *testing.T) {
	d, dir := measured(t), t.TempDir()
	if err := Write(dir, d); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, Name))
	if err != nil {
		t.Fatal(err)
	}
	var schema, doc any
	if err := errors.Join(json.Unmarshal(Schema, &schema), json.Unmarshal(text, &doc)); err != nil {
		t.Fatal(err)
	}
	v := validator{root: schema.(map[string]any)}
	if v.check("result", v.root, doc); len(v.bad) > 0 {
		t.Errorf("%s", strings.Join(v.bad, "\n"))
	}
	back, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	var again bytes.Buffer
	if err := back.JSON(&again); err != nil || !bytes.Equal(again.Bytes(), text) {
		t.Errorf("error %v, read and written again:\n%s", err, again.Bytes())
	}
}

func TestTheSchemaRefusesWhatItDoesNotName(t *testing.T) {
	var schema map[string]any
	if err := json.Unmarshal(Schema, &schema); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{`{}`, `[]`, `{"schema":"mqd-bench-result/3"}`, `{"new":1}`, `{"cases":[{"rounds":1}]}`, `{"jitter":{"gaps":{"count":-1}}}`} {
		var doc any
		if err := json.Unmarshal([]byte(bad), &doc); err != nil {
			t.Fatal(err)
		}
		v := validator{root: schema}
		if v.check("result", schema, doc); len(v.bad) == 0 {
			t.Errorf("%s passes", bad)
		}
	}
}

func TestThePageShowsWhatOfTheMachineIsOff(t *testing.T) {
	d := measured(t)
	page := func() string {
		var b bytes.Buffer
		if err := d.HTML(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	for _, want := range []string{
		"may be wrong by 12.0 µs either way", "agent    produce at 10.0.0.7:7879, kernel 6.12", "io.driver: &lt;uring&gt;", "1000 messages behind after a pause of 1s", "<td>device</td><td>90.0</td>",
		"as mqd check sees it: ", d.Check.String(), `<td class="bad">warning</td><td>nvme.apst nvme1</td><td>`, "<td>cpu.governor (64 times)</td>", `title="a drive that has gone to sleep`,
	} {
		if !strings.Contains(page(), html.EscapeString(want)) && !strings.Contains(page(), want) {
			t.Errorf("%q is not on the page", want)
		}
	}
	d.Check = nil // of a machine that tells nothing
	if strings.Contains(page(), "mqd check") {
		t.Error("the page shows a check that was not made")
	}
}

func TestHistogramsComeBackFromTheirFiles(t *testing.T) {
	d, dir := measured(t), t.TempDir()
	if err := Write(dir, d); err != nil {
		t.Fatal(err)
	}
	for i, c := range d.Cases {
		f, err := os.Open(filepath.Join(dir, fmt.Sprintf("case-%d.hlog", i+1)))
		if err != nil {
			t.Fatal(err)
		}
		count := int64(0)
		for log := hdrhistogram.NewHistogramLogReader(f); ; {
			h, err := log.NextIntervalHistogram()
			if err != nil && !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			if h == nil {
				break
			}
			count += h.TotalCount()
		}
		if err := f.Close(); err != nil || count != c.Result.Ack.Count {
			t.Errorf("case %d: %d messages in the log, %d in the result, error %v", i+1, count, c.Result.Ack.Count, err)
		}
		text, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("case-%d.ack.hgrm", i+1)))
		if want := fmt.Sprintf("Total count    = %12d", c.Result.Ack.Count); err != nil || !bytes.Contains(text, []byte(want)) {
			t.Errorf("case %d: error %v, no %q in\n%s", i+1, err, want, text)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "series.csv"))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	want := 1
	for _, c := range d.Cases {
		want += len(c.Result.Series.Points)
	}
	if err != nil || len(rows) != want {
		t.Errorf("%d rows, want %d, error %v", len(rows), want, err)
	}
}

// outside finds what a page would load from elsewhere.
var outside = regexp.MustCompile(`(?i)(src|href)\s*=\s*["'](?:https?:)?//|@import|url\(|fetch\(|XMLHttpRequest|import\s*\(`)

func TestThePageNeedsNothingElse(t *testing.T) {
	d := measured(t)
	var b bytes.Buffer
	if err := d.HTML(&b); err != nil {
		t.Fatal(err)
	}
	if found := outside.FindString(b.String()); found != "" {
		t.Errorf("the page has %q", found)
	}
	if n := strings.Count(b.String(), "</script>"); n != 1 {
		t.Errorf("%d scripts end: a title has got out of its string", n)
	}
	if strings.Contains(b.String(), "<closed>") {
		t.Error("a title is markup")
	}
}

func TestAHeatMapHasEveryMessageOnce(t *testing.T) {
	for i, c := range measured(t).Cases {
		v, sum := newCaseView(c.Result), int64(0)
		for _, column := range v.Heat.Columns {
			for _, n := range column {
				sum += n
			}
		}
		if sum != c.Result.Ack.Count {
			t.Errorf("case %d: %d messages, want %d", i+1, sum, c.Result.Ack.Count)
		}
		for _, k := range v.Curves {
			if !slices.IsSortedFunc(k.Points, func(a, b [2]float64) int { return int(a[1] - b[1]) }) || len(k.Points) == 0 {
				t.Errorf("case %d: curve %s: %v", i+1, k.Name, k.Points)
			}
		}
	}
}

func TestWhatIsNoResultIsRefused(t *testing.T) {
	for name, text := range map[string]string{
		"nothing": ``, "no object": `[1]`, "other version": `{"schema":"mqd-bench-result/0"}`, "empty case": `{"schema":"mqd-bench-result/1","cases":[null]}`,
		"no series": `{"schema":"mqd-bench-result/1","cases":[{"result":{}}]}`,
	} {
		path := filepath.Join(t.TempDir(), "x.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(path); !errors.Is(err, ErrDocument) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if _, err := Read(t.TempDir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: error %v", err)
	}
}
