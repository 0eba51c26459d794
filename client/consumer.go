package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/mqd-broker/mqd/client/internal/attempts"
	"github.com/mqd-broker/mqd/client/internal/link"
	"github.com/mqd-broker/mqd/client/internal/member"
	"github.com/mqd-broker/mqd/client/internal/pull"
	"github.com/mqd-broker/mqd/net/wire"
)

// Consumer reads partitions in the order of their offsets. Each partition has
// one long poll open at the broker, and the next is sent as soon as an answer
// comes, so records travel while the last ones are worked on. Where it is far behind
// it asks for more at a time, see [WithCatchUp]. For any number of goroutines.
type Consumer struct {
	c      *Client
	cfg    consumerConfig
	member *member.Member  // nil without a group
	ctx    context.Context // ends with the consumer
	cancel context.CancelFunc

	mu     sync.Mutex
	topics map[string]*topic
	feeds  []*feed // more may come; a slice that was taken stays as it is
	index  map[partitionKey]*feed
	tries  map[partitionKey]*attempts.History // also of partitions that have gone
	failed error                              // the membership is over
	ready  []*feed                            // have answers, in order of arrival
	errs   []error                            // to be returned by Poll
	outage bool                               // a lost connection was reported and none has answered since
	closed bool
	pull   pull.Policy
	notify chan struct{} // holds a token while there is something for Poll
	done   chan struct{}
}

// partitionKey names a partition.
type partitionKey struct {
	topic     string
	partition int32
}

// Consumer opens a consumer. It looks topics and offsets up, within
// [WithTimeout], so that [End] means the end at this moment.
func (c *Client) Consumer(opts ...ConsumerOption) (*Consumer, error) {
	cfg, err := newConsumerConfig(opts)
	if err != nil {
		return nil, err
	}
	co := &Consumer{
		c: c, cfg: cfg, pull: cfg.policy(), topics: map[string]*topic{}, index: map[partitionKey]*feed{},
		tries:  map[partitionKey]*attempts.History{},
		notify: make(chan struct{}, 1), done: make(chan struct{}),
	}
	co.ctx, co.cancel = context.WithCancel(context.Background())
	ctx, cancel := c.implied()
	defer cancel()
	if err := co.begin(ctx); err != nil {
		co.cancel()
		return nil, err
	}
	c.mu.Lock()
	closed := c.closed
	if !closed {
		c.consumers[co] = struct{}{}
	}
	c.mu.Unlock()
	if closed {
		return nil, errors.Join(opError("consume", "", -1, ErrClosed), co.Close(ctx))
	}
	co.fetchAll()
	return co, nil
}

// begin joins the group, or takes the partitions that were asked for.
func (co *Consumer) begin(ctx context.Context) error {
	if co.cfg.group.name != "" {
		return co.join(ctx)
	}
	if err := co.assign(ctx); err != nil {
		return err
	}
	if len(co.feeds) == 0 {
		return invalid("no topic to consume")
	}
	return nil
}

// assign makes the feeds and finds out where they begin.
func (co *Consumer) assign(ctx context.Context) error {
	start := map[*feed]Place{}
	add := func(name string, partition int32, at Place, epoch int32) error {
		t := co.topics[name]
		if t == nil {
			found, err := co.c.lookup(ctx, name)
			if err != nil {
				return err
			}
			t = &found
			co.topics[name] = t
		}
		if partition < 0 || int(partition) >= len(t.shards) {
			return codeError("consume", name, partition, wire.CodeUnknownPartition, "")
		}
		key := partitionKey{name, partition}
		if co.index[key] == nil {
			f := &feed{co: co, name: name, partition: partition, topic: t, tries: co.history(key), wanted: epoch}
			co.index[key] = f
			co.feeds = append(co.feeds, f)
			start[f] = at
		}
		return nil
	}
	for _, p := range co.cfg.positions {
		if p.Offset < OffsetStart {
			return invalid("offset %d of %s/%d", p.Offset, p.Topic, p.Partition)
		}
		epoch := p.Epoch
		if p.Offset < 0 {
			epoch = 0
		}
		if err := add(p.Topic, p.Partition, Offset(p.Offset), epoch); err != nil {
			return err
		}
	}
	for name, ps := range co.cfg.partitions {
		for _, p := range ps {
			if err := add(name, p, co.cfg.from, 0); err != nil {
				return err
			}
		}
	}
	for _, name := range co.cfg.topics {
		if err := add(name, 0, co.cfg.from, 0); err != nil {
			return err
		}
		for p := range co.topics[name].shards {
			if err := add(name, int32(p), co.cfg.from, 0); err != nil {
				return err
			}
		}
	}
	return co.locate(ctx, start)
}

// history is what is known of earlier readings of a partition. The lock is held, or the
// consumer not shared yet.
func (co *Consumer) history(key partitionKey) *attempts.History {
	h := co.tries[key]
	if h == nil {
		h = new(attempts.History)
		co.tries[key] = h
	}
	return h
}

