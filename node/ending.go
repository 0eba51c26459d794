package node

import (
	"fmt"
	"time"

	"github.com/mqd-broker/mqd/engine"
	"github.com/mqd-broker/mqd/engine/shard"
)

// order is what all shards are told to do. It only grows. Loops look at it once a
// turn, so that telling them needs no room in an inbox and cannot be refused.
type order = int32

const (
	orderServe order = iota
	orderStop        // end in order
	orderAbort       // end at once
)

// ending says how far a shard has come with its end.
type ending uint8

const (
	endingNot      ending = iota
	endingRequests        // what is in flight is finished, connections end
	endingPeers           // until no shard can send this one a request any more
	endingStore           // flush, last checkpoint, end of the journal
	endingAborted         // connections are closed, nothing else is waited for
	endingDone
)

var endingNames = [...]string{
	endingNot:      "serving",
	endingRequests: "finishing requests",
	endingPeers:    "waiting for other shards",
	endingStore:    "closing its log",
	endingAborted:  "closing connections",
	endingDone:     "done",
}

func (e ending) String() string { return endingNames[e] }

const (
	// endingTick is how often a shard that ends looks at what it waits for.
	// Some of it happens on other shards and wakes nobody.
	endingTick = time.Millisecond
	// abortGrace is how long a shard that ends at once goes on turning, so that
	// its peers see their connections closed.
	abortGrace = 100 * time.Millisecond
)

// give tells all shards what to do.
func (n *Node) give(o order) {
	for {
		old := n.order.Load()
		if old >= o {
			return
		}
		if n.order.CompareAndSwap(old, o) {
			break
		}
	}
	for _, s := range n.shards {
		s.loop.Wake()
	}
}

// obey does what the shard is told, once.
func (s *member) obey(o order, now int64) {
	s.order = o
	s.stopBystanders()
	switch {
	case o == orderAbort:
		s.n.cfg.Log.Warn("shard cut short", "shard", s.id, "while", s.ending.String(), "connections", s.conns.Outstanding().Conns,
			"requests", s.broker.InFlight(), "log", s.logFailed())
		s.ending, s.abortBy = endingAborted, now+int64(abortGrace)
		s.conns.Abort()
	case s.ending == endingNot:
		s.ending = endingRequests
		s.conns.Stop()
	}
}

// end does the next step of the shard's end, and returns how much it found to do.
func (s *member) end(now int64) int {
	if !s.tick.Armed() {
		s.loop.Arm(&s.tick, now+int64(endingTick))
	}
	n := s.n
	switch s.ending {
	case endingRequests:
		if !s.conns.Stopped() || s.broker.InFlight() != 0 {
			return 0
		}
		s.ending = endingPeers
		n.quiet.Add(1)
	case endingPeers:
		// A connection that another shard has handed over may still be on its
		// way here; it is closed when it arrives.
		if int(n.quiet.Load()) != len(n.shards) || n.moving.Load() != 0 || !s.conns.Stopped() {
			return 0
		}
		s.ending = endingStore
		if s.logFailed() == nil {
			s.store.Close()
		}
	case endingStore:
		// A log that has failed comes to no further end: what it still has in
		// flight is the driver's to wait for.
		err := s.logFailed()
		if err == nil && !(s.store.Closed() && s.bystandersRest()) {
			return 0
		}
		if err != nil {
			n.note(fmt.Errorf("shard %d: the log has failed, the next start recovers: %w", s.id, err))
		} else if s.store.CutShort() {
			n.note(fmt.Errorf("shard %d: the last checkpoint could not be written, the next start recovers", s.id))
		}
		s.finish()
	case endingAborted:
		if !s.conns.Stopped() && now < s.abortBy {
			return 0
		}
		s.finish()
	}
	return 1
}

// stopBystanders has what reads beside the log begin nothing more.
func (s *member) stopBystanders() {
	if s.scrub != nil {
		s.scrub.Stop()
	}
	if s.id == 0 {
		s.n.auditor.Stop()
	}
}

// bystandersRest ends what the shard does beside its log, and reports whether that has
// come to rest. The ballast is kept until the log has ended, which may need its room.
func (s *member) bystandersRest() bool {
	if s.scrub != nil && !s.scrub.Resting() {
		return false
	}
	if s.id != 0 {
		return true
	}
	s.n.keeper.Stop()
	return s.n.keeper.Resting() && s.n.auditor.Resting()
}

// finish ends the loop after this turn.
func (s *member) finish() {
	s.ending = endingDone
	s.loop.Disarm(&s.tick)
	s.loop.Stop()
}

// logFailed is why the shard's log acknowledges nothing any more, nil while it
// does. A flush that failed on another shard's journal is this one's failure too:
// the device is the same.
func (s *member) logFailed() error {
	if err := s.store.Failed(); err != nil {
		return err
	}
	if s.n.device.Load() {
		return engine.ErrStorage
	}
	return nil
}

// Fire only ends the loop's sleep: the end goes on in every turn.
func (s *member) Fire(*shard.Timer, int64) {}
