package sim

// queue is a first-in first-out ring that grows and never shrinks, so that a
// steady load allocates nothing.
type queue[T any] struct {
	ring []T // length 0 or a power of two
	head int
	n    int
}

func (q *queue[T]) len() int { return q.n }

func (q *queue[T]) push(v T) {
	if q.n == len(q.ring) {
		bigger := make([]T, max(16, 2*len(q.ring)))
		for i := range q.n {
			bigger[i] = q.ring[(q.head+i)&(len(q.ring)-1)]
		}
		q.ring, q.head = bigger, 0
	}
	q.ring[(q.head+q.n)&(len(q.ring)-1)] = v
	q.n++
}

func (q *queue[T]) pop() T {
	var none T
	v := q.ring[q.head]
	q.ring[q.head] = none
	q.head = (q.head + 1) & (len(q.ring) - 1)
	q.n--
	return v
}

func (q *queue[T]) clear() {
	for q.n > 0 {
		q.pop()
	}
}

// drop removes the entries for which is reports true and keeps the order.
func (q *queue[T]) drop(is func(T) bool) {
	for range q.n {
		if v := q.pop(); !is(v) {
			q.push(v)
		}
	}
}
