package report

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	browser "github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/mqd-broker/mqd/bench"
	"github.com/mqd-broker/mqd/bench/figure"
	"github.com/mqd-broker/mqd/bench/report"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
)

// patience bounds the whole of the browser's work.
const patience = 4 * time.Minute

// chromium finds a browser.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("no chromium here: on Debian, apt install chromium")
	return ""
}

type simPlatform struct{ w *sim.World }

func (p simPlatform) NewDriver(o aio.Options) (aio.Driver, error) { return p.w.Driver(o), nil }
func (p simPlatform) Pin(int) error                               { return nil }
func (p simPlatform) Yield()                                      { runtime.Gosched() }

// measure makes a real result, of a server that only answers.
func measure(t *testing.T) *report.Document {
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
	load := bench.Load{Client: bench.Block, Messages: 2000, Duration: time.Second, Warmup: -1}
	open, closed := load, load
	open.Name, open.Rate = `an "open" </script> & loop`, 4000
	closed.Depth = 4
	cases, err := bench.Interleave(t.Context(), run, []bench.Load{open, closed}, 1)
	if err != nil {
		t.Fatal(err)
	}
	told(cases[0].Result)
	return &report.Document{Schema: report.Version, Verb: "run", Started: time.Now(), Cases: cases}
}

// told adds what a broker tells of itself and what a consumer does that pauses: the
// server of this test does neither.
func told(r *bench.Result) {
	r.Stages = []bench.StageTimes{{Name: "append", Count: 5, Mean: 1200, P50: 1000, P99: 2500}, {Name: "device", Count: 5, Mean: 90_000, P50: 80_000, P99: 200_000}}
	for i := range 5 {
		r.Samples = append(r.Samples, bench.Sample{
			At: time.Duration(i+1) * time.Second, Length: time.Second, Client: 0.5, Broker: 0.1 * float64(i), Collections: int64(i % 2), Heap: 1 << 20,
			Stages: map[string]int64{"append": 1100, "device": 85_000 + int64(i)},
		})
	}
	r.Pause = &figure.Pause{Length: time.Second, Backlog: 1000, Produced: 1000, Drained: 5000, Parity: 250 * time.Millisecond}
	for i := range r.Series.Points {
		p := &r.Series.Points[i]
		p.Read, p.Drained, p.EndToEndP99 = p.Done, p.Done/2, 50_000
	}
}

// complaints gathers what a browser says of a page.
type complaints struct {
	mu  sync.Mutex
	all []string
}

func (c *complaints) hear(event any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch e := event.(type) {
	case *browser.EventExceptionThrown:
		c.all = append(c.all, fmt.Sprintf("exception: %+v", e.ExceptionDetails))
	case *browser.EventConsoleAPICalled:
		for _, a := range e.Args {
			c.all = append(c.all, fmt.Sprintf("console: %s %s %s", e.Type, a.Value, a.Description))
		}
	case *log.EventEntryAdded:
		c.all = append(c.all, fmt.Sprintf("log: %s %s %s", e.Entry.Level, e.Entry.Text, e.Entry.URL))
	case *network.EventRequestWillBeSent:
		if u := e.Request.URL; !strings.HasPrefix(u, "file:") && !strings.HasPrefix(u, "data:") {
			c.all = append(c.all, "request: "+u)
		}
	}
}

// shown is what is on the page: the cases that its script has drawn, lines, cells of
// heat maps, and those of both whose figures are none.
type shown struct {
	Drawn, Title         string
	Curves, Cells, Wrong int
	Names                []string // of the lines of the first case
	Stages               int      // rows of its table of stages
}

const looking = `({
	Drawn: document.body.dataset.drawn, Title: document.querySelector("section h2").textContent,
	Curves: document.querySelectorAll("path.curve").length, Cells: document.querySelectorAll("rect.cell").length,
	Names: [...document.querySelectorAll("section[data-case='0'] path.curve")].map((n) => n.dataset.name),
	Stages: document.querySelectorAll("section[data-case='0'] table.stages tr").length,
	Wrong: [...document.querySelectorAll("path.curve, rect.cell")].filter((n) => /NaN|undefined|Infinity/.test(n.outerHTML)).length })`

func TestThePageShowsItsCurvesOfflineWithoutErrors(t *testing.T) {
	path, dir := chromium(t), t.TempDir()
	d := measure(t)
	if err := report.Write(dir, d); err != nil {
		t.Fatal(err)
	}
	// Processes of a browser that has ended may still write there for a moment.
	profile, err := os.MkdirTemp("", "mqd-browser-")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(profile) }()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.UserDataDir(profile), chromedp.WSURLReadTimeout(patience))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ctx, end := chromedp.NewExecAllocator(ctx, options...)
	defer end()
	ctx, closeTab := chromedp.NewContext(ctx)
	defer closeTab()
	var heard complaints
	if err := chromedp.Listen(ctx, heard.hear); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); err != nil {
		t.Fatal(err)
	}
	at := url.URL{Scheme: "file", Path: filepath.Join(dir, "report.html")}
	if err := chromedp.Do(ctx, chromedp.Navigate(at.String()), chromedp.WaitReady(chromedp.CSS("body[data-drawn]"))); err != nil {
		t.Fatal(err)
	}
	found, err := chromedp.Run(ctx, chromedp.Evaluate[shown](looking))
	if err != nil {
		t.Fatal(err)
	}
	if to := os.Getenv("MQD_PICTURE"); to != "" {
		picture, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
		if err == nil {
			err = os.WriteFile(to, picture, 0o600)
		}
		if err != nil {
			t.Error(err)
		}
	}
	heard.mu.Lock()
	defer heard.mu.Unlock()
	if len(heard.all) > 0 {
		t.Errorf("the browser complains:\n%s", strings.Join(heard.all, "\n"))
	}
	// An open loop has ack, service, lag and late, a closed one ack and service; both
	// have a rate and a largest lag over time. The first case has its readers too, and
	// what broker and client took.
	names := []string{
		"ack", "service", "lag", "late", "messages a second", "largest send lag", "end to end, 99th percentile", "messages behind", "backlog",
		"client", "broker", "collections", "append", "device",
	}
	if !slices.Equal(found.Names, names) || found.Stages != 1+2 {
		t.Errorf("lines %q and %d rows of stages, want %q and 3", found.Names, found.Stages, names)
	}
	if want := len(names) + 2 + 2; found.Drawn != "2" || found.Curves != want || found.Cells == 0 || found.Wrong != 0 {
		t.Errorf("%+v, want 2 cases and %d curves", found, want)
	}
	if want := d.Cases[0].Result.Title; found.Title != want {
		t.Errorf("title %q, want %q", found.Title, want)
	}
}
