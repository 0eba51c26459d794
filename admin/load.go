package admin

import (
	"context"
	"sync"
	"time"

	"github.com/mqd-broker/mqd/admin/scale"
	"github.com/mqd-broker/mqd/engine/stage"
	"github.com/mqd-broker/mqd/node"
)

// load looks at what a broker does, again and again, and judges whether it is too much.
type load struct {
	patience time.Duration // for answers

	mu    sync.Mutex
	judge scale.Judge

	end  context.CancelFunc
	done chan struct{}
}

// watch looks until close.
func (l *load) watch(service *node.Service) {
	var ctx context.Context
	ctx, l.end = context.WithCancel(context.Background())
	l.done = make(chan struct{})
	go func() {
		defer close(l.done)
		tick := time.NewTicker(scale.LookEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case now := <-tick.C:
				l.look(ctx, now, service)
			}
		}
	}()
}

func (l *load) close() {
	l.end()
	<-l.done
}

// look takes a look. Without an answer of every shard it is none.
func (l *load) look(ctx context.Context, now time.Time, service *node.Service) {
	look := scale.Look{At: now}
	if c := service.Condition(); c.Node != nil {
		look.Of = c.Node
		ctx, cancel := context.WithTimeout(ctx, l.patience)
		defer cancel()
		for _, s := range c.Node.Figures(ctx).Shards {
			if !s.Answered {
				return
			}
			add(&look.Send, &s.Stages[stage.FetchSend])
			add(&look.Read, &s.Stages[stage.ColdRead])
			look.Produced += s.Broker.ProducedBytes
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.judge.Take(&look)
}

// add adds the samples of a shard.
func add(to, h *stage.Histogram) {
	for i, n := range h.Counts {
		to.Counts[i] += n
	}
	to.Total += h.Total
	to.Sum += h.Sum
}

// signals are those of the newest look.
func (l *load) signals() scale.Signals {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.judge.Signals()
}

// ofLoad are the metrics of what is too much.
func ofLoad() []family {
	return []family{
		{name: "mqd_scale_signal", kind: gauge, labels: []string{"signal"},
			help: "1 when the broker has had too much to do for 30 s: fetch_latency is more than scale.fetch_latency, produce_rate more than scale.produce_rate.",
			collect: func(v *view, sample func(float64, ...string)) {
				sample(number(v.load.Fetch), "fetch_latency")
				sample(number(v.load.Produce), "produce_rate")
			}},
		value("mqd_scale_fetch_p99_seconds", gauge, "The larger one of the p99 of sending messages to consumers and of reading them from the drive, over 5 s and all shards; 0 with less than 100 of them.",
			func(v *view) float64 { return v.load.FetchP99.Seconds() }),
		value("mqd_scale_produce_rate_bytes", gauge, "Bytes from producers in a second, over 5 s and all shards.",
			func(v *view) float64 { return v.load.ProduceRate }),
	}
}