// locate sets the feeds to their places.
func (co *Consumer) locate(ctx context.Context, start map[*feed]Place) error {
	var qs []offsetQuery
	var asked []*feed
	for f, at := range start {
		if at.kind == placeOffset {
			f.offset, f.position = at.offset, at.offset
			continue
		}
		qs = append(qs, offsetQuery{topic: f.topic, partition: f.partition, time: at.time()})
		asked = append(asked, f)
	}
	if err := co.c.listOffsets(ctx, qs); err != nil {
		return err
	}
	for i, f := range asked {
		f.offset, f.position = qs[i].offset, qs[i].offset
	}
	return nil
}

// fetchAll opens the long polls.
func (co *Consumer) fetchAll() {
	co.mu.Lock()
	var kicks []*link.Link
	co.pull.Feeds = len(co.feeds)
	for _, f := range co.feeds {
		if l := f.fetchMore(); l != nil && !slices.Contains(kicks, l) {
			kicks = append(kicks, l)
		}
	}
	co.mu.Unlock()
	for _, l := range kicks {
		l.Kick()
	}
}

// Poll returns the next batch of any partition, and waits for one as long as ctx allows: with
// a ctx that has ended it returns none, whatever is there. An error
// that is not ctx's or [ErrClosed] concerns one partition or connection and is
// returned once; the consumer goes on by itself unless the error says that the
// partition has stopped, or is the [ErrFenced] that ends a membership and every Poll
// after it. Release the batch when done with it.
func (co *Consumer) Poll(ctx context.Context) (*Batch, error) {
	if co.member != nil {
		co.member.Settle()
	}
	for {
		if ctx.Err() != nil {
			return nil, contextError(ctx) // also when there is always something
		}
		b, err := co.next()
		if b != nil || err != nil {
			return b, err
		}
		select {
		case <-co.notify:
		case <-co.done:
			return nil, opError("consume", "", -1, ErrClosed)
		case <-ctx.Done():
			return nil, contextError(ctx)
		}
	}
}

// next returns what is there for Poll, or nothing.
func (co *Consumer) next() (*Batch, error) {
	co.mu.Lock()
	defer co.mu.Unlock()
	for {
		if co.closed {
			return nil, opError("consume", "", -1, ErrClosed)
		}
		if len(co.errs) > 0 {
			err := co.errs[0]
			co.errs = slices.Delete(co.errs, 0, 1)
			co.renotify()
			return nil, err
		}
		if co.failed != nil {
			return nil, co.failed
		}
		if len(co.ready) == 0 {
			return nil, nil
		}
		f := co.ready[0]
		co.ready = slices.Delete(co.ready, 0, 1)
		f.listed = false
		if f.paused || len(f.answers) == 0 {
			continue
		}
		co.renotify()
		b, err := f.open()
		if b != nil || err != nil {
			return b, err
		}
	}
}

// renotify wakes another Poll if there is more. The lock is held.
func (co *Consumer) renotify() {
	if len(co.errs) > 0 || len(co.ready) > 0 || co.failed != nil {
		co.wake()
	}
}

// wake tells Poll that there is something. The lock is held.
func (co *Consumer) wake() {
	select {
	case co.notify <- struct{}{}:
	default:
	}
}

// report queues an error for Poll. The lock is held.
func (co *Consumer) report(err error) {
	if len(co.errs) == maxReports {
		// Nobody polls, or everything fails: the oldest say least.
		co.errs = slices.Delete(co.errs, 0, 1)
	}
	co.errs = append(co.errs, err)
	co.wake()
}

// maxReports bounds the errors that wait for Poll.
const maxReports = 1024

// Batches returns the batches of all partitions until ctx ends or the consumer
// is closed. Errors that pass are yielded once with a nil batch, and the
// sequence goes on; [ErrClosed] ends it, and the end of a membership.
func (co *Consumer) Batches(ctx context.Context) iter.Seq2[*Batch, error] {
	return func(yield func(*Batch, error) bool) {
		for {
			b, err := co.Poll(ctx)
			if err != nil && ctx.Err() != nil {
				return
			}
			if !yield(b, err) || errors.Is(err, ErrClosed) || err != nil && co.isOver(err) {
				return
			}
		}
	}
}

// Pause stops returning records of partitions; what is fetched stays. Offsets
// do not matter. Without arguments it stops all.
func (co *Consumer) Pause(ps ...Position) {
	co.mu.Lock()
	defer co.mu.Unlock()
	for _, f := range co.named(ps) {
		f.paused = true
	}
}

// Resume undoes [Consumer.Pause].
func (co *Consumer) Resume(ps ...Position) {
	co.mu.Lock()
	for _, f := range co.named(ps) {
		f.paused = false
		f.list()
	}
	co.mu.Unlock()
	co.fetchAll()
}

