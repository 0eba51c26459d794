// Package fifo is a queue in a ring of memory.
package fifo

import "github.com/mqd-broker/mqd/internal/invariant"

// firstSize is the number of places of a queue that has been used.
const firstSize = 256

// Queue is first in, first out. Its ring doubles when it is full and never shrinks,
// so that a queue that has had its load once allocates nothing; whoever pushes bounds
// it. The zero Queue is empty.
type Queue[T any] struct {
	ring       []T // its size is a power of two
	head, tail uint64
	inPass     bool
}

// Len is the number of elements.
func (q *Queue[T]) Len() int { return int(q.tail - q.head) }

func (q *Queue[T]) at(n uint64) *T { return &q.ring[n&uint64(len(q.ring)-1)] }

// Push adds an element behind the others.
func (q *Queue[T]) Push(v T) {
	if q.Len() == len(q.ring) {
		q.grow()
	}
	*q.at(q.tail) = v
	q.tail++
}

// Front is the oldest element, nil if there is none. It is valid until the next Push
// or Take.
func (q *Queue[T]) Front() *T {
	if q.head == q.tail {
		return nil
	}
	return q.at(q.head)
}

// Take removes the oldest element. It is out of the queue before anybody works on it,
// so that whoever does may push and take.
func (q *Queue[T]) Take() T {
	if q.head == q.tail {
		invariant.Violated("fifo: only what is there is taken")
	}
	var none T
	at := q.at(q.head)
	v := *at
	*at = none
	q.head++
	return v
}

// Rotate takes up to n elements, each once, and pushes those behind the others again for
// which done reports false. done may push and take.
func (q *Queue[T]) Rotate(n int, done func(T) bool) {
	for n = min(n, q.Len()); n > 0 && q.Len() > 0; n-- {
		if v := q.Take(); !done(v) {
			q.Push(v)
		}
	}
}

// Pass rotates through all elements. Within done it does nothing: the pass that goes on
// comes to those that are there.
func (q *Queue[T]) Pass(done func(T) bool) {
	if q.inPass {
		return
	}
	q.inPass = true
	q.Rotate(q.Len(), done)
	q.inPass = false
}

func (q *Queue[T]) grow() {
	n := q.Len()
	bigger := make([]T, max(firstSize, 2*len(q.ring)))
	for i := range n {
		bigger[i] = *q.at(q.head + uint64(i))
	}
	q.ring, q.head, q.tail = bigger, 0, uint64(n)
}
