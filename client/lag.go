package client

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/mqd-broker/mqd/client/internal/link"
	"github.com/mqd-broker/mqd/net/wire"
)

// Lag is how far a consumer is behind in one partition.
type Lag struct {
	Topic     string
	Partition int32
	// Position is the offset of the next record that Poll returns.
	Position int64
	// End is the end of what can be read.
	End int64
	// Records is End less Position, or less the start of the log if that is higher: what
	// retention has removed is not behind any more, and what is in recorded gaps of the
	// partition never was. What compaction has taken out counts in.
	Records int64
	// Bytes is the size of the log behind Position as the broker stores it: compressed,
	// and with the whole batch that holds the record at Position. 0 without a lag, -1 if
	// the broker does not know.
	Bytes int64
	// Time is how much older the record at Position is than the newest one, by the times
	// at which the broker has appended them, whatever the clocks of producers and
	// consumers say; it does not grow while nobody produces. It is exact to a millisecond
	// where message.timestamp.type is LogAppendTime. Where it is CreateTime the broker has
	// its own time of one batch in each index.interval.bytes of log (4 KiB), and a wrong
	// clock of a producer makes an error of at most the time that these have taken. 0
	// without a lag, -1 if the broker does not know.
	Time time.Duration
}

// Lag asks the broker how far the consumer is behind, in order of topic and partition. For
// each partition the broker looks the record at the position up, which may read from its
// disk: ask for it every second, not for every batch. A broker that was
// built before it could be asked for bytes and time leaves them at -1. A member of a group
// waits first until it has begun with the partitions that the group has given to it: else
// they would be missing, as if there were nothing to do.
func (co *Consumer) Lag(ctx context.Context) ([]Lag, error) {
	co.mu.Lock()
	m := co.member
	co.mu.Unlock()
	if m != nil {
		if err := m.TakenUp(ctx); err != nil {
			return nil, opError("lag", "", -1, err)
		}
	}
	co.mu.Lock()
	qs := make([]lagQuery, len(co.feeds))
	for i, f := range co.feeds {
		qs[i] = lagQuery{topic: *f.topic, lag: Lag{Topic: f.name, Partition: f.partition, Position: f.position}}
	}
	co.mu.Unlock()
	slices.SortFunc(qs, func(a, b lagQuery) int {
		return cmp.Or(cmp.Compare(a.lag.Topic, b.lag.Topic), cmp.Compare(a.lag.Partition, b.lag.Partition))
	})
	return co.c.askLags(ctx, qs)
}

// Lag tells how far a reader would be behind who is at an offset of each of some partitions
// of a topic, in order of partition. The difference of two answers, less that of their ends,
// is how many records are between two offsets.
func (a *Admin) Lag(ctx context.Context, name string, positions map[int32]int64) ([]Lag, error) {
	t, err := a.c.lookup(ctx, name)
	if err != nil {
		return nil, err
	}
	var qs []lagQuery
	for p, at := range positions {
		if p < 0 || int(p) >= len(t.shards) || at < 0 {
			return nil, invalid("offset %d of partition %d of %d", at, p, len(t.shards))
		}
		qs = append(qs, lagQuery{topic: t, lag: Lag{Topic: name, Partition: p, Position: at}})
	}
	slices.SortFunc(qs, func(a, b lagQuery) int { return cmp.Compare(a.lag.Partition, b.lag.Partition) })
	return a.c.askLags(ctx, qs)
}

// unsupported reports whether an error says that the broker does not know the request.
func unsupported(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == wire.CodeUnsupportedOp
}

// askLags has look-ups answered, as well as the broker can.
func (c *Client) askLags(ctx context.Context, qs []lagQuery) ([]Lag, error) {
	err := c.lags(ctx, qs)
	if unsupported(err) {
		err = c.lagsByEnd(ctx, qs)
	}
	if err != nil {
		return nil, err
	}
	lags := make([]Lag, len(qs))
	for i := range qs {
		lags[i] = qs[i].lag
	}
	return lags, nil
}

// lagQuery is one look-up of a lag and its answer.
type lagQuery struct {
	topic topic
	lag   Lag
}

func (q *lagQuery) build(dst []byte, corr uint32) []byte {
	return wire.AppendLagRequest(dst, corr, wire.LagRequest{Topic: q.topic.id, Partition: q.lag.Partition, Offset: q.lag.Position})
}

// lags sends all look-ups before it waits for the first.
func (c *Client) lags(ctx context.Context, qs []lagQuery) error {
	calls := make([]*link.Call, len(qs))
	links := make([]*link.Link, len(qs))
	for i := range qs {
		links[i] = c.linkTo(qs[i].topic.shards[qs[i].lag.Partition])
		calls[i] = links[i].Start(wire.OpLag, qs[i].build)
	}
	for i := range qs {
		if err := qs[i].finish(ctx, links[i], calls[i]); err != nil {
			return err
		}
	}
	return nil
}

func (q *lagQuery) finish(ctx context.Context, l *link.Link, c *link.Call) error {
	g := &q.lag
	body, err := finish(ctx, l, wire.OpLag, c, callRead, g.Topic)
	if err != nil && isDisconnected(err) {
		body, err = do(ctx, l, callRead, g.Topic, wire.OpLag, q.build)
	}
	if err != nil {
		return err
	}
	r, err := wire.DecodeLagResponse(body)
	if err != nil {
		return opError(wire.OpLag.String(), g.Topic, g.Partition, err)
	}
	if r.Code != wire.CodeNone {
		return readError(wire.OpLag.String(), g.Topic, g.Partition, r.Code, "")
	}
	g.End, g.Records, g.Bytes, g.Time = r.End, r.Lag, r.Bytes, time.Duration(r.LagTime)
	return nil
}

// lagsByEnd asks a broker that knows no lag for the ends.
func (c *Client) lagsByEnd(ctx context.Context, qs []lagQuery) error {
	ends := make([]offsetQuery, len(qs))
	for i := range qs {
		ends[i] = offsetQuery{topic: &qs[i].topic, partition: qs[i].lag.Partition, time: wire.TimeEnd}
	}
	if err := c.listOffsets(ctx, ends); err != nil {
		return err
	}
	for i := range qs {
		g := &qs[i].lag
		g.End = ends[i].offset
		if g.Records = max(0, g.End-g.Position); g.Records > 0 {
			g.Bytes, g.Time = -1, -1
		}
	}
	return nil
}
