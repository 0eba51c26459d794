package kafka

import (
	"fmt"
	"time"

	"github.com/mqd-broker/mqd/broker"
	"github.com/mqd-broker/mqd/net/conn"
)

// Fetch, key 1, versions 4 to 12.
//
// Partitions are read in the order of the request until the answer is full; of those
// that have no room in it only the places of the log are told. If all together have
// less than the client wants, each is asked to tell when it has grown by its share of
// what is missing: when the sum is reached, one of them has. Then all are read again.
// Batches are sent whole, from where the engine keeps them; the first may begin below
// the offset that was asked for, and is sent however large it is.
//
// There are no fetch sessions: each answer has session id 0, and clients then name all
// partitions each time. Only the epoch says whether a request goes on with a session.
//
//	v5   start of the log
//	v7   fetch sessions
//	v9   leader epoch that the client knows
//	v11  rack, preferred replica
//	v12  flexible; epoch of the last batch

const (
	fetchPartMin = 4 + 8 + 4 // the shortest partition of a topic, in bytes
	// manyParts is how many partitions a request has that leaves others room to wait.
	manyParts = 1000
	// maxFilled is how many partitions may have batches in one answer, so that no answer
	// keeps a large part of what a shard has for all.
	maxFilled = 2000
	// readsAtOnce is how many partitions are read at a time.
	readsAtOnce = 8
	// offsetNowhere is above all logs: a fetch from there tells where a log is, and
	// reads nothing.
	offsetNowhere = 1<<63 - 1
	// noRecordLimit is more records than any answer has.
	noRecordLimit = 1 << 30
)

// fetchPartSize is the size of the shortest partition in a request of a version, in bytes.
func fetchPartSize(version int16) int {
	n := fetchPartMin
	if version >= 5 {
		n += 8
	}
	if version >= 9 {
		n += 4
	}
	if version >= 12 {
		n += 4 + 1
	}
	return n
}

// fetchPhase says what the partitions of a fetch are asked for.
type fetchPhase uint8

const (
	reading fetchPhase = iota // whatever there is
	waiting                   // to tell when they have grown
)

// fetchRequest is a fetch in flight.
type fetchRequest struct {
	p           *peer
	correlation int32
	version     int16
	flexible    bool
	committed   bool // only what is committed is wanted
	session     bool // goes on with a session, which there is none of
	minBytes    int
	room        int   // bytes of batches that the answer may have
	until       int64 // loop time until which to wait; 0: not begun to
	maxWait     int64

	names  []byte // of the topics, which the partitions refer to
	topics int    // that have partitions
	parts  []*fetchPart

	phase    fetchPhase
	next     int // partition to ask
	open     int // partitions that are asked
	turn     int // asked since the last turn
	yielded  bool
	reserved int  // bytes that those may bring
	bytes    int  // that have come
	filled   int  // partitions that they are of
	had      int  // that there were when the wait began
	more     bool // than has come is there
	failed   bool // a partition has an error to tell of
	fired    bool // one has grown, or nobody wants to know any more
	hurried  bool // the connection ends
	busy     bool // partitions are being asked
	unsent   int  // partitions whose batches are being sent, and one while they are queued
	nextFree *fetchRequest
}

// fetchPart is one partition of it.
type fetchPart struct {
	f       broker.Fetch
	of      *fetchRequest
	name    []byte // of the topic; nil: that of the one before
	same    int    // partitions of the topic; where name is set
	code    int16  // refused before the broker was asked
	offset  int64
	limit   int // bytes wanted
	asked   int // bytes asked for
	open    bool
	held    bool // the broker wants it back
	bytes   int  // to be sent
	had     int  // that there were when the wait began
	headEnd int  // of what comes before its batches, in the answer
	next    *fetchPart
}

func (s *Server) newFetch() *fetchRequest {
	q := s.fetches
	if q == nil {
		return new(fetchRequest)
	}
	s.fetches, q.nextFree = q.nextFree, nil
	return q
}

func (q *fetchRequest) newPart() *fetchPart {
	s := q.p.srv
	part := s.fetchParts
	if part == nil {
		part = new(fetchPart)
		part.f.Owner = part
	} else {
		s.fetchParts, part.next = part.next, nil
	}
	part.of = q
	q.parts = append(q.parts, part)
	return part
}

// fetch takes a fetch request.
func (p *peer) fetch(h *header) {
	q := p.srv.newFetch()
	q.p, q.correlation, q.version, q.flexible = p, h.correlation, h.version, h.flexible
	if err := q.decode(h.body); err != nil {
		q.free()
		p.malformed(h, err)
		return
	}
	p.began(0, 0)
	p.load(len(q.parts))
	p.alone = true
	p.fetching = q
	if q.session {
		q.respond()
		return
	}
	q.step()
}

