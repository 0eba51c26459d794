package node

import (
	"github.com/mqd-broker/mqd/engine/layout"
	"github.com/mqd-broker/mqd/engine/scrub"
	"github.com/mqd-broker/mqd/engine/segment"
)

// busyFill is the part of a journal, one in so many, beyond which writing it back to the
// segments comes before scrubbing.
const busyFill = 4

// beginScrub begins the shard's scrubber, if there is to be one. Each has its part of the
// rate.
func (s *member) beginScrub() error {
	cfg := &s.n.cfg
	if cfg.ScrubRate == 0 {
		return nil
	}
	s.scrub = scrub.New(s.loop, s.store, scrub.Options{
		Rate: max(1, cfg.ScrubRate/int64(cfg.Shards)), Interval: cfg.ScrubInterval,
		Busy: s.busy, Events: (*events)(s.n),
	})
	s.scrub.Begin()
	return nil
}

// busy reports whether the shard has better to do with its disk than to scrub.
func (s *member) busy() bool {
	return s.journal.Fill() > s.journal.Capacity()/busyFill || s.store.ColdWaiting()
}

// ScrubStats are the counters of a shard's scrubber, nil if there is none. Anyone may
// read them.
func (n *Node) ScrubStats(shard int) *scrub.Stats {
	if s := n.shards[shard].scrub; s != nil {
		return s.Stats()
	}
	return nil
}

// topicName is the name of a topic, its id if it has none any more.
func (e *events) topicName(id layout.TopicID) string {
	if id == layout.CatalogTopic {
		return layout.CatalogName
	}
	if t := e.broker.Image().ByID(id); t != nil {
		return t.Name
	}
	return id.String()
}

// ScrubDamage implements scrub.Events.
func (e *events) ScrubDamage(f *scrub.Finding) {
	r := &f.Range
	e.log().Error("DAMAGED: found by scrubbing; fetches of it are answered with an error", "topic", e.topicName(f.Topic), "partition", f.Partition,
		"first_offset", r.FromOffset, "last_offset", r.ToOffset-1, "next_good_offset", r.ToOffset,
		"file", f.Dir+"/"+f.LogName(), "position", r.FromPos, "end_position", r.ToPos, "check", r.Check)
}

// ScrubUnable implements scrub.Events.
func (e *events) ScrubUnable(id segment.ID, dir string, err error) {
	e.log().Warn("not scrubbed", "topic", e.topicName(id.Topic), "partition", id.Partition, "file", dir+"/"+id.LogName(), "error", err)
}

// ScrubPassed implements scrub.Events.
func (e *events) ScrubPassed(shard int, s *scrub.Stats) {
	if s.Segments.Load() == 0 {
		return
	}
	e.log().Info("scrubbed everything", "shard", shard, "passes", s.Passes.Load(), "segments", s.Segments.Load(), "bytes", s.Bytes.Load(),
		"damaged", s.Damaged.Load(), "indexes_made", s.Indexes.Load(), "errors", s.Errors.Load())
}
