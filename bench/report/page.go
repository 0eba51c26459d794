package report

import (
	_ "embed"
	"html/template"
	"io"
	"math"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/mqd-broker/mqd/bench"
)

// page is the whole page. Script, style and data are in it: it opens from a file,
// without a network, and loads nothing.
//
//go:embed report.html
var page string

var pageTemplate = template.Must(template.New("report").Parse(page))

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
	return v
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