// decode reads the request. Names are copied, so that a long poll keeps no memory of
// the connection's.
func (q *fetchRequest) decode(body []byte) error {
	c := cursor{b: body, flexible: q.flexible}
	c.i32() // replica id
	q.maxWait = int64(max(0, c.i32())) * int64(time.Millisecond)
	q.minBytes = int(max(0, c.i32()))
	q.room = int(max(0, c.i32()))
	q.room = max(1, min(q.room, q.p.srv.opts.MaxPinned))
	q.minBytes = min(q.minBytes, q.room)
	q.committed = c.i8() == 1
	if q.version >= 7 {
		c.i32() // session id
		// 0 and -1 ask for an answer about all partitions, whatever the id says.
		q.session = c.i32() > 0
	}
	least := topicMin
	if q.flexible {
		least = compactMin
	}
	for n := c.array(least); n > 0 && !c.bad; n-- {
		if err := q.decodeTopic(&c); err != nil {
			return err
		}
	}
	return q.decodeRest(&c)
}

func (q *fetchRequest) decodeTopic(c *cursor) error {
	s := q.p.srv
	name := c.name()
	t := s.b.Image().ByNameBytes(name)
	n := c.array(fetchPartMin)
	if len(q.parts)+n > s.opts.MaxPartitions {
		return fmt.Errorf("kafka: a request for more than %d partitions", s.opts.MaxPartitions)
	}
	if n > 0 {
		q.topics++
		q.names = append(q.names, name...)
	}
	for i := range n {
		part := q.newPart()
		part.name, part.same, part.code = nil, 0, codeNone
		if i == 0 {
			part.name, part.same = q.names[len(q.names)-len(name):], n
		}
		part.f.Partition = c.i32()
		if q.version >= 9 {
			part.code = s.epochCode(c.i32())
		}
		part.offset = c.i64()
		if q.version >= 12 {
			c.i32() // epoch of the last batch
		}
		if q.version >= 5 {
			c.i64() // where a follower's log starts
		}
		part.limit = int(max(1, c.i32()))
		c.tags()
		if t == nil {
			part.code = codeUnknownTopic
		} else {
			part.f.Topic = broker.TopicID(t.ID)
		}
	}
	c.tags()
	return c.err()
}

// decodeRest passes over what follows the topics.
func (q *fetchRequest) decodeRest(c *cursor) error {
	if q.version >= 7 { // partitions to be taken out of a session
		for n := c.array(2); n > 0 && !c.bad; n-- {
			c.name()
			c.take(4 * c.array(4))
			c.tags()
		}
	}
	if q.version >= 11 {
		c.name() // rack
	}
	c.tags()
	return c.err()
}

// step asks as many partitions as may be, and goes on when all have answered.
func (q *fetchRequest) step() {
	if q.busy || q.yielded {
		return // an answer has come inside the call that asked
	}
	q.busy = true
	for q.next < len(q.parts) && q.mayAsk() {
		part := q.parts[q.next]
		q.next++
		if part.code != codeNone {
			q.failed = true
			continue
		}
		part.ask()
		q.turn++
	}
	q.busy = false
	switch {
	case q.next < len(q.parts) && q.turn >= sweepTurn:
		q.turn, q.yielded = 0, true
		q.p.srv.conns.Offload(q)
	case q.open > 0:
	case q.phase == reading:
		q.read()
	default:
		q.woken()
	}
}

// mayAsk reports whether the next partition may be asked.
func (q *fetchRequest) mayAsk() bool {
	if q.turn >= sweepTurn {
		return false
	}
	if q.phase == waiting {
		if q.fired {
			q.next = len(q.parts)
			return false
		}
		return true
	}
	return q.open < readsAtOnce && (q.open == 0 || q.full() || q.bytes+q.reserved < q.room)
}

// full reports whether the answer has all the batches that it may have.
func (q *fetchRequest) full() bool { return q.bytes >= q.room || q.filled >= maxFilled }

// Run gives the loop time for something else.
func (q *fetchRequest) Run() {}

// Finished goes on.
func (q *fetchRequest) Finished() {
	q.yielded = false
	q.step()
}

// ask gives a partition's fetch to the broker.
func (part *fetchPart) ask() {
	q := part.of
	f := &part.f
	f.Offset, f.MaxRecords, f.MinBytes, f.MaxWait = part.offset, noRecordLimit, 0, 0
	f.Many = len(q.parts) > manyParts
	switch {
	case q.phase == waiting:
		now := q.p.srv.conns.Loop().Now()
		f.MinBytes = part.had + q.share()
		f.MaxWait = max(1, q.until-now)
		part.asked = min(part.limit, q.room)
	case q.hurried || q.full():
		f.Offset, part.asked = offsetNowhere, 1
	default:
		part.asked = min(part.limit, max(1, q.room-q.bytes-q.reserved))
	}
	f.MaxBytes = part.asked
	q.reserved += part.asked
	q.open++
	part.open = true
	q.p.srv.b.Fetch(f)
}

