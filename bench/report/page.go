package report

import (
	_ "embed"
	"html/template"
	"io"
	"math"
	"strconv"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/mqd-broker/mqd/bench"
)

// page is the whole page. Script, style and data are in it: it opens from a file,
// without a network, and loads nothing.
//
//go:embed report.html
var page string

var pageTemplate = template.Must(template.New("report").Funcs(template.FuncMap{"micros": func(ns int64) string { return strconv.FormatFloat(float64(ns)/micro, 'f', 1, 64) }}).Parse(page))

const (
	// heatRows is the number of rows of a heat map.
	heatRows = 40
	// curveTicks is how many points of a curve halve the rest.
	curveTicks = 8
)

// view is what the page shows of a document.
type view struct {
	Document *Document
	Host     string
	Jitter   string
	Floors   []floorView
	Cases    []caseView
}

type floorView struct{ Name, Figures string }

// caseView is what the page's script draws. Times are in microseconds.
type caseView struct {
	Title, Verdict, Reason string
	Figures                []figureView
	Rate, Megabytes        float64
	Faults                 string
	Curves                 []curve
	Interval               float64 // seconds
	Rates                  []float64
	Lags                   []float64
	Heat                   heat
	// Behind and Backlog are how many messages consumers are behind at the end of an
	// interval: who reads as they come, and who has paused.
	Behind, Backlog []float64
	Tail            []float64 // from end to end, 99th percentile
	Pause           string
	Clock           string  // by how much the clocks of two machines may differ, "" on one
	CPU, Collector  []track // over the run, warm-up included
	StageTracks     []track
	Stages          []bench.StageTimes
}

// track is a named course: pairs of seconds and values.
type track struct {
	Name   string
	Points [][2]float64
}

type figureView struct {
	Name    string
	Summary bench.Summary
	Text    string
}

// curve is a distribution: pairs of the logarithm of 1/(1-quantile), to base 10,
// and the value.
type curve struct {
	Name   string
	Points [][2]float64
}

// heat is how many messages of an interval took how long. Row i is of values from
// Low * Step^i to Low * Step^(i+1).
type heat struct {
	Low, Step float64
	Columns   [][]int64
}

// HTML writes the page.
func (d *Document) HTML(w io.Writer) error {
	v := view{Document: d, Host: d.Host.String(), Jitter: d.Jitter.String()}
	for _, f := range d.Floors.Disk {
		v.Floors = append(v.Floors, floorView{f.Row(), f.Latency.String()})
	}
	for _, f := range d.Floors.Network {
		v.Floors = append(v.Floors, floorView{f.Row(), f.RTT.String()})
	}
	for _, c := range d.Cases {
		v.Cases = append(v.Cases, newCaseView(c.Result))
	}
	return pageTemplate.Execute(w, v)
}

func newCaseView(r *bench.Result) caseView {
	v := caseView{
		Title: r.Title, Verdict: string(r.Verdict), Reason: r.Reason, Rate: r.Rate, Megabytes: r.Bytes / 1e6,
		Faults: r.Faults.String(), Interval: r.Series.Interval.Seconds(), Heat: newHeat(points(r.Series)),
	}
	for _, l := range latencies(r) {
		v.Figures = append(v.Figures, figureView{l.name, l.summary, l.summary.String()})
		v.Curves = append(v.Curves, newCurve(l))
	}
	for _, p := range r.Series.Points {
		v.Rates = append(v.Rates, float64(p.Done)/v.Interval)
		v.Lags = append(v.Lags, float64(p.Lag)/micro)
	}
	if r.ClockError > 0 {
		v.Clock = bench.Micros(r.ClockError)
	}
	v.consumers(r)
	v.samples(r)
	return v
}

// consumers adds the courses of who reads.
func (v *caseView) consumers(r *bench.Result) {
	s := r.Series
	done, read, drained := s.BeforeDone, s.BeforeRead, s.BeforeDrained
	var behind, backlog, tail []float64
	for _, p := range s.Points {
		done += p.Done
		read += p.Read
		drained += p.Drained
		behind = append(behind, float64(max(0, done-read)))
		backlog = append(backlog, float64(max(0, done-drained)))
		tail = append(tail, float64(p.EndToEndP99)/micro)
	}
	if read > 0 {
		v.Behind, v.Tail = behind, tail
	}
	if r.Pause != nil {
		v.Backlog, v.Pause = backlog, r.Pause.String()
	}
}

// samples adds the courses of what broker and client took.
func (v *caseView) samples(r *bench.Result) {
	v.Stages = r.Stages
	if len(r.Samples) == 0 {
		return
	}
	client, broker, collections := track{Name: "client"}, track{Name: "broker"}, track{Name: "collections"}
	stages := map[string]*track{}
	for _, x := range r.Samples {
		at := x.At.Seconds()
		client.Points = append(client.Points, [2]float64{at, x.Client})
		broker.Points = append(broker.Points, [2]float64{at, x.Broker})
		collections.Points = append(collections.Points, [2]float64{at, float64(x.Collections)})
		for _, st := range r.Stages {
			mean, ok := x.Stages[st.Name]
			if !ok {
				continue
			}
			if stages[st.Name] == nil {
				stages[st.Name] = &track{Name: st.Name}
			}
			stages[st.Name].Points = append(stages[st.Name].Points, [2]float64{at, float64(mean) / micro})
		}
	}
	v.CPU, v.Collector = []track{client, broker}, []track{collections}
	for _, st := range r.Stages {
		if t := stages[st.Name]; t != nil {
			v.StageTracks = append(v.StageTracks, *t)
		}
	}
}

func newCurve(l latency) curve {
	c := curve{Name: l.name}
	for _, b := range l.hist.CumulativeDistributionWithTicks(curveTicks) {
		if b.Quantile < 100 {
			c.Points = append(c.Points, [2]float64{-math.Log10(1 - b.Quantile/100), float64(b.ValueAt) / micro})
		}
	}
	return c
}

func newHeat(hists []*hdrhistogram.Histogram) heat {
	low, high := math.Inf(1), 0.0
	for _, h := range hists {
		if h != nil {
			low, high = min(low, float64(max(1, h.Min()))), max(high, float64(h.Max()))
		}
	}
	if high == 0 {
		return heat{}
	}
	step := math.Pow(max(2, 1.01*high/low), 1.0/heatRows)
	m := heat{Low: low / micro, Step: step, Columns: make([][]int64, len(hists))}
	for i, h := range hists {
		m.Columns[i] = make([]int64, heatRows)
		if h == nil {
			continue
		}
		for _, bar := range h.Distribution() {
			if bar.Count > 0 {
				row := int(math.Log(max(1, float64(bar.To)/low)) / math.Log(step))
				m.Columns[i][min(row, heatRows-1)] += bar.Count
			}
		}
	}
	return m
}
