// Package scale tells when a broker has more to do than it should have: signals for
// whoever, or whatever, gives it more shards, or divides its topics among more brokers.
//
// It judges what the broker's counters have done between two looks. A moment of load is no
// signal: what is too much has to have been so for a while.
package scale

import (
	"time"

	"github.com/mqd-broker/mqd/engine/stage"
)

const (
	// LookEvery is the time between two looks.
	LookEvery = 5 * time.Second
	// Lasting is how long something has to be too much.
	Lasting = 30 * time.Second
	// leastSamples is how many fetches there have to be between two looks: the p99 of less is
	// the longest of them.
	leastSamples = 100
)

// Limits are what is too much; 0 is no limit.
type Limits struct {
	// FetchP99 is the time that a fetch may take beyond its wait for messages.
	FetchP99 time.Duration
	// ProduceRate is in bytes a second.
	ProduceRate int64
}

// Look is what a broker tells at a moment.
type Look struct {
	At time.Time
	// Of is the node that tells; another one has begun to count anew.
	Of any
	// Send and Read are the times of all shards in the stages fetch_send and cold_read.
	Send, Read stage.Histogram
	// Produced counts bytes.
	Produced uint64
}

// Signals are what is known since the last look.
type Signals struct {
	// FetchP99 is the larger one of the p99 of sending and of reading from the drive, 0 while
	// there is too little to tell. ProduceRate is in bytes a second.
	FetchP99    time.Duration
	ProduceRate float64
	// Fetch and Produce say that the limit has been passed for as long as Lasting.
	Fetch, Produce bool
}

// Judge compares looks. The zero value has no limits.
type Judge struct {
	Limits
	last Look
	now  Signals
	// fetchSince and produceSince are since when too much is done, zero while it is not.
	fetchSince, produceSince time.Time
}

// Take takes a look that is newer than the one before.
func (j *Judge) Take(l *Look) {
	before := j.last
	j.last = *l
	took := l.At.Sub(before.At).Seconds()
	if l.Of == nil || l.Of != before.Of || took <= 0 || l.Produced < before.Produced {
		j.now, j.fetchSince, j.produceSince = Signals{}, time.Time{}, time.Time{}
		return
	}
	send, read := l.Send, l.Read
	send.Sub(&before.Send)
	read.Sub(&before.Read)
	j.now.FetchP99 = max(p99(&send), p99(&read))
	j.now.ProduceRate = float64(l.Produced-before.Produced) / took
	j.now.Fetch = lasts(&j.fetchSince, j.FetchP99 > 0 && j.now.FetchP99 > j.FetchP99, before.At, l.At)
	j.now.Produce = lasts(&j.produceSince, j.ProduceRate > 0 && j.now.ProduceRate > float64(j.ProduceRate), before.At, l.At)
}

// Signals are those of the last look.
func (j *Judge) Signals() Signals { return j.now }

// p99 is that of enough samples, else 0.
func p99(h *stage.Histogram) time.Duration {
	if h.Total < leastSamples {
		return 0
	}
	return time.Duration(h.Quantile(0.99))
}

// lasts notes since when something is so, and reports whether that is long enough.
func lasts(since *time.Time, is bool, from, to time.Time) bool {
	switch {
	case !is:
		*since = time.Time{}
		return false
	case since.IsZero():
		*since = from
	}
	return to.Sub(*since) >= Lasting
}
