// Package order is a list ordered by a number, of nodes that their owners embed.
package order

import "github.com/mqd-broker/mqd/internal/invariant"

// Node is a place in a list. Its owner embeds it.
type Node[T any] struct {
	// Owner is set before the node is added.
	Owner T

	prev, next *Node[T]
	key        uint64
	listed     bool
}

// Listed reports whether the node is in a list.
func (n *Node[T]) Listed() bool { return n.listed }

// Key is the number that the node was added with.
func (n *Node[T]) Key() uint64 { return n.key }

// Next is the node behind it, nil for the last.
func (n *Node[T]) Next() *Node[T] { return n.next }

// List is ordered by key, rising; nodes of one key are in the order in which they were
// added. It allocates nothing. The zero List is empty.
type List[T any] struct {
	first, last *Node[T]
	n           int
}

// Len is the number of nodes.
func (l *List[T]) Len() int { return l.n }

// First is the node with the lowest key, nil if there is none.
func (l *List[T]) First() *Node[T] { return l.first }

// Add enters n. It begins to look at the end, where most nodes belong.
func (l *List[T]) Add(n *Node[T], key uint64) {
	if n.listed {
		invariant.Violated("order: a node is in one list, once")
	}
	n.key, n.listed = key, true
	after := l.last
	for after != nil && after.key > key {
		after = after.prev
	}
	n.prev, n.next = after, l.first
	if after != nil {
		n.next, after.next = after.next, n
	} else {
		l.first = n
	}
	if n.next != nil {
		n.next.prev = n
	} else {
		l.last = n
	}
	l.n++
}

// Remove takes n out.
func (l *List[T]) Remove(n *Node[T]) {
	if !n.listed {
		invariant.Violated("order: a node that is taken out is in the list")
	}
	if n.prev != nil {
		n.prev.next = n.next
	} else {
		l.first = n.next
	}
	if n.next != nil {
		n.next.prev = n.prev
	} else {
		l.last = n.prev
	}
	n.prev, n.next, n.listed = nil, nil, false
	l.n--
}
