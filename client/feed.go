package client

import (
	"errors"
	"fmt"
	"time"

	"github.com/mqd-broker/mqd/client/internal/attempts"
	"github.com/mqd-broker/mqd/client/internal/link"
	"github.com/mqd-broker/mqd/client/internal/member"
	"github.com/mqd-broker/mqd/client/internal/pull"
	"github.com/mqd-broker/mqd/net/wire"
)

// feed is one partition of a consumer. Fields are under the consumer's lock.
type feed struct {
	co        *Consumer
	name      string // of the topic; fixed like partition
	partition int32
	topic     *topic
	part      *member.Part // nil without a group
	tries     *attempts.History

	offset   int64  // to fetch next
	position int64  // of the next record for Poll
	wanted   int32  // least epoch of that record, 0 for any
	flying   *fetch // the fetch that is under way
	spare    *fetch // to use again
	answers  []*answer
	pull     pull.Feed
	listed   bool // in the consumer's ready list
	opening  bool // a Poll is checking the first answer
	paused   bool
	stopped  bool // by an error, until a seek
	revoked  bool // another member's by now
	waiting  bool // for retry's time
	attempt  int  // failures since the last answer
	epoch    int  // counts seeks
}

// answer is what a fetch brought and Poll has not returned yet.
type answer struct {
	buf     *link.Buffer
	size    int    // bytes of batches that came
	rest    []byte // those in buf that are left
	next    int64  // where the answer ends
	durable int64
	then    []error // what Poll is to hear behind it
}

// fetchMore sends the next fetch if the partition has room for its answer. It
// returns the link that has work then.
func (f *feed) fetchMore() *link.Link {
	if f.flying != nil || f.stopped || f.revoked || f.waiting || f.paused || f.co.closed {
		return nil
	}
	co := f.co
	ask, ok := co.pull.Next(&f.pull)
	if !ok {
		return nil
	}
	q := f.spare
	f.spare = nil
	if q == nil {
		q = &fetch{feed: f}
	}
	q.req = wire.FetchRequest{
		Topic: f.topic.id, Partition: f.partition, Offset: f.offset,
		MaxWait:  uint32(co.cfg.maxWait / time.Millisecond),
		MinBytes: uint32(co.cfg.minBytes), MaxBytes: uint32(ask.Bytes), MaxRecords: uint32(ask.Records),
	}
	l := co.c.linkTo(f.topic.shards[f.partition])
	if !l.Enqueue(q) {
		return nil
	}
	f.flying = q
	co.pull.Ask(&f.pull, ask)
	return l
}

// list puts the feed into the ready list if it has something for Poll.
func (f *feed) list() {
	if len(f.answers) > 0 && !f.listed && !f.opening && !f.paused {
		f.listed = true
		f.co.ready = append(f.co.ready, f)
		f.co.wake()
	}
}

// drop forgets what was fetched and what is under way.
func (f *feed) drop() {
	f.epoch++
	f.ground() // its answer will be nobody's
	f.pull.Dropped()
	for i, a := range f.answers {
		f.co.pull.Taken(&f.pull, a.size)
		// The first one may be in use by a Poll, which releases it then.
		if i > 0 || !f.opening {
			a.buf.Release()
		}
	}
	f.answers = nil
}

// ground forgets the fetch that is under way.
func (f *feed) ground() {
	if f.flying != nil {
		f.flying = nil
		f.co.pull.Unask(&f.pull)
	}
}

// passed moves the position on if nothing waits for Poll: there is nothing up to where
// the next fetch begins.
func (f *feed) passed() {
	if len(f.answers) > 0 {
		return
	}
	if f.part != nil {
		f.part.Passed(f.offset)
	}
	f.position = f.offset
}

// committed is the offset up to which the group is done with the partition, -1 for none.
func (f *feed) committed() int64 {
	if f.part == nil {
		return -1
	}
	return f.part.Committed()
}

// seek goes on at another offset, whose record has this epoch or a later one.
func (f *feed) seek(offset int64, epoch int32) {
	f.drop()
	f.tries.End()
	if f.part != nil {
		f.part.Seek()
	}
	f.offset, f.position, f.wanted = offset, offset, epoch
	f.stopped, f.waiting = false, false
}

// tell reports an error of the place where the next fetch begins: behind what was fetched
// before, which is still good.
func (f *feed) tell(err error) {
	if n := len(f.answers); n > 0 {
		f.answers[n-1].then = append(f.answers[n-1].then, err)
		return
	}
	f.co.report(err)
}

// retry fetches again after a pause.
func (f *feed) retry() {
	f.waiting = true
	f.attempt++
	epoch := f.epoch
	time.AfterFunc(f.co.retryPause(f.attempt-1), func() {
		f.co.mu.Lock()
		var kick *link.Link
		if f.epoch == epoch {
			f.waiting = false
			kick = f.fetchMore()
		}
		f.co.mu.Unlock()
		if kick != nil {
			kick.Kick()
		}
	})
}

// stop ends the partition until a seek and reports why.
func (f *feed) stop(e *Error) {
	f.stopped = true
	f.tell(stoppedError(e))
}

// strand stops a partition whose topic was deleted while another one of its name
// was made. What was fetched before is still good.
func (f *feed) strand() {
	f.epoch++
	f.tries.Forget()
	f.ground() // its answer will be nobody's
	f.waiting = false
	e := feedError(f, wire.CodeUnknownTopic, errors.New("the topic was deleted, and another one of its name was made"))
	e.Offset = f.offset
	f.stop(e)
}