// Fetched takes the broker's answer for a partition.
func (part *fetchPart) Fetched(f *broker.Fetch) {
	q := part.of
	q.open--
	q.reserved -= part.asked
	part.open, part.held, part.bytes = false, true, 0
	n := f.Bytes()
	switch {
	case f.Code != broker.OK && f.Offset != offsetNowhere:
		q.failed = true
	case n == 0:
	case q.bytes > 0 && q.bytes+n > q.room || q.filled >= maxFilled:
		q.more = true
		part.release()
	default:
		part.bytes = n
		q.bytes += n
		q.filled++
		q.more = q.more || f.Next < f.Durable || q.filled >= maxFilled
	}
	if q.phase == waiting {
		q.fire()
	}
	q.step()
}

func (part *fetchPart) release() {
	if part.held {
		part.held = false
		part.of.p.srv.b.Release(&part.f)
	}
}

// read decides what to do when all partitions have been read.
func (q *fetchRequest) read() {
	now := q.p.srv.conns.Loop().Now()
	if q.until == 0 {
		q.until = now + q.maxWait
	}
	if q.bytes >= q.minBytes || q.more || q.failed || q.hurried || now >= q.until || q.p.c.Over() || len(q.parts) == 0 {
		q.respond()
		return
	}
	for _, part := range q.parts {
		part.had, part.bytes = part.bytes, 0
		part.release()
	}
	q.phase, q.next, q.turn, q.fired = waiting, 0, 0, false
	q.had, q.bytes, q.filled = q.bytes, 0, 0
	q.step()
}

// share is by how much a partition has to grow so that not all can grow by less and
// reach together what is wanted.
func (q *fetchRequest) share() int {
	missing := max(1, q.minBytes-q.had)
	return (missing + len(q.parts) - 1) / len(q.parts)
}

// woken goes on when the wait of all partitions has ended: with what has come if that
// is enough, else by reading them all again.
func (q *fetchRequest) woken() {
	if q.bytes >= q.minBytes || q.failed || q.hurried || q.p.c.Over() || len(q.parts) == 1 {
		q.respond()
		return
	}
	for _, part := range q.parts {
		part.bytes = 0
		part.release()
	}
	q.phase, q.next, q.turn, q.bytes, q.filled, q.more, q.fired = reading, 0, 0, 0, 0, false, false
	q.step()
}

// fire ends the wait of all partitions.
func (q *fetchRequest) fire() {
	if q.fired {
		return
	}
	q.fired = true
	busy := q.busy
	q.busy = true
	for _, part := range q.parts[:q.next] {
		if part.open {
			q.p.srv.b.CancelFetch(&part.f)
		}
	}
	q.busy = busy
}

// hurry has the request answered now, with what there is.
func (q *fetchRequest) hurry() {
	if q.hurried || q.unsent > 0 {
		return
	}
	q.hurried = true
	if q.phase == waiting {
		q.fire()
		q.step()
	}
}

// respond sends the answer.
func (q *fetchRequest) respond() {
	p := q.p
	s := p.srv
	p.fetching = nil
	q.unsent = 1
	b := q.encode(s.scratch[:0])
	from := 0
	for _, part := range q.parts {
		if part.bytes == 0 {
			part.release()
			continue
		}
		p.c.Write(b[from:part.headEnd])
		from = part.headEnd
		q.unsent++
		p.c.Lend(part.f.Pieces(), part)
	}
	p.c.Write(b[from:])
	s.keepScratch(b)
	q.sent()
}

// Sent ends a partition whose batches have been sent, or which nobody wants any more.
func (part *fetchPart) Sent(*conn.Conn) {
	part.release()
	part.of.sent()
}

func (q *fetchRequest) sent() {
	q.unsent--
	if q.unsent == 0 {
		p := q.p
		q.free()
		p.done(0, 0)
	}
}

// free puts a request and its partitions back.
func (q *fetchRequest) free() {
	s := q.p.srv
	for i, part := range q.parts {
		q.parts[i] = nil
		part.of, part.name, part.bytes, part.had = nil, nil, 0, 0
		part.next, s.fetchParts = s.fetchParts, part
	}
	names := q.names[:0]
	if cap(names) > maxScratch {
		names = nil
	}
	*q = fetchRequest{parts: q.parts[:0], names: names, nextFree: s.fetches}
	s.fetches = q
}