// named returns the feeds of positions, all for none.
func (co *Consumer) named(ps []Position) []*feed {
	if len(ps) == 0 {
		return co.feeds
	}
	var fs []*feed
	for _, p := range ps {
		if f := co.index[partitionKey{p.Topic, p.Partition}]; f != nil {
			fs = append(fs, f)
		}
	}
	return fs
}

// Seek goes on at other offsets, [OffsetStart] and [OffsetEnd] included. What
// was fetched of these partitions is dropped; a partition that had stopped
// begins again, in the new topic if one of the same name has been made meanwhile.
// It may be called in the midst of a batch, with [Batch.Position] of the record that is to
// come again, whose [RecordView.Attempt] is one more then; the rest of the batch at hand
// comes again too. What a group has committed stays: going back before it does not
// take it back, and after a restart the group goes on where it is.
func (co *Consumer) Seek(ctx context.Context, ps ...Position) error {
	type move struct {
		f      *feed
		offset int64
		epoch  int32
	}
	moves := make([]move, 0, len(ps))
	for _, p := range ps {
		co.mu.Lock()
		f := co.index[partitionKey{p.Topic, p.Partition}]
		co.mu.Unlock()
		if f == nil {
			return codeError("seek", p.Topic, p.Partition, wire.CodeUnknownPartition, "not a partition of this consumer")
		}
		if p.Offset < OffsetStart {
			return invalid("offset %d of %s/%d", p.Offset, p.Topic, p.Partition)
		}
		m := move{f, p.Offset, p.Epoch}
		if p.Offset < 0 {
			co.mu.Lock()
			t := *f.topic
			co.mu.Unlock()
			qs := []offsetQuery{{topic: &t, partition: p.Partition, time: Offset(p.Offset).time()}}
			if err := co.c.listOffsets(ctx, qs); err != nil {
				return err
			}
			m.offset, m.epoch = qs[0].offset, 0
		}
		moves = append(moves, m)
	}
	co.mu.Lock()
	for _, m := range moves {
		if !m.f.revoked {
			m.f.seek(m.offset, m.epoch)
		}
	}
	co.mu.Unlock()
	co.fetchAll()
	return nil
}

// moved takes a topic's new owners, and partitions that have come. With another id it is
// another topic of the same name, in which the offsets so far mean nothing: the partition
// stops.
func (co *Consumer) moved(t *topic) {
	if co.follow(t) {
		co.fetchAll()
	}
}

// follow reports whether there are partitions to be read that were not there before.
func (co *Consumer) follow(t *topic) bool {
	co.mu.Lock()
	defer co.mu.Unlock()
	old, grouped := co.topics[t.name], co.cfg.group.name != ""
	if old != nil && (old.id == t.id || !grouped) {
		t = t.after(old)
		co.topics[t.name] = t
	}
	for _, f := range co.feeds {
		if f.name != t.name || int(f.partition) >= len(t.shards) {
			continue
		}
		another := f.topic.id != t.id
		f.topic = t
		if another && !f.stopped {
			f.strand()
		}
	}
	if grouped || old == nil || old.id != t.id || !slices.Contains(co.cfg.topics, t.name) {
		return false
	}
	feeds := slices.Clip(co.feeds)
	for i := range t.shards {
		key := partitionKey{t.name, int32(i)}
		if co.index[key] == nil {
			f := &feed{co: co, name: t.name, partition: key.partition, topic: t, tries: co.history(key)} // from its start
			co.index[key] = f
			feeds = append(feeds, f)
		}
	}
	more := len(feeds) > len(co.feeds)
	co.feeds = feeds
	return more
}

// Close ends the consumer. Batches that were returned stay valid. A consumer of a group
// commits what was released, unless [WithAutoCommit] says no, and leaves, as long as ctx
// allows; the error is that of committing and leaving.
func (co *Consumer) Close(ctx context.Context) error {
	co.mu.Lock()
	if co.closed {
		co.mu.Unlock()
		return nil
	}
	co.closed = true
	close(co.done)
	for _, f := range co.feeds {
		f.drop()
	}
	co.mu.Unlock()
	defer co.cancel()
	co.c.mu.Lock()
	delete(co.c.consumers, co)
	co.c.mu.Unlock()
	if co.member == nil {
		return nil
	}
	return groupError("group-leave", co.member.Close(ctx))
}

// retryPause is how long a feed waits after a failure that may pass.
func (co *Consumer) retryPause(attempt int) time.Duration {
	return link.Backoff(max(co.c.cfg.backoffMin, time.Millisecond), co.c.cfg.backoffMax, attempt)
}

// feedError is an error of one partition at one offset.
func feedError(f *feed, code Code, err error) *Error {
	e := readError("fetch", f.name, f.partition, code, "")
	e.Offset, e.Err = f.position, err
	return e
}

// stoppedError says that a partition waits for Seek.
func stoppedError(e *Error) *Error {
	stopped := errors.New("the partition has stopped; Seek begins again")
	if e.Err == nil {
		e.Err = stopped
	} else {
		e.Err = fmt.Errorf("%w; %w", e.Err, stopped)
	}
	return e
}
