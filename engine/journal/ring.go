package journal

import "github.com/mqd-broker/mqd/internal/invariant"

// ring is the part of a region that holds rounds: the bytes [RingStart, end).
type ring struct{ end int64 }

// size is the number of bytes in the ring.
func (r ring) size() int64 { return r.end - RingStart }

// wrap maps the end of the ring to its start.
func (r ring) wrap(pos int64) int64 {
	if pos == r.end {
		return RingStart
	}
	return pos
}

// distance is the number of bytes from a forward to b, 0 when they are equal.
func (r ring) distance(a, b int64) int64 {
	if b >= a {
		return b - a
	}
	return r.size() - (a - b)
}

// after is the place n bytes behind pos, at most a whole lap.
func (r ring) after(pos, n int64) int64 { return RingStart + (pos-RingStart+n)%r.size() }

// live is a round that the ring holds and no checkpoint has released.
type live struct {
	lsn uint64
	pos int64
	// prevLSN and prevCRC are what its header says of the round before: what an
	// anchor needs to make it the head.
	prevLSN uint64
	prevCRC uint32
}

// liveQueue holds the live rounds, oldest first. It is sized for the smallest
// rounds, so it never grows.
type liveQueue struct {
	ring  []live
	first int
	n     int
}

func newLiveQueue(r ring) liveQueue {
	return liveQueue{ring: make([]live, r.size()/BlockSize+1)}
}

func (q *liveQueue) at(i int) *live {
	i += q.first
	if i >= len(q.ring) {
		i -= len(q.ring)
	}
	return &q.ring[i]
}

func (q *liveQueue) push(l live) {
	if q.n == len(q.ring) {
		invariant.Violated("journal: the ring holds no more rounds than blocks")
	}
	q.n++
	*q.at(q.n - 1) = l
}

// after is the index of the oldest round above lsn, q.n if there is none.
func (q *liveQueue) after(lsn uint64) int {
	lo, hi := 0, q.n
	for lo < hi {
		if mid := (lo + hi) / 2; q.at(mid).lsn <= lsn {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// drop removes the n oldest.
func (q *liveQueue) drop(n int) {
	q.first, q.n = (q.first+n)%len(q.ring), q.n-n
}
