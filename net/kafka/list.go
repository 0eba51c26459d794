package kafka

// node is a place in a list. What stands in lists embeds one for each list that
// it can stand in at a time.
type node[T any] struct {
	prev, next *node[T]
	in         *list[T]
	of         *T
}

// list is a first-in first-out list through its members' nodes: it allocates
// nothing, and a member leaves from wherever it stands.
type list[T any] struct {
	first, last *node[T]
	n           int
}

// push puts the member of n at the end.
func (l *list[T]) push(n *node[T], of *T) {
	n.in, n.of, n.prev, n.next = l, of, l.last, nil
	if l.last == nil {
		l.first = n
	} else {
		l.last.next = n
	}
	l.last = n
	l.n++
}

// pop takes the first member, nil when there is none.
func (l *list[T]) pop() *T {
	n := l.first
	if n == nil {
		return nil
	}
	of := n.of
	n.leave()
	return of
}

// leave takes n out of its list, if it is in one.
func (n *node[T]) leave() {
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
	*n = node[T]{}
	l.n--
}
