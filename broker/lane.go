package broker

// waiter is a request's place in a fifo. A request is in at most one at a time.
type waiter struct {
	prev, next *waiter
	in         *fifo
	msg        Message
}

// fifo is a list of what waits, in order of arrival. It is bounded by what can be
// in flight, because its members are embedded in requests.
type fifo struct {
	first, last *waiter
	n           int
}

func (q *fifo) empty() bool { return q.first == nil }

func (q *fifo) push(w *waiter) {
	w.in, w.prev, w.next = q, q.last, nil
	if q.last != nil {
		q.last.next = w
	} else {
		q.first = w
	}
	q.last = w
	q.n++
}

// pushFront puts back what pop has taken.
func (q *fifo) pushFront(w *waiter) {
	w.in, w.prev, w.next = q, nil, q.first
	if q.first != nil {
		q.first.prev = w
	} else {
		q.last = w
	}
	q.first = w
	q.n++
}

// take moves everything that waits in p behind what waits in q.
func (q *fifo) take(p *fifo) {
	for !p.empty() {
		q.push(p.pop())
	}
}

func (q *fifo) pop() *waiter {
	w := q.first
	if w != nil {
		w.leave()
	}
	return w
}

// leave takes w out of the fifo that it is in.
func (w *waiter) leave() {
	q := w.in
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		q.first = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	} else {
		q.last = w.prev
	}
	w.in, w.prev, w.next = nil, nil, nil
	q.n--
}

// lane is the way to one shard, or to the shard's own partitions.
//
// A produce keeps a credit of the mesh until it is acknowledged. Everything else
// is answered in the turn in which it arrives, late results being messages of
// their own, so that its credits are back soon. Therefore produces leave some
// credits to the others: a shard whose log stands still delays no fetch.
type lane struct {
	produces fifo // wait for a credit, or for memory to convert
	others   fifo // wait for a credit
	reserve  int  // credits that produces leave
}

// reserveShare is the part of the credits, one in so many, that produces leave to
// other messages.
const reserveShare = 4

// post sends a message that is no produce to a shard; w is its place while there
// is no credit. To the shard itself it is delivered at once.
func (b *Shard) post(to int, m Message, w *waiter) {
	if to == b.id {
		b.request(to, m)
		return
	}
	l := &b.lanes[to]
	if l.others.empty() && b.port.Credits(to) > 0 {
		b.send(to, m)
		return
	}
	b.stats.CreditWaits++
	w.msg = m
	l.others.push(w)
	b.waiting = b.waiting.With(to)
}

// send sends a message for which there is a credit.
func (b *Shard) send(to int, m Message) {
	if !b.port.Send(to, m) {
		violated("a message is sent when there is a credit")
	}
}

// pump sends what has waited for credits or memory. It returns how much that was.
func (b *Shard) pump() int {
	n := 0
	for s := b.waiting; !s.Empty(); {
		to, rest := s.Next()
		s = rest
		n += b.pumpLane(to)
	}
	b.waiting = b.stillWaiting()
	return n
}

// stillWaiting are the lanes in which something waits.
func (b *Shard) stillWaiting() (set shardSet) {
	for s := b.waiting; !s.Empty(); {
		to, rest := s.Next()
		s = rest
		if l := &b.lanes[to]; !l.produces.empty() || !l.others.empty() {
			set = set.With(to)
		}
	}
	return set
}

func (b *Shard) pumpLane(to int) int {
	l, n := &b.lanes[to], 0
	for !l.others.empty() && b.port.Credits(to) > 0 {
		b.send(to, l.others.pop().msg)
		n++
	}
	for !l.produces.empty() {
		w := l.produces.pop()
		if !b.advance(w.msg.body.(*Produce)) {
			l.produces.pushFront(w)
			break
		}
		n++
	}
	return n
}
