package conn

import "github.com/mqd-broker/mqd/internal/invariant"

// list names a list that connections stand in. A connection may stand in several
// at a time, once in each.
type list uint8

const (
	// inAll: every connection, for the watch over deadlines.
	inAll list = iota
	// inReady: has unread bytes and may be read.
	inReady
	// inDirty: something has happened, step is due.
	inDirty
	// inStarved: its receive ended for want of receive buffers.
	inStarved
	// inKeeping: waits, and keeps receive buffers with unread bytes.
	inKeeping
	// inNoSend: answers wait for send memory.
	inNoSend
	// inNoFrame: a frame waits for memory; one list for each size.
	inNoFrame

	numLists
)

// link is a connection's place in a list.
type link struct {
	prev, next *Conn
	in         *queue
}

// queue is a first-in first-out list of connections through their links: nothing
// is allocated, and a connection that ends is taken out wherever it stands.
type queue struct {
	list list
	head *Conn
	tail *Conn
	n    int
}

// push puts c at the end, unless it is in already.
func (q *queue) push(c *Conn) {
	l := &c.links[q.list]
	if l.in == q {
		return
	}
	if l.in != nil {
		invariant.Violated("conn: a connection stands in one queue of a list at most")
	}
	l.in, l.prev, l.next = q, q.tail, nil
	if q.tail == nil {
		q.head = c
	} else {
		q.tail.links[q.list].next = c
	}
	q.tail = c
	q.n++
}

// pop takes the first, nil when there is none.
func (q *queue) pop() *Conn {
	c := q.head
	if c != nil {
		q.remove(c)
	}
	return c
}

// remove takes c out; one that is not in is left alone.
func (q *queue) remove(c *Conn) {
	l := &c.links[q.list]
	if l.in != q {
		return
	}
	if l.prev == nil {
		q.head = l.next
	} else {
		l.prev.links[q.list].next = l.next
	}
	if l.next == nil {
		q.tail = l.prev
	} else {
		l.next.links[q.list].prev = l.prev
	}
	*l = link{}
	q.n--
}

// leave takes c out of whichever queue of a list it stands in.
func (c *Conn) leave(l list) {
	if q := c.links[l].in; q != nil {
		q.remove(c)
	}
}
