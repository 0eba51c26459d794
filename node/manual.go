package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/mqd-broker/mqd/engine"
	"github.com/mqd-broker/mqd/engine/journal"
)

// Manual is a node without threads: its owner turns the loops of the shards, all on
// one goroutine and in any order. In a simulated machine a run of it repeats exactly.
// Everything but the threads is what [Start] starts.
type Manual struct{ n *Node }

// StartManual recovers the data directory and begins to serve. An error leaves
// nothing open.
func StartManual(cfg Config, p Platform) (*Manual, error) {
	n, err := newNode(cfg, p)
	if err != nil {
		return nil, err
	}
	m := &Manual{n}
	for _, s := range n.shards {
		s.byHand = true
	}
	if err := n.begin(context.Background()); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	n.logStart()
	return m, nil
}

// Node is the node itself, for what it tells.
func (m *Manual) Node() *Node { return m.n }

// Step turns the loop of a shard once and lets it idle if there was nothing to do. A
// shard that has ended does nothing. An error says that the shard is broken, as when
// its machine is.
func (m *Manual) Step(shard int) error {
	s := m.n.shards[shard]
	if s.over.Load() {
		return nil
	}
	err := s.loop.Step()
	if err != nil {
		err = fmt.Errorf("shard %d: %w", shard, err)
	}
	if err != nil || s.loop.Stopped() {
		s.over.Store(true)
	}
	return err
}

// Quiesce has new requests refused, which is the first that Stop does.
func (m *Manual) Quiesce() { m.n.broker.Quiesce() }

// Stop begins an orderly end, and Abort one at once. The loops have to be turned until
// Ended.
func (m *Manual) Stop() {
	m.Quiesce()
	m.n.give(orderStop)
}

// Abort begins an end at once.
func (m *Manual) Abort() { m.n.give(orderAbort) }

// Ended reports whether all loops have ended.
func (m *Manual) Ended() bool {
	for _, s := range m.n.shards {
		if !s.over.Load() {
			return false
		}
	}
	return true
}

// Close closes the drivers, the first shard's last because it holds the lock of the
// data directory, and returns what went wrong since the start. A nil error behind an
// orderly end says that the next start has nothing to recover.
func (m *Manual) Close() error {
	errs := []error{m.n.err}
	for i := len(m.n.shards) - 1; i >= 0; i-- {
		if d := m.n.shards[i].drv; d != nil {
			errs = append(errs, d.Close())
		}
	}
	return errors.Join(errs...)
}

// Store is the log of a shard, and Journal its journal, for what they count.
func (m *Manual) Store(shard int) *engine.Store { return m.n.shards[shard].store }

// Journal is the journal of a shard.
func (m *Manual) Journal(shard int) *journal.Journal { return m.n.shards[shard].journal }
