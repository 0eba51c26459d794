package conn

import "sync/atomic"

// Census counts the connections of a node and bounds them. All servers of the
// node share one.
type Census struct {
	n   atomic.Int64
	max int64
}

// NewCensus allows up to limit connections at a time.
func NewCensus(limit int) *Census { return &Census{max: int64(limit)} }

// Count is the number of connections now. Any goroutine.
func (c *Census) Count() int { return int(c.n.Load()) }

// enter counts one more, if there is room.
func (c *Census) enter() bool {
	if c.n.Add(1) > c.max {
		c.n.Add(-1)
		return false
	}
	return true
}

func (c *Census) leave() { c.n.Add(-1) }
