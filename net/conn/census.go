package conn

import (
	"strings"
	"sync/atomic"
)

// censusBuckets is the number of counters for addresses. Two addresses share one only
// by chance; then they share the limit.
const censusBuckets = 1 << 16

// CensusLimits bound the connections of a node. 0 stands for no limit, but for Total.
type CensusLimits struct {
	// Total is the number of connections at a time.
	Total int
	// PerAddress is the number of connections at a time that come from one address.
	PerAddress int
	// PerSecond is how many connections are accepted in a second; as many may come at
	// once after a second without any.
	PerSecond int
}

// Census counts the connections of a node and bounds them. All servers of the
// node share one. Nothing in it locks.
type Census struct {
	limits CensusLimits
	n      atomic.Int64
	next   atomic.Int64   // loop time at which PerSecond would be used up, if nobody came any more
	from   []atomic.Int32 // connections by bucket of their address
}

// NewCensus makes a census with limits.
func NewCensus(l CensusLimits) *Census {
	c := &Census{limits: l}
	if l.PerAddress > 0 {
		c.from = make([]atomic.Int32, censusBuckets)
	}
	return c
}

// Count is the number of connections now. Any goroutine.
func (c *Census) Count() int { return int(c.n.Load()) }

// second in nanoseconds.
const second = int64(1e9)

// enter counts one more, from a peer, if there is room. The bucket is for leave.
func (c *Census) enter(now int64, peer string) (bucket int32, ok bool) {
	if !c.inTime(now) {
		return 0, false
	}
	if c.n.Add(1) > int64(c.limits.Total) {
		c.n.Add(-1)
		return 0, false
	}
	if c.from == nil {
		return 0, true
	}
	bucket = bucketOf(peer)
	if c.from[bucket].Add(1) > int32(c.limits.PerAddress) {
		c.leave(bucket)
		return 0, false
	}
	return bucket, true
}

// bucketOf is the counter of a peer's address, host:port: FNV-1a of the host.
func bucketOf(addr string) int32 {
	host := addr[:max(0, strings.LastIndexByte(addr, ':'))]
	h := uint32(2166136261)
	for i := range len(host) {
		h = (h ^ uint32(host[i])) * 16777619
	}
	return int32((h ^ h>>16) % censusBuckets)
}

// inTime reports whether one more may come now.
func (c *Census) inTime(now int64) bool {
	if c.limits.PerSecond == 0 {
		return true
	}
	each := second / int64(c.limits.PerSecond)
	for {
		next := c.next.Load()
		used := max(next, now)
		if used+each > now+second {
			return false
		}
		if c.next.CompareAndSwap(next, used+each) {
			return true
		}
	}
}

func (c *Census) leave(bucket int32) {
	c.n.Add(-1)
	if c.from != nil {
		c.from[bucket].Add(-1)
	}
}
