package node

import (
	"context"
	"time"

	"github.com/mqd-broker/mqd/engine/shard"
	"github.com/mqd-broker/mqd/net/conn"
)

// ConnFigures are those of a connection.
type ConnFigures struct {
	conn.Entry
	Shard int
	Kafka bool // it speaks Kafka's protocol
	// Age is how long ago it came to its shard, Silent how long ago its newest sign of life
	// was.
	Age, Silent time.Duration
}

// listing has a shard list some of its connections.
type listing struct {
	s       *member
	entries []conn.Entry
	more    int
	now     int64
	done    chan struct{}
}

// RunOn implements shard.Task.
func (t *listing) RunOn(l *shard.Loop) {
	t.entries, t.more = t.s.conns.List(t.entries)
	t.now = l.Now()
	close(t.done)
}

// ConnFigures tells of connections: up to limit of all shards together, on each shard those
// that came first, and how many are left out. A shard that does not answer before ctx or the
// node ends tells of none.
func (n *Node) ConnFigures(ctx context.Context, limit int) (all []ConnFigures, leftOut int) {
	leftOut = n.census.Count()
	for i, s := range n.shards {
		t := &listing{s: s, entries: make([]conn.Entry, 0, max(1, limit/len(n.shards))), done: make(chan struct{})}
		if !n.post(s, t) || !n.answered(ctx, t.done) {
			continue
		}
		for _, e := range t.entries {
			all = append(all, ConnFigures{
				Entry: e, Shard: i, Kafka: s.kafkaDoor != nil && e.Door == s.kafkaDoor.Number(),
				Age: time.Duration(t.now - e.Opened), Silent: time.Duration(t.now - e.Active),
			})
		}
	}
	return all, max(0, leftOut-len(all))
}
