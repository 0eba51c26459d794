package uring

// queue is a first-in first-out ring that grows and does not shrink, so that a
// steady load allocates nothing. What it holds is bounded by what callers own.
type queue[T any] struct {
	ring []T // its length is a power of two
	head int
	n    int
}

func newQueue[T any]() queue[T] { return queue[T]{ring: make([]T, 64)} }

func (q *queue[T]) len() int { return q.n }

func (q *queue[T]) front() T { return q.ring[q.head] }

func (q *queue[T]) push(v T) {
	if q.n == len(q.ring) {
		bigger := make([]T, 2*len(q.ring))
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
