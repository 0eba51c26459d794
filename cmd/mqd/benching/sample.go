package benching

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mqd-broker/mqd/admin"
	"github.com/mqd-broker/mqd/bench"
	host "github.com/mqd-broker/mqd/bench/machine"
	"github.com/mqd-broker/mqd/engine/stage"
)

// patience bounds how long the broker may take to tell of itself.
const patience = 10 * time.Second

// reading is what broker and client have taken since they began.
type reading struct {
	at             time.Time
	client, broker time.Duration // CPU time
	collections    int64
	heap           int64
	stages         map[string]*stage.Histogram // nil if the broker does not tell
}

// sampler reads once in an interval while a run is under way.
type sampler struct {
	s       *session
	client  http.Client
	began   time.Time
	first   reading
	last    reading
	samples []bench.Sample
	broken  sync.Once
}

// sample begins to read; end returns the samples, and the stages of the whole run.
func (s *session) sample(ctx context.Context, every time.Duration) (end func() ([]bench.Sample, []bench.StageTimes)) {
	if every <= 0 {
		return func() ([]bench.Sample, []bench.StageTimes) { return nil, nil }
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	p := &sampler{s: s, client: http.Client{Transport: &http.Transport{}, Timeout: patience}, began: time.Now()} // no proxy
	p.first = p.read(ctx)
	p.last = p.first
	go func() {
		defer close(done)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				p.take(p.read(ctx))
			}
		}
	}()
	return func() ([]bench.Sample, []bench.StageTimes) {
		cancel()
		<-done
		defer p.client.CloseIdleConnections()
		now := p.read(context.Background())
		p.take(now) // what is left of an interval
		if p.first.stages == nil {
			return p.samples, nil // what was before this run is not known
		}
		return p.samples, stageTimes(p.first.stages, now.stages)
	}
}

// take adds the interval since the last reading.
func (p *sampler) take(now reading) {
	p.samples = append(p.samples, between(p.began, p.last, now))
	p.last = now
}

// between is the interval between two readings.
func between(began time.Time, a, b reading) bench.Sample {
	length := b.at.Sub(a.at)
	share := func(d time.Duration) float64 { return max(0, d.Seconds()/length.Seconds()) }
	x := bench.Sample{At: b.at.Sub(began), Length: length, Client: share(b.client - a.client), Broker: share(b.broker - a.broker), Heap: b.heap}
	if a.stages == nil || b.stages == nil { // one of the two the broker has not answered
		return x
	}
	x.Collections = max(0, b.collections-a.collections)
	for _, t := range stageTimes(a.stages, b.stages) {
		if x.Stages == nil {
			x.Stages = map[string]int64{}
		}
		x.Stages[t.Name] = t.Mean
	}
	return x
}

// stageTimes are the times between two readings, in the order of the stages.
func stageTimes(a, b map[string]*stage.Histogram) []bench.StageTimes {
	var all []bench.StageTimes
	for _, info := range stage.Table {
		after := b[info.Name]
		if after == nil {
			continue
		}
		h := *after
		if before := a[info.Name]; before != nil {
			h.Sub(before)
		}
		if h.Total > 0 {
			all = append(all, bench.StageTimes{
				Name: info.Name, Count: int64(h.Total), Mean: int64(h.Sum / h.Total), P50: h.Quantile(0.5), P99: h.Quantile(0.99),
			})
		}
	}
	return all
}

// read reads what there is.
func (p *sampler) read(ctx context.Context) reading {
	r := reading{at: time.Now()}
	if p.s.fleet == nil {
		r.client, _ = host.CPUTime("/", os.Getpid()) // 0 where it cannot be told
	}
	r.broker, _ = p.s.cpu()
	if p.s.admin == "" {
		return r
	}
	err := p.get(ctx, admin.PathStages, func(body io.Reader) (err error) {
		r.stages, err = readStages(body)
		return err
	})
	if err == nil {
		err = p.get(ctx, admin.PathPublicMetrics, func(body io.Reader) error {
			r.collections, r.heap = readRuntime(body)
			return nil
		})
	}
	if err != nil && ctx.Err() == nil {
		p.broken.Do(func() { p.s.tool.line(p.s.out, fmt.Sprintf("the broker tells nothing of itself: %v", err)) })
	}
	return r
}

func (p *sampler) get(ctx context.Context, path string, take func(io.Reader) error) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.s.admin+path, nil)
	if err != nil {
		return err
	}
	answer, err := p.client.Do(req)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", path, answer.Status)
	}
	return take(answer.Body)
}

// readStages puts the stages of all shards together.
func readStages(body io.Reader) (map[string]*stage.Histogram, error) {
	var shards []admin.ShardStages
	if err := json.NewDecoder(body).Decode(&shards); err != nil {
		return nil, err
	}
	all := map[string]*stage.Histogram{}
	for _, sh := range shards {
		for name, times := range sh.Stages {
			one := times.Histogram()
			sum := all[name]
			if sum == nil {
				all[name] = one
				continue
			}
			for i, n := range one.Counts {
				sum.Counts[i] += n
			}
			sum.Total += one.Total
			sum.Sum += one.Sum
		}
	}
	return all, nil
}

// readRuntime finds what Go's runtime tells in the text of the metrics.
func readRuntime(body io.Reader) (collections, heap int64) {
	for lines := bufio.NewScanner(body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		n, err := strconv.ParseFloat(value, 64)
		switch {
		case err != nil:
		case name == "mqd_go_gc_cycles_total":
			collections = int64(n)
		case name == "mqd_go_heap_bytes":
			heap = int64(n)
		}
	}
	return collections, heap
}

// settings are what the broker says of its configuration, "" if it does not.
func (s *session) settings() string {
	if s.admin == "" {
		return ""
	}
	p := sampler{s: s, client: http.Client{Transport: &http.Transport{}, Timeout: patience}} // no proxy
	defer p.client.CloseIdleConnections()
	var text []byte
	if p.get(s.ctx, admin.PathSettings, func(body io.Reader) (err error) {
		text, err = io.ReadAll(io.LimitReader(body, mostSettings))
		return err
	}) != nil {
		return ""
	}
	return string(text)
}

// mostSettings bounds them, in bytes.
const mostSettings = 64 << 10
