package client

import (
	"context"
	"sync"
	"sync/atomic"
)

// space counts the memory of a producer's queued batches against its bound.
type space struct {
	limit int64
	gauge *atomic.Int64 // the client's total

	mu    sync.Mutex
	used  int64
	freed chan struct{} // closed and forgotten when memory comes back; nil if nobody waits
}

// take charges n bytes, or does nothing and returns false.
func (s *space) take(n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used+n > s.limit {
		return false
	}
	s.used += n
	s.gauge.Add(n)
	return true
}

// give returns n bytes and wakes who waits for them.
func (s *space) give(n int64) {
	s.mu.Lock()
	s.used -= n
	freed := s.freed
	s.freed = nil
	s.mu.Unlock()
	s.gauge.Add(-n)
	if freed != nil {
		close(freed)
	}
}

// wait returns when n bytes may be free, ctx ends, or closed is closed. The
// caller tries again: others wait too.
func (s *space) wait(ctx context.Context, n int64, closed <-chan struct{}) error {
	s.mu.Lock()
	if s.used+n <= s.limit {
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
		return ErrClosed
	case <-ctx.Done():
		return contextError(ctx)
	}
}
