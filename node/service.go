package node

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// State says what a service does.
type State uint8

const (
	// Starting: the data directory is being recovered for the first time.
	Starting State = iota
	// Serving: there is a node. Its logs may have failed.
	Serving
	// Reopening: the node has ended, or is ending, and another one recovers.
	Reopening
	// Down: there is no node, because none could be started again.
	Down
	// Stopping: the end has begun.
	Stopping
)

var stateNames = [...]string{
	Starting: "starting", Serving: "serving", Reopening: "reopening", Down: "down", Stopping: "stopping",
}

// String is the state in one word.
func (s State) String() string { return stateNames[s] }

// Service keeps a node running and, on order, opens it again.
//
// A log that has failed acknowledges nothing any more. What the device has and what the
// kernel's memory shows may then be two things, so that nothing of the old node may go
// on: opening again is what a death of the process and a new start are, without the
// process. The old node ends at once, closes its connections, rings and files and gives
// its memory back; only then does another one begin, with recovery, from nothing but the
// data directory, which has to be the same. It listens at the same address. Nothing is
// tried without an order.
//
// Its methods may be called from any goroutine.
type Service struct {
	turn chan struct{} // holds one value while somebody starts or ends nodes
	life context.Context
	end  context.CancelFunc

	mu       sync.Mutex
	state    State
	since    time.Time
	node     *Node // nil unless there is one that nobody ends
	old      *Node // that did not end when it was told to
	why      error // of Down
	shards   int
	reopened int
	cfg      Config
	platform Platform

	failed chan struct{}
	once   sync.Once
}

// Condition is what a service does at a moment.
type Condition struct {
	State State
	Since time.Time
	// Why says, in state Down, what kept the node from starting.
	Why error
	// Node is nil unless the state is Serving.
	Node *Node
	// Shards is the number of shards, 0 before the first start.
	Shards int
	// Reopened counts how often the node has been opened again with success.
	Reopened int
}

// NewService makes a service without a node.
func NewService() *Service {
	s := &Service{turn: make(chan struct{}, 1), since: time.Now(), failed: make(chan struct{})}
	s.life, s.end = context.WithCancel(context.Background())
	return s
}

// Condition tells what the service does.
func (s *Service) Condition() Condition {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := Condition{State: s.state, Since: s.since, Why: s.why, Shards: s.shards, Reopened: s.reopened}
	if s.state == Serving {
		c.Node = s.node
	}
	return c
}

// Addr is the address of the node that was started last, "" before the first.
func (s *Service) Addr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cfg.Listen
}

// Failed is closed when a shard has stopped by itself, which no reopening puts right.
func (s *Service) Failed() <-chan struct{} { return s.failed }

// Start starts the first node; see the function Start. It may be tried again.
func (s *Service) Start(ctx context.Context, cfg Config, p Platform) error {
	select {
	case s.turn <- struct{}{}:
	default:
		return ErrUnderWay
	}
	defer func() { <-s.turn }()
	n, err := Start(ctx, cfg, p)
	if err != nil {
		return err
	}
	cfg.Listen = n.addr // port 0 takes another one each time
	s.mu.Lock()
	s.cfg, s.platform, s.shards = cfg, p, n.cfg.Shards
	s.mu.Unlock()
	s.serve(n)
	return nil
}

// Reopen ends the node, as if the process died, and starts another one in its place. It
// does so only when a log has failed or there is no node; else the error is ErrWorks. The
// other errors are ErrUnderWay, ErrNotEnded, and those of a start: then there is no node,
// and Reopen may be called again. It takes as long as the start, whoever waits for it.
func (s *Service) Reopen() error {
	select {
	case s.turn <- struct{}{}:
	default:
		return ErrUnderWay
	}
	defer func() { <-s.turn }()
	s.mu.Lock()
	if s.state != Serving && s.state != Down {
		s.mu.Unlock()
		return ErrUnderWay
	}
	if s.node != nil {
		if s.node.logsWork() {
			s.mu.Unlock()
			return ErrWorks
		}
		s.old, s.node = s.node, nil
	}
	s.set(Reopening, nil)
	old, cfg := s.old, s.cfg
	s.mu.Unlock()

	log := cfg.withDefaults().Log
	log.Warn("opening the logs again: connections are closed, recovery follows")
	n, err := s.renew(old, cfg)
	if err != nil {
		log.Error("logs not opened again; nothing is served before mqd admin reopen or a start succeeds", "error", err)
		s.mu.Lock()
		if s.state == Reopening {
			s.set(Down, err)
		}
		s.mu.Unlock()
		return err
	}
	s.mu.Lock()
	s.reopened++
	s.mu.Unlock()
	s.serve(n)
	return nil
}

// renew ends what is left of the old node and starts another one.
func (s *Service) renew(old *Node, cfg Config) (*Node, error) {
	if old != nil {
		if err := old.Abort(); err != nil {
			return nil, err
		}
		s.mu.Lock()
		s.old = nil
		s.mu.Unlock()
	}
	return Start(s.life, cfg, s.platform)
}

// serve puts a node into its place.
func (s *Service) serve(n *Node) {
	s.mu.Lock()
	s.node = n
	s.cfg.known = &n.rec.Node
	if s.state != Stopping {
		s.set(Serving, nil)
	}
	s.mu.Unlock()
	go func() {
		select {
		case <-n.down:
		case <-n.done:
			// What fails on every shard may have ended everything by now.
			select {
			case <-n.down:
			default:
				return
			}
		}
		s.once.Do(func() { close(s.failed) })
	}()
}

// set changes the state. The caller has the lock.
func (s *Service) set(state State, why error) {
	s.state, s.since, s.why = state, time.Now(), why
}

// Stop ends the node in order, as Node.Stop does, behind a start or reopening that is
// under way and is told to give up. Without a node the error says why there is none.
func (s *Service) Stop(ctx context.Context) error {
	s.mu.Lock()
	why := s.why
	s.set(Stopping, why)
	s.mu.Unlock()
	s.end()
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("stopped before the reopening was over: %w", ctx.Err())
	}
	defer func() { <-s.turn }()
	s.mu.Lock()
	n := s.node
	s.mu.Unlock()
	switch {
	case n == nil && why != nil:
		return fmt.Errorf("%w: %w", errNoNode, why)
	case n == nil:
		return errNoNode
	}
	return n.Stop(ctx)
}

// logsWork reports whether no log has failed.
func (n *Node) logsWork() bool {
	for _, err := range n.LogErrors() {
		if err != nil {
			return false
		}
	}
	return true
}
