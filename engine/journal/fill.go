package journal

import "github.com/mqd-broker/mqd/internal/invariant"

// floor is the number of bytes of the ring that an entry of kind k must leave free.
// Batches leave room for what a checkpoint writes before it can release anything,
// and everything leaves room for marks. So used never reaches the ring's size, and
// a ring whose head and tail are equal is empty.
func (j *Journal) floor(k Kind) int64 {
	switch k {
	case KindMark:
		return BlockSize
	case KindTail, KindCheckpoint:
		return markReserve
	}
	return markReserve + j.opts.Reserve
}

// place finds or begins the round for an entry with a body of n bytes.
func (j *Journal) place(k Kind, n int) (*slot, error) {
	if j.state != running && k != KindMark {
		return nil, j.refusal()
	}
	alone := roundSize(1, n)
	if n > j.opts.MaxBody {
		return nil, ErrTooLarge
	}
	if s := j.filling; s != nil {
		size := int64(roundSize(s.entries+1, s.bodies+n))
		if s.entries < s.most && size <= int64(j.opts.RoundBytes) && s.pos+size <= j.ring.end {
			if size > min(j.ring.size()-j.used-j.floor(k), j.left) {
				return nil, j.full()
			}
			return s, nil
		}
		j.close(s)
	}
	return j.begin(k, int64(alone))
}

func (j *Journal) refusal() error {
	if j.state == failed {
		return ErrFailed
	}
	return ErrClosed
}

func (j *Journal) full() error {
	j.stats.Full++
	return ErrFull
}

// begin opens a round for a first entry that makes it size bytes long. LSN and
// position are given here. If it does not fit before the end of the ring, a wrap
// round takes the LSN before it; the two are submitted together.
func (j *Journal) begin(k Kind, size int64) (*slot, error) {
	large := size > int64(j.opts.RoundBytes)
	need, wraps := size, j.tail+size > j.ring.end
	if wraps {
		need += j.ring.end - j.tail
	}
	switch {
	case large && j.bigBusy, !large && len(j.free) == 0, wraps && j.wrapped,
		need > min(j.ring.size()-j.used-j.floor(k), j.left):
		return nil, j.full()
	}
	s := j.big
	if large {
		j.bigBusy = true
	} else {
		s = j.free[len(j.free)-1]
		j.free = j.free[:len(j.free)-1]
	}
	if wraps {
		j.wrapped = true
		j.wrap.begin(j.nextLSN, j.tail)
		j.nextLSN++
		j.used += j.ring.end - j.tail
		j.left -= j.ring.end - j.tail
		j.tail = RingStart
	}
	s.begin(j.nextLSN, j.tail)
	s.wrapped = wraps
	j.nextLSN++
	j.filling = s
	return s, nil
}

// put adds an entry to the round that place found.
func (j *Journal) put(s *slot, e *Entry, body [][]byte, n int, need Need) uint64 {
	s.add(e, body, n)
	s.need = max(s.need, need)
	j.stats.Entries++
	if s == j.big {
		j.close(s)
	}
	return s.lsn
}

// close ends the filling of s; it waits for its turn.
func (j *Journal) close(s *slot) {
	if s != j.filling || s.entries == 0 {
		invariant.Violated("journal: the round that is closed is filling and not empty")
	}
	size := int64(s.size())
	j.used += size
	j.left -= size
	j.tail = j.ring.wrap(s.pos + size)
	j.filling = nil
	j.closed.push(s)
}

// slotQueue is a FIFO of closed rounds. There are never more than buffers.
type slotQueue struct {
	ring  []*slot
	first int
	n     int
}

func (q *slotQueue) push(s *slot) {
	if q.n == len(q.ring) {
		invariant.Violated("journal: no more rounds wait than there are buffers")
	}
	q.ring[(q.first+q.n)%len(q.ring)] = s
	q.n++
}

func (q *slotQueue) peek() *slot {
	if q.n == 0 {
		return nil
	}
	return q.ring[q.first]
}

func (q *slotQueue) pop() *slot {
	s := q.peek()
	if s != nil {
		q.ring[q.first] = nil
		q.first, q.n = (q.first+1)%len(q.ring), q.n-1
	}
	return s
}
