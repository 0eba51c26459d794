package node

import "github.com/mqd-broker/mqd/engine/shard"

// ending says how far a shard has come with its orderly end.
type ending uint8

const (
	endingNot      ending = iota
	endingRequests        // what is in flight is finished, connections end
	endingPeers           // until no shard can send this one a request any more
	endingStore           // flush, last checkpoint, end of the journal
)

// stop begins the shard's end.
func (s *member) stop() {
	s.post(func() {
		if s.ending == endingNot {
			s.ending = endingRequests
			s.conns.Stop()
		}
	})
}

// abort ends the shard at once: it does not wait for what is in flight.
func (s *member) abort() {
	s.post(func() {
		s.conns.Abort()
		s.loop.Stop()
	})
}

// post runs f on the shard's loop; a full inbox is emptied by the loop itself.
func (s *member) post(f func()) {
	task := shard.TaskFunc(func(*shard.Loop) { f() })
	for s.loop.Post(task) != nil {
		s.loop.Wake()
	}
}

// end does the next step of the orderly end.
func (s *member) end() {
	switch s.ending {
	case endingRequests:
		if s.conns.Stopped() && s.broker.InFlight() == 0 {
			s.ending = endingPeers
			s.n.quiet.Add(1)
		}
	case endingPeers:
		if int(s.n.quiet.Load()) == len(s.n.shards) {
			s.ending = endingStore
			s.store.Close()
		}
	case endingStore:
		if s.store.Closed() {
			s.loop.Stop()
		}
	}
}
