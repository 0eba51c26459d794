package portable

// queue is first in, first out. Its memory grows to the most that it has held and
// is used again, so that a steady load allocates nothing. What it holds is bounded
// by what callers own.
type queue[T any] struct {
	ring        []T // its length is a power of two
	first, next uint
}

// firstQueue is the room of a new queue.
const firstQueue = 64

func newQueue[T any]() queue[T] { return queue[T]{ring: make([]T, firstQueue)} }

func (q *queue[T]) len() int { return int(q.next - q.first) }

func (q *queue[T]) at(i uint) *T { return &q.ring[i&uint(len(q.ring)-1)] }

func (q *queue[T]) push(v T) {
	if q.len() == len(q.ring) {
		old := *q
		q.ring = make([]T, 2*len(old.ring))
		for i := old.first; i != old.next; i++ {
			*q.at(i) = *old.at(i)
		}
	}
	*q.at(q.next) = v
	q.next++
}

func (q *queue[T]) pop() T {
	p := q.at(q.first)
	v := *p
	var none T
	*p = none // what it points to may be collected
	q.first++
	return v
}
