package sim

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/net/wire"
	"github.com/mqd-broker/mqd/test/history"
)

const (
	// compactionPause is how often a node looks for what it can compact.
	compactionPause = 10 * time.Millisecond
	// idHeader is the header of a message without a value that says which one it is.
	idHeader = "id"
)

// compacting is how a topic is compacted, if it is.
type compacting struct {
	keyed     bool // its messages have keys
	on        bool // they go when they are superseded, or once did
	keeps     bool // nothing goes by age or size
	lag, stay time.Duration
	dirty     string
}

// drawCompacting draws how a new topic is compacted.
func (r *run) drawCompacting() compacting {
	if r.rng.IntN(2) > 0 {
		return compacting{}
	}
	c := compacting{keyed: true, on: r.rng.IntN(4) > 0, dirty: []string{"0", "0.1", "0.5"}[r.rng.IntN(3)]}
	c.keeps = c.on && r.rng.IntN(2) == 0
	c.stay = []time.Duration{0, 20 * time.Millisecond, time.Second}[r.rng.IntN(3)]
	if r.rng.IntN(4) == 0 {
		c.lag = []time.Duration{30 * time.Millisecond, time.Second}[r.rng.IntN(2)]
	}
	return c
}

// settings are those by which a topic is created.
func (c *compacting) settings() []wire.Config {
	if !c.keyed {
		return nil
	}
	policy := "delete"
	switch {
	case c.keeps:
		policy = "compact"
	case c.on:
		policy = "compact,delete"
	}
	return []wire.Config{
		{Key: "cleanup.policy", Value: policy}, {Key: "min.cleanable.dirty.ratio", Value: c.dirty},
		{Key: "delete.retention.ms", Value: fmt.Sprint(c.stay.Milliseconds())},
		{Key: "min.compaction.lag.ms", Value: fmt.Sprint(c.lag.Milliseconds())},
	}
}

// tell tells the history of a partition what may go.
func (c *compacting) tell(p *history.Partition) {
	if c.keyed {
		p.Keyed(meaning)
	}
	if c.on {
		p.MayCompact(int64(c.lag), int64(c.stay))
	}
}

// meaning is the key of a message and whether it deletes it, where messages have keys. A few
// keys come again and again, and many now and then.
func meaning(m history.Message) history.Meaning {
	n := uint64(m.Stream)<<48 ^ uint64(m.Producer)<<32 ^ uint64(m.Seq)
	n = (n ^ n>>31) * 0x9e3779b97f4a7c15
	n = (n ^ n>>29) * 0xbf58476d1ce4e5b9
	n ^= n >> 32
	k := history.Meaning{Key: 1 + uint32(n>>8)%12, Deletes: n%7 == 0}
	switch n >> 20 % 16 {
	case 0:
		return history.Meaning{}
	case 1, 2, 3:
		k.Key = 100 + uint32(n>>32)%300
	}
	return k
}

// message is a record of a partition, in memory that is used again.
type message struct {
	content, key []byte
	header       [1]batch.RecordHeader
}

// record makes the record of a message.
func (b *message) record(to *part, m history.Message, size int, timestamp int64) batch.Record {
	rec := batch.Record{Timestamp: timestamp}
	var means history.Meaning
	if to.topic.compacts.keyed {
		means = meaning(m)
	}
	if means.Key != 0 {
		b.key = strconv.AppendUint(b.key[:0], uint64(means.Key), 10)
		rec.Key = b.key
	}
	if means.Deletes {
		b.content = history.Append(b.content[:0], m, history.MinSize)
		b.header[0] = batch.RecordHeader{Key: idHeader, Value: b.content}
		rec.Headers = b.header[:]
		return rec
	}
	b.content = history.Append(b.content[:0], m, size)
	rec.Value = b.content
	return rec
}

// content is what says which message a record is. Its key and what else it consists of have
// to be those of that message.
func (r *run) content(p *part, v *batch.RecordView) []byte {
	if !p.topic.compacts.keyed {
		return v.Value
	}
	value := v.Value
	for it := v.Headers(); value == nil && it.Next(); {
		value = it.Value()
	}
	m, err := history.Identify(value)
	if err != nil {
		return value // the history tells
	}
	var key []byte
	means := meaning(m)
	if means.Key != 0 {
		key = strconv.AppendUint(nil, uint64(means.Key), 10)
	}
	if !bytes.Equal(key, v.Key) || (key == nil) != (v.Key == nil) || (v.Value == nil) != means.Deletes {
		r.failf("%v: message %v at offset %d has key %q and %d bytes, its key is %q", p, m, v.Offset, v.Key, len(v.Value), key)
	}
	return value
}

// compact turns the compaction of a topic on or off.
func (a *admin) compact(tp *topic) {
	r := a.r
	if !tp.compacts.keyed || tp.compacts.keeps {
		return
	}
	policy := "delete"
	if r.rng.IntN(3) > 0 {
		policy = "compact,delete"
		tp.compacts.on = true
		for _, p := range tp.parts {
			tp.compacts.tell(p.p)
		}
	}
	a.set(tp, wire.Config{Key: "cleanup.policy", Value: policy}, func(done bool) {
		switch {
		case !done:
		case policy == "delete":
			r.cover(sawCompactOff)
		default:
			r.cover(sawCompactOn)
		}
	}, nil)
}

// replacing waits for a while until a compacted log is about to take the place of another.
func (r *run) replacing() bool {
	if !slices.ContainsFunc(r.alive(), func(tp *topic) bool { return tp.compacts.on }) {
		return false
	}
	for n := 0; n < 200 && r.n != nil; n++ {
		for i := range r.cfg.Shards {
			if r.n.Store(i).Usage().Replacing {
				return true
			}
		}
		r.turn()
	}
	return false
}
