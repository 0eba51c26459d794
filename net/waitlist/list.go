// Package waitlist has the lists in which connections and requests of a front door wait
// for their turn.
package waitlist

// Node is a place in a list. What stands in lists embeds one for each list that
// it can stand in at a time. The zero Node is in no list.
type Node[T any] struct {
	prev, next *Node[T]
	in         *List[T]
	of         *T
}

// List is a first-in first-out list through its members' nodes: it allocates
// nothing, and a member leaves from wherever it stands. It belongs to one shard.
type List[T any] struct {
	first, last *Node[T]
	n           int
}

// Push puts the member of n at the end.
func (l *List[T]) Push(n *Node[T], of *T) {
	n.in, n.of, n.prev, n.next = l, of, l.last, nil
	if l.last == nil {
		l.first = n
	} else {
		l.last.next = n
	}
	l.last = n
	l.n++
}

// Pop takes the first member, nil when there is none.
func (l *List[T]) Pop() *T {
	n := l.first
	if n == nil {
		return nil
	}
	of := n.of
	n.Leave()
	return of
}

// Leave takes n out of its list, if it is in one.
func (n *Node[T]) Leave() {
	l := n.in
	if l == nil {
		return
	}
	if n.prev == nil {
		l.first = n.next
	} else {
		n.prev.next = n.next
	}
	if n.next == nil {
		l.last = n.prev
	} else {
		n.next.prev = n.prev
	}
	*n = Node[T]{}
	l.n--
}

// Waits reports whether n is in a list.
func (n *Node[T]) Waits() bool { return n.in != nil }

// Len is the number of members.
func (l *List[T]) Len() int { return l.n }

// First is the first member, nil when there is none.
func (l *List[T]) First() *T {
	if l.first == nil {
		return nil
	}
	return l.first.of
}
