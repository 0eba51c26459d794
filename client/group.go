package client

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/mqd-broker/mqd/client/internal/member"
	"github.com/mqd-broker/mqd/net/wire"
)

// groupConfig is what the options of groups set.
type groupConfig struct {
	name     string
	instance string
	claims   map[string][]int32
	session  time.Duration
	every    time.Duration
	records  int
}

// Group has the consumer join a group, which divides the partitions of [Topics] among
// its members and keeps what they commit. Partitions come and go: the context of their
// batches, [Batch.Context], ends when they go.
func Group(name string) ConsumerOption { return func(c *consumerConfig) { c.group.name = name } }

// Instance names the member for good: a consumer of the same instance takes its
// partitions over at once, and what it takes them from ends with [ErrFenced].
func Instance(name string) ConsumerOption {
	return func(c *consumerConfig) { c.group.instance = name }
}

// ClaimPartitions has a group give partitions by a table, which instances and administrators
// write, instead of dividing them: the consumer's [Instance] gets these partitions of a
// topic if no instance has them. Without ps it claims nothing and gets what the table
// says. It goes without [Topics].
func ClaimPartitions(topic string, ps ...int32) ConsumerOption {
	return func(c *consumerConfig) {
		if c.group.claims == nil {
			c.group.claims = map[string][]int32{}
		}
		c.group.claims[topic] = append(c.group.claims[topic], ps...)
	}
}

// WithSession says how long a member may be silent before its partitions go to others:
// 1 s to 30 min, default 10 s.
func WithSession(d time.Duration) ConsumerOption {
	return func(c *consumerConfig) { c.group.session = d }
}

// WithAutoCommit says how often a consumer of a group commits by itself: after this much
// time, and whenever so many more records are done with; more where it is far behind, see
// [WithCatchUp]. Default 5 s and 1,000. The
// records of a batch are done with when the batch has been released and the application
// has called [Consumer.Poll] since, or closes the consumer. A batch that is released
// after its context has ended is not. Every 0 leaves it to [Batch.Commit]; records 0
// goes by time alone.
func WithAutoCommit(every time.Duration, records int) ConsumerOption {
	return func(c *consumerConfig) { c.group.every, c.group.records = every, records }
}

// checkGroup says what is wrong with the options of groups.
func (c *consumerConfig) checkGroup() error {
	g := &c.group
	switch {
	case g.name == "" && (g.instance != "" || g.claims != nil):
		return invalid("Instance or ClaimPartitions without Group")
	case g.name == "":
		return nil
	case len(g.name) > wire.MaxString || len(g.instance) > maxName:
		return invalid("Group(%.32q), Instance(%.32q): too long", g.name, g.instance)
	case len(c.partitions) > 0 || len(c.positions) > 0:
		return invalid("Group(%q) with Partitions or FromPositions; see ClaimPartitions", g.name)
	case g.claims != nil && (g.instance == "" || len(c.topics) > 0):
		return invalid("ClaimPartitions, expected with Instance and without Topics")
	case g.claims == nil && len(c.topics) == 0:
		return invalid("no topic to consume")
	case g.session < time.Second || g.session > 30*time.Minute:
		return invalid("WithSession(%v), expected 1s to 30m", g.session)
	case g.every < 0 || g.records < 0:
		return invalid("WithAutoCommit(%v, %d), expected 0 or more", g.every, g.records)
	}
	if !c.resetSet {
		c.reset = ResetStart
		if c.from.kind == placeEnd {
			c.reset = ResetEnd
		}
	}
	return nil
}

// join makes the consumer a member of its group.
func (co *Consumer) join(ctx context.Context) error {
	g := &co.cfg.group
	r := wire.GroupJoinRequest{
		Group: []byte(g.name), Mode: wire.GroupAuto, Instance: g.instance, Client: co.c.cfg.clientID,
		Session: uint32(g.session / time.Millisecond), Topics: co.cfg.topics,
	}
	names := co.cfg.topics
	if g.claims != nil {
		r.Mode, names = wire.GroupManual, slices.Sorted(maps.Keys(g.claims))
	}
	for _, name := range names {
		t, err := co.c.lookup(ctx, name)
		if err != nil {
			return err
		}
		co.topics[name] = &t
		for _, p := range g.claims[name] {
			if p < 0 || int(p) >= len(t.shards) {
				return codeError("group-join", name, p, wire.CodeUnknownPartition, "")
			}
			r.Claims = append(r.Claims, wire.PartitionRef{Topic: t.id, Partition: p})
		}
	}
	m, err := member.Join(ctx, member.Config{
		Join: r, CommitEvery: g.every, Pause: co.retryPause,
	}, (*groupReader)(co))
	if err != nil {
		return groupError("group-join", err)
	}
	co.mu.Lock()
	co.member = m
	co.mu.Unlock()
	return nil
}

// groupReader is a consumer as the reader of a membership.
type groupReader Consumer

// Call implements [member.Host].
func (r *groupReader) Call(ctx context.Context, op wire.Op, build func(dst []byte, corr uint32) []byte) ([]byte, error) {
	began := time.Now()
	body, err := do(ctx, r.c.control, callRead, "", op, build)
	if err == nil && op == wire.OpGroupCommit {
		r.c.counters.commits.Add(time.Since(began))
	}
	return body, err
}