// landed takes an answer. It returns the link that has work then, or an error
// if the broker's answer cannot be.
func (f *feed) landed(q *fetch, r *wire.FetchResponse, buf *link.Buffer) (*link.Link, error) {
	co := f.co
	co.mu.Lock()
	defer co.mu.Unlock()
	if f.flying != q || co.closed {
		buf.Release()
		return nil, nil
	}
	if r.Code == wire.CodeNone && (r.NextOffset < f.offset || len(r.Batches) > 0 && r.NextOffset == f.offset) {
		buf.Release()
		return nil, fmt.Errorf("fetch at offset %d answered with next offset %d", f.offset, r.NextOffset)
	}
	f.flying, f.spare = nil, q
	co.outage = false
	records := max(0, int(r.NextOffset-f.offset))
	co.pull.Answered(&f.pull, len(r.Batches), records, r.Durable-r.NextOffset)
	switch {
	case r.Code != wire.CodeNone:
		buf.Release()
		f.refused(r)
	case len(r.Batches) == 0:
		buf.Release()
		f.attempt = 0
		f.offset = r.NextOffset
		f.passed()
	default:
		f.attempt = 0
		f.offset = r.NextOffset
		f.answers = append(f.answers, &answer{buf: buf, size: len(r.Batches), rest: r.Batches, next: r.NextOffset, durable: r.Durable})
		f.list()
	}
	return f.fetchMore(), nil
}

// refused deals with an answer that is an error code.
func (f *feed) refused(r *wire.FetchResponse) {
	e := feedError(f, r.Code, nil)
	e.Offset = f.offset
	switch {
	case r.Code == wire.CodeOffsetOutOfRange:
		e.ValidLow, e.ValidHigh = r.LogStart, r.Durable
		f.outOfRange(e)
	case r.Code == wire.CodeCorrupt && r.NextOffset > f.offset:
		e.ValidLow = r.NextOffset
		e.Err = fmt.Errorf("the records before offset %d are lost", r.NextOffset)
		f.offset = r.NextOffset
		f.passed()
		f.tell(e)
	case r.Code.Retriable():
		if f.attempt == 0 {
			f.co.report(e)
		}
		f.retry()
	default:
		if r.Code == wire.CodeUnknownTopic || r.Code == wire.CodeUnknownPartition {
			f.co.c.refresh()
		}
		f.stop(e)
	}
}

// outOfRange applies the consumer's reset policy.
func (f *feed) outOfRange(e *Error) {
	to := e.ValidLow
	switch f.co.cfg.reset {
	case ResetEnd:
		to = e.ValidHigh
	case ResetNone:
		f.stop(e)
		return
	}
	if to < 0 || to == f.offset {
		f.stop(e) // a broker that contradicts itself
		return
	}
	f.tell(e)
	f.offset = to
	f.passed()
}

// lost deals with a fetch that got no answer.
func (f *feed) lost(q *fetch, err error) *link.Link {
	co := f.co
	co.mu.Lock()
	defer co.mu.Unlock()
	if f.flying != q || co.closed {
		return nil
	}
	f.ground()
	f.spare = q
	if !co.outage {
		co.outage = true
		e := refusal("fetch", f.name, f.partition, err)
		e.Offset, e.Retriable = f.offset, true
		co.report(e)
	}
	if isDisconnected(err) {
		return f.fetchMore()
	}
	f.retry()
	return nil
}

// fetch is the request of a feed. It is used again when it has ended.
type fetch struct {
	feed  *feed
	req   wire.FetchRequest
	frame [wire.HeaderSize + wire.FetchRequestSize]byte
	asked time.Time
}

func (q *fetch) Op() wire.Op    { return wire.OpFetch }
func (q *fetch) Answered() bool { return true }
func (q *fetch) Written()       {}

func (q *fetch) Encode(corr uint32) []byte {
	q.asked = time.Now()
	return wire.AppendFetchRequest(q.frame[:0], corr, &q.req)
}

func (q *fetch) Deliver(cur *link.Link, fr *link.Frame) error {
	co := q.feed.co
	offset, asked := q.req.Offset, q.asked
	var r wire.FetchResponse
	buf := fr.Own
	if fr.IsError() {
		e, err := wire.DecodeErrorResponse(fr.Body)
		if err != nil {
			return err
		}
		r = wire.FetchResponse{Code: e.Code, LogStart: -1, Durable: -1, NextOffset: -1}
	} else {
		var err error
		if r, err = wire.DecodeFetchResponse(fr.Body); err != nil {
			return err
		}
	}
	size := len(r.Batches)
	if buf == nil {
		buf = co.c.transport.Buffers.Get(size)
		copy(buf.B, r.Batches)
		r.Batches = buf.B
	}
	fr.Own = nil
	// Before anybody can poll the records: what has been polled is in the figures.
	n := &co.c.counters
	n.fetchAnswers.Add(1)
	n.fetchedBytes.Add(uint64(size))
	took := time.Since(asked)
	if size > 0 {
		n.fetches.Add(took)
	}
	kick, err := q.feed.landed(q, &r, buf)
	if err != nil {
		return err
	}
	if kick != nil && kick != cur {
		kick.Kick()
	}
	if h := co.c.cfg.hooks.OnFetch; h != nil {
		info := FetchInfo{Topic: q.feed.name, Partition: q.feed.partition, Offset: offset,
			Bytes: size, Durable: r.Durable, Took: took}
		if r.Code != wire.CodeNone {
			info.Err = readError("fetch", q.feed.name, q.feed.partition, r.Code, "")
		}
		h(q.feed.context(), info)
	}
	return nil
}

func (q *fetch) Fail(err error, _ bool) {
	if kick := q.feed.lost(q, err); kick != nil {
		kick.Kick()
	}
}
