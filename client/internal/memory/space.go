package memory

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/mqd-broker/mqd/client/internal/link"
)

// Space counts the memory of a producer's queued batches against its bound.
type Space struct {
	// Limit is the bound, in bytes.
	Limit int64
	// Gauge is the total of the client.
	Gauge *atomic.Int64

	mu    sync.Mutex
	used  int64
	freed chan struct{} // closed and forgotten when memory comes back; nil if nobody waits
}

// Take charges n bytes, or does nothing and returns false.
func (s *Space) Take(n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used+n > s.Limit {
		return false
	}
	s.used += n
	s.Gauge.Add(n)
	return true
}

// Force charges n bytes, beyond the bound if need be.
func (s *Space) Force(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used += n
	s.Gauge.Add(n)
}

// Give returns n bytes and wakes who waits for them.
func (s *Space) Give(n int64) {
	s.mu.Lock()
	s.used -= n
	freed := s.freed
	s.freed = nil
	s.mu.Unlock()
	s.Gauge.Add(-n)
	if freed != nil {
		close(freed)
	}
}

// Wait returns when n bytes may be free, ctx ends with its cause, or closed is closed.
// The caller tries again: others wait too.
func (s *Space) Wait(ctx context.Context, n int64, closed <-chan struct{}) error {
	s.mu.Lock()
	if s.used+n <= s.Limit {
		s.mu.Unlock()
		return nil
	}
	if s.freed == nil {
		s.freed = make(chan struct{})
	}
	freed := s.freed
	s.mu.Unlock()
	select {
	case <-freed:
		return nil
	case <-closed:
		return link.ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Waiting reports whether somebody waits for memory.
func (s *Space) Waiting() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.freed != nil
}