// Adopt implements [member.Host].
func (r *groupReader) Adopt(ctx context.Context, parts []*member.Part) error {
	co := (*Consumer)(r)
	if err := co.nameParts(ctx, parts); err != nil {
		return err
	}
	start := map[*feed]Place{}
	var feeds []*feed
	co.mu.Lock()
	for _, p := range parts {
		key := partitionKey{p.Topic, p.Ref.Partition}
		f := &feed{co: co, name: p.Topic, partition: p.Ref.Partition, topic: co.topics[p.Topic], part: p, tries: co.history(key)}
		switch start[f] = co.cfg.from; {
		case p.Start >= 0:
			start[f] = Offset(p.Start)
		case int(f.partition) >= f.topic.first:
			start[f] = Start()
		}
		feeds = append(feeds, f)
	}
	co.mu.Unlock()
	if err := co.locate(ctx, start); err != nil {
		return err
	}
	co.mu.Lock()
	co.feeds = append(slices.Clone(co.feeds), feeds...)
	for _, f := range feeds {
		co.index[partitionKey{f.name, f.partition}] = f
	}
	co.mu.Unlock()
	co.fetchAll()
	return nil
}

// nameParts finds the topics of partitions by their ids.
func (co *Consumer) nameParts(ctx context.Context, parts []*member.Part) error {
	for again := false; ; again = true {
		co.mu.Lock()
		known := make(map[wire.TopicID]*topic, len(co.topics))
		for _, t := range co.topics {
			known[t.id] = t
		}
		co.mu.Unlock()
		missing := slices.ContainsFunc(parts, func(p *member.Part) bool {
			t := known[p.Ref.Topic]
			if t == nil || int(p.Ref.Partition) >= len(t.shards) { // more have come
				return true
			}
			p.Topic = t.name
			return false
		})
		switch {
		case !missing:
			return nil
		case again:
			return codeError("group-join", "", -1, wire.CodeUnknownTopic, "")
		}
		found, err := co.c.metadata(ctx, wire.MetadataRequest{All: true})
		if err != nil {
			return err
		}
		co.mu.Lock()
		for i := range found {
			is := func(p *member.Part) bool { return p.Ref.Topic == found[i].ID }
			if found[i].Code == wire.CodeNone && slices.ContainsFunc(parts, is) {
				t := topicOf(&found[i])
				co.topics[t.name] = t.after(known[t.id])
			}
		}
		co.mu.Unlock()
	}
}

// Revoke implements [member.Host].
func (r *groupReader) Revoke(parts []*member.Part) {
	co := (*Consumer)(r)
	co.mu.Lock()
	defer co.mu.Unlock()
	co.feeds = slices.DeleteFunc(slices.Clone(co.feeds), func(f *feed) bool {
		if !slices.Contains(parts, f.part) {
			return false
		}
		f.revoked = true
		f.drop()
		f.tries.End()
		if key := (partitionKey{f.name, f.partition}); co.index[key] == f {
			delete(co.index, key)
		}
		return true
	})
}

// Report implements [member.Host].
func (r *groupReader) Report(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := groupError("group", err).(*Error)
	e.Retriable = e.Retriable || e.Code == wire.CodeNone // the member goes on
	(*Consumer)(r).report(e)
}

// Failed implements [member.Host].
func (r *groupReader) Failed(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = groupError("group-heartbeat", err)
	(*Consumer)(r).wake()
}

// isOver reports whether err ends the consumer.
func (co *Consumer) isOver(err error) bool {
	co.mu.Lock()
	defer co.mu.Unlock()
	return err == co.failed
}

// names are the topics of the consumer.
func (co *Consumer) names() []string {
	co.mu.Lock()
	defer co.mu.Unlock()
	return slices.Collect(maps.Keys(co.topics))
}

// Context ends when the group takes the partition away from the consumer, and for a
// consumer without a group when it is closed.
func (b *Batch) Context() context.Context {
	if b.part != nil {
		return b.part.Context
	}
	return b.co.ctx
}

// context is that of the batches of the partition.
func (f *feed) context() context.Context {
	if f.part != nil {
		return f.part.Context
	}
	return f.co.ctx
}

// Commit commits the batch: the group goes on behind its last record. It returns when
// that is on the broker's disk. What is committed already is not sent. The error is
// [ErrFenced] if the partition is another member's by now; when ctx ends it is
// [ErrOutcomeUnknown]. A released batch can be committed.
func (b *Batch) Commit(ctx context.Context) error { return b.CommitTo(ctx, b.Last+1) }

// CommitTo commits the records before an offset, 0 to Last+1, as Commit does all of the
// batch; others are [ErrInvalid].
func (b *Batch) CommitTo(ctx context.Context, next int64) error {
	if b.part == nil {
		return invalid("Commit without Group")
	}
	if next < 0 || next > b.Last+1 {
		return invalid("CommitTo(%d), expected 0 to %d", next, b.Last+1)
	}
	err := b.part.Commit(ctx, next, b.epochBefore(next))
	if err == nil {
		return nil
	}
	e := groupError("group-commit", err).(*Error)
	e.Topic, e.Partition, e.Offset = b.Topic, b.Partition, next
	e.OutcomeUnknown = e.OutcomeUnknown || ctx.Err() != nil
	return e
}

// epochBefore is the epoch of the last record before an offset up to the batch's end, 0
// where it is not known: that the epochs of a log never fall is all that is kept.
func (b *Batch) epochBefore(next int64) int32 {
	first, last := b.run.FirstEpoch, b.run.LastEpoch
	if next == b.Last+1 || next > b.First && first == last {
		return last
	}
	return 0
}

// groupError makes an [Error] of what a membership returns.
func groupError(op string, err error) error {
	var r *member.Refused
	var e *Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &r):
		e = readError(r.Op.String(), "", -1, r.Code, r.Message)
		if r.Part != nil {
			e.Topic, e.Partition = r.Part.Topic, r.Part.Ref.Partition
		}
	case errors.Is(err, member.ErrGone):
		e = opError(op, "", -1, ErrFenced)
	case errors.As(err, &e):
		copied := *e
		e = &copied
	default:
		e = opError(op, "", -1, err)
	}
	return e
}
