package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/mqd-broker/mqd/bench"
)

const (
	// ticks is how many lines of a percentile file halve the rest.
	ticks = 5
	// micro is the unit of files for people and for HdrHistogram's plotter.
	micro = 1000.0
)

// Write makes dir and the files of a result in it:
//
//	result.json       everything
//	report.html       for people
//	series.csv        the course of every case over time
//	samples.csv       what broker and client took meanwhile
//	case-N.NAME.hgrm  percentiles of a case's ack, service, lag, late, end_to_end or end_to_end_service, µs
//	case-N.hlog       its latencies, an interval a line
//
// Existing files are replaced.
func Write(dir string, d *Document) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	files := map[string]func(io.Writer) error{Name: d.JSON, "report.html": d.HTML, "series.csv": d.CSV, "samples.csv": d.SamplesCSV}
	for i, c := range d.Cases {
		files[fmt.Sprintf("case-%d.hlog", i+1)] = func(w io.Writer) error { return d.intervalLog(w, c.Result) }
		for _, l := range latencies(c.Result) {
			files[fmt.Sprintf("case-%d.%s.hgrm", i+1, l.name)] = func(w io.Writer) error {
				_, err := l.hist.PercentilesPrint(w, ticks, micro)
				return err
			}
		}
	}
	for name, fill := range files {
		var b bytes.Buffer
		if err := fill(&b); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), b.Bytes(), 0o666); err != nil {
			return err
		}
	}
	return nil
}

// JSON writes the document.
func (d *Document) JSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(d)
}

// latency is one histogram of a result.
type latency struct {
	name    string
	summary bench.Summary
	hist    *hdrhistogram.Histogram
}

// latencies are those that have values.
func latencies(r *bench.Result) []latency {
	var all []latency
	for _, l := range []latency{
		{name: "ack", summary: r.Ack}, {name: "service", summary: r.Service}, {name: "lag", summary: r.Lag},
		{name: "late", summary: r.Late}, {name: "end_to_end", summary: r.EndToEnd},
		{name: "end_to_end_service", summary: r.EndToEndService},
	} {
		if h, err := hdrhistogram.Decode([]byte(l.summary.Histogram)); err == nil && l.summary.Histogram != "" {
			l.hist = h
			all = append(all, l)
		}
	}
	return all
}

// points are the histograms of a series, nil for an interval without messages.
func points(s *bench.Series) []*hdrhistogram.Histogram {
	all := make([]*hdrhistogram.Histogram, len(s.Points))
	for i, p := range s.Points {
		if p.Histogram == "" {
			continue
		}
		if h, err := hdrhistogram.Decode([]byte(p.Histogram)); err == nil {
			all[i] = h
		}
	}
	return all
}

// intervalLog writes a series in the form of HdrHistogram's log, version 1.3.
func (d *Document) intervalLog(w io.Writer, r *bench.Result) error {
	log := hdrhistogram.NewHistogramLogWriter(w)
	start := d.Started.UnixMilli()
	if err := log.OutputComment("[" + r.Title + "]"); err != nil {
		return err
	}
	if err := log.OutputLogFormatVersion(); err != nil {
		return err
	}
	if err := log.OutputStartTime(start); err != nil {
		return err
	}
	if err := log.OutputLegend(); err != nil {
		return err
	}
	each := r.Series.Interval.Milliseconds()
	for i, h := range points(r.Series) {
		if h == nil {
			continue
		}
		h.SetStartTimeMs(start + int64(i)*each)
		h.SetEndTimeMs(start + int64(i+1)*each)
		if err := log.OutputIntervalHistogram(h); err != nil {
			return err
		}
	}
	return nil
}

// CSV writes the series of all cases.
func (d *Document) CSV(w io.Writer) error {
	out := csv.NewWriter(w)
	head := []string{"case", "seconds", "messages_per_second", "acked", "p50_us", "p99_us", "max_us", "max_send_lag_us", "read", "end_to_end_p50_us", "end_to_end_p99_us", "drained"}
	if err := out.Write(head); err != nil {
		return err
	}
	us := func(ns int64) string { return strconv.FormatFloat(float64(ns)/micro, 'f', 1, 64) }
	for n, c := range d.Cases {
		s := c.Result.Series
		for i, p := range s.Points {
			at := time.Duration(i) * s.Interval
			if err := out.Write([]string{
				strconv.Itoa(n + 1), strconv.FormatFloat(at.Seconds(), 'f', -1, 64), strconv.FormatFloat(float64(p.Done)/s.Interval.Seconds(), 'f', 0, 64),
				strconv.FormatInt(p.Acked, 10), us(p.P50), us(p.P99), us(p.Max), us(p.Lag),
				strconv.FormatInt(p.Read, 10), us(p.EndToEndP50), us(p.EndToEndP99), strconv.FormatInt(p.Drained, 10),
			}); err != nil {
				return err
			}
		}
	}
	out.Flush()
	return out.Error()
}

// SamplesCSV writes the samples of all cases.
func (d *Document) SamplesCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	head := []string{"case", "seconds", "client_cpus", "broker_cpus", "broker_collections", "broker_heap_bytes"}
	stages := map[string]bool{}
	for _, c := range d.Cases {
		for _, x := range c.Result.Samples {
			for name := range x.Stages {
				stages[name] = true
			}
		}
	}
	names := slices.Sorted(maps.Keys(stages))
	for _, name := range names {
		head = append(head, name+"_mean_us")
	}
	if err := out.Write(head); err != nil {
		return err
	}
	number := func(f float64, digits int) string { return strconv.FormatFloat(f, 'f', digits, 64) }
	for n, c := range d.Cases {
		for _, x := range c.Result.Samples {
			row := []string{
				strconv.Itoa(n + 1), number(x.At.Seconds(), 3), number(x.Client, 3), number(x.Broker, 3),
				strconv.FormatInt(x.Collections, 10), strconv.FormatInt(x.Heap, 10),
			}
			for _, name := range names {
				row = append(row, number(float64(x.Stages[name])/micro, 1))
			}
			if err := out.Write(row); err != nil {
				return err
			}
		}
	}
	out.Flush()
	return out.Error()
}
