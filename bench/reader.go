package bench

import (
	"fmt"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/bench/dialect"
	"github.com/mqd-broker/mqd/bench/drive"
	"github.com/mqd-broker/mqd/bench/ledger"
	"github.com/mqd-broker/mqd/net/wire"
)

const (
	// fetchWait is how long a fetch waits in the broker, in milliseconds.
	fetchWait = 500
	// fetchBytes is the most that a fetch asks for.
	fetchBytes = 1 << 20
	// fetchRecords is the most records that a fetch asks for: no limit of its own.
	fetchRecords = 1 << 20
	// fetchSize bounds a fetch, in bytes.
	fetchSize = max(wire.HeaderSize+wire.FetchRequestSize, dialect.Overhead)
)

// partReader reads one partition from its start.
type partReader struct {
	partition int32
	offset    int64 // next to fetch
	seen      int64 // messages, each once
	durable   int64 // as the last answer told
	asked     bool  // a fetch is in flight
	wrong     int64 // corrupted messages
	trackers  []ledger.Tracker
}

// reader reads the partitions of one worker, one fetch in flight for each, and
// checks every message.
type reader struct {
	w        *worker
	link     *drive.Link
	parts    []*partReader
	byNumber []*partReader // by partition, nil for those of other workers
	decoder  batch.Decoder
	asking   int  // fetches in flight
	stop     bool // nothing is asked for
	lastSeen int64
}

func newReader(w *worker, l *drive.Link, parts []int) *reader {
	run := w.run
	r := &reader{w: w, link: l, byNumber: make([]*partReader, run.load.Partitions)}
	r.decoder.Limit = batch.MaxSize
	for _, n := range parts {
		pr := &partReader{partition: int32(n), trackers: make([]ledger.Tracker, run.load.Connections)}
		r.parts = append(r.parts, pr)
		r.byNumber[n] = pr
	}
	r.lastSeen = w.loop.Clock.Now()
	l.To = r
	return r
}

// ask sends a fetch for every partition that has none in flight.
func (r *reader) ask() {
	if !r.stop && r.asking < len(r.parts) {
		wait := uint32(fetchWait)
		if r.w.run.allProduced() {
			wait = 0
		}
		for _, pr := range r.parts {
			if !pr.asked && (wait > 0 || !r.done(pr)) {
				r.fetch(pr, wait)
			}
		}
	}
	r.link.Flush()
}

// done reports whether everything of a partition has been read. All producers
// have ended.
func (r *reader) done(pr *partReader) bool {
	return pr.offset >= pr.durable && pr.seen >= r.w.run.ackedOf(pr.partition)
}

// doneAll reports whether all partitions are done.
func (r *reader) doneAll() bool {
	for _, pr := range r.parts {
		if !r.done(pr) {
			return false
		}
	}
	return true
}

func (r *reader) fetch(pr *partReader, wait uint32) {
	dst := r.link.Room(fetchSize)
	if dst == nil {
		return
	}
	req := wire.FetchRequest{
		Topic: r.w.run.topic.ID, Partition: pr.partition, Offset: pr.offset,
		MaxWait: wait, MinBytes: 1, MaxBytes: fetchBytes, MaxRecords: fetchRecords,
	}
	r.link.Filled(r.link.Talk.AppendFetch(dst, uint32(pr.partition), &req))
	pr.asked = true
	r.asking++
}

// frame takes the answer to a fetch.
func (r *reader) Frame(_ *drive.Link, h wire.Header, body []byte, now int64) error {
	if h.IsError() {
		e, err := wire.DecodeErrorResponse(body)
		if err != nil {
			return err
		}
		return fmt.Errorf("%w: %s: %s %s", ErrBroker, h.Op, e.Code, e.Message)
	}
	n := int(h.Correlation)
	if n >= len(r.byNumber) || r.byNumber[n] == nil || !r.byNumber[n].asked {
		return fmt.Errorf("%w: an answer to no fetch: %s, correlation %d", ErrBroker, h.Op, n)
	}
	pr := r.byNumber[n]
	pr.asked = false
	r.asking--
	a, err := r.link.Talk.Fetched(body)
	if err != nil {
		return err
	}
	if a.Code != wire.CodeNone {
		return fmt.Errorf("%w: fetch of partition %d at %d: %s", ErrBroker, n, pr.offset, a.Code)
	}
	if err := r.batches(pr, a.Batches, now); err != nil {
		return fmt.Errorf("partition %d at %d: %w", n, pr.offset, err)
	}
	pr.durable = a.Durable
	if a.NextOffset >= 0 { // by Kafka's protocol an answer without batches has none
		pr.offset = a.NextOffset
	}
	if len(a.Batches) > 0 {
		r.lastSeen = now
	}
	return nil
}

func (r *reader) batches(pr *partReader, b []byte, now int64) error {
	for len(b) > 0 {
		first, rest, err := batch.Split(b)
		if err != nil {
			return err
		}
		_, it, err := r.decoder.Open(first)
		if err != nil {
			return err
		}
		for it.Next() {
			rec := it.Record()
			if rec.Offset >= pr.offset {
				r.message(pr, rec.Value, rec.Offset, now)
			}
		}
		if err := it.Err(); err != nil {
			return err
		}
		b = rest
	}
	return nil
}

// message checks one message.
func (r *reader) message(pr *partReader, value []byte, offset, now int64) {
	run := r.w.run
	s, ok := readStamp(value)
	conn, partition := run.lane(s.lane)
	if !ok || s.run != run.id || partition != pr.partition || conn >= len(pr.trackers) {
		pr.wrong++
		return
	}
	if pr.trackers[conn].Take(s.seq, offset) {
		pr.seen++
		if run.clocks != nil {
			s.time += run.clocks[conn%len(run.clocks)]
		}
		r.w.received(s, now)
	}
}
