package kafka

import (
	"fmt"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/broker"
	"github.com/mqd-broker/mqd/broker/catalog"
	"github.com/mqd-broker/mqd/net/conn"
)

// Produce, key 0, versions 3 to 9; 0 to 2 are answered with UNSUPPORTED_VERSION.
//
// Each partition gets exactly one record batch, which is checked, CRC and all, and
// appended from where it was received. acks=1 and acks=all both wait for the class of
// the topic; acks=0 has no answer, and the connection closes if it fails. Produces of a
// connection are in the works together and answered in order.
//
//	v3   transactional id
//	v7   zstd
//	v8   errors of records, message
//	v9   flexible

const (
	minZstd        = 7 // the version from which on batches may be zstd's
	minProduce     = 3
	topicMin       = 2 + 4     // the shortest topic of a request, in bytes; half of it when flexible
	producePartMin = 4 + 1     // the shortest partition of a topic
	compactMin     = 1 + 1 + 1 // the shortest topic when flexible
)

// produceRequest is a produce in flight. The frame that holds its batches is retained
// until the answer, which names its topics.
type produceRequest struct {
	p           *peer
	frame       *conn.Frame
	correlation int32
	version     int16
	acks        int16
	flexible    bool
	topics      int // that have partitions
	parts       []*producePart
	open        int // of them not answered, and one while they are being asked for
	failed      bool
	next        *produceRequest // behind it on the connection, or in the pool
}

// producePart is one partition of it.
type producePart struct {
	b     broker.Produce
	of    *produceRequest
	topic []byte // name, in the frame; nil: that of the one before
	same  int    // partitions of the topic; where topic is set
	code  int16
	next  *producePart // in the pool
}

func (s *Server) newProduce() *produceRequest {
	q := s.produces
	if q == nil {
		return new(produceRequest)
	}
	s.produces, q.next = q.next, nil
	return q
}

func (q *produceRequest) newPart() *producePart {
	s := q.p.srv
	part := s.produceParts
	if part == nil {
		part = new(producePart)
		part.b.Owner = part
	} else {
		s.produceParts, part.next = part.next, nil
	}
	part.of = q
	q.parts = append(q.parts, part)
	return part
}

// produce takes a produce request.
func (p *peer) produce(h *header, f *conn.Frame) {
	q := p.srv.newProduce()
	q.p, q.frame, q.correlation, q.version, q.flexible = p, f, h.correlation, h.version, h.flexible
	transactional, err := q.decode(h.body)
	if err != nil {
		q.free()
		p.malformed(h, err)
		return
	}
	f.Retain()
	p.began(len(q.parts), len(f.Bytes()))
	if p.last == nil {
		p.first = q
	} else {
		p.last.next = q
	}
	p.last = q
	q.open = 1
	for _, part := range q.parts {
		if part.code == codeNone {
			part.code = q.forbidden(part, transactional)
		}
		if part.code != codeNone {
			q.failed = true
			continue
		}
		q.open++
		part.b.Received, part.b.Stamped = f.Arrived()
		p.srv.b.Produce(&part.b)
	}
	q.answered()
}

// decode reads the request, and asks for nothing yet: what is malformed at its end
// must not be appended at its beginning.
func (q *produceRequest) decode(body []byte) (transactional bool, err error) {
	c := cursor{b: body, flexible: q.flexible}
	if q.version >= minProduce {
		transactional = c.str() != nil
	}
	q.acks = c.i16()
	c.i32() // how long to wait for replicas
	least := topicMin
	if q.flexible {
		least = compactMin
	}
	for n := c.array(least); n > 0 && !c.bad; n-- {
		if err := q.decodeTopic(&c); err != nil {
			return false, err
		}
	}
	c.tags()
	return transactional, c.err()
}

func (q *produceRequest) decodeTopic(c *cursor) error {
	s := q.p.srv
	name := c.name()
	t := s.b.Image().ByNameBytes(name)
	n := c.array(producePartMin)
	if n == 0 {
		c.tags()
		return c.err()
	}
	if len(q.parts)+n > s.opts.MaxPartitions {
		return fmt.Errorf("kafka: a request for more than %d partitions", s.opts.MaxPartitions)
	}
	q.topics++
	for i := range n {
		part := q.newPart()
		part.topic, part.same, part.code, part.b.Code = nil, 0, codeNone, broker.OK
		if i == 0 {
			part.topic, part.same = name, n
		}
		part.b.Partition, part.b.Batch = c.i32(), c.bytes()
		c.tags()
		if t == nil {
			part.code = codeUnknownTopic
		} else {
			part.b.Topic = broker.TopicID(t.ID)
		}
	}
	c.tags()
	return c.err()
}

// forbidden is why a batch is refused before the broker sees it.
func (q *produceRequest) forbidden(part *producePart, transactional bool) int16 {
	part.b.Message = ""
	switch {
	case q.version < minProduce:
		return codeUnsupportedVersion
	case q.acks < -1 || q.acks > 1:
		return codeInvalidAcks
	case transactional:
		part.b.Message = "this broker has no transactions yet"
		return codeInvalidRequest
	}
	h, err := batch.ParseHeader(part.b.Batch)
	switch {
	case err != nil: // the broker says what is wrong with it
	case h.Attributes.Codec() == batch.CodecZstd && q.version < minZstd:
		return codeUnsupportedCodec
	case h.Attributes.Codec() > batch.CodecZstd:
		return codeUnsupportedCodec
	case h.Attributes.Transactional():
		part.b.Message = "this broker has no transactions yet"
		return codeInvalidRecord
	}
	return codeNone
}

// Produced notes the outcome of a partition.
func (part *producePart) Produced(r *broker.Produce) {
	q := part.of
	if part.code = codeOf(r.Code); part.code != codeNone {
		q.failed = true
	}
	q.answered()
}

// answered counts an outcome, and answers when all are known and it is q's turn.
func (q *produceRequest) answered() {
	q.open--
	if q.open > 0 {
		return
	}
	p := q.p
	for q = p.first; q != nil && q.open == 0; q = p.first {
		p.first = q.next
		if p.first == nil {
			p.last = nil
		}
		q.next = nil
		q.finish()
	}
}

// finish sends the answer and ends the request.
func (q *produceRequest) finish() {
	p := q.p
	parts, n := len(q.parts), len(q.frame.Bytes())
	switch {
	case q.acks != 0:
		b := q.encode(p.srv.scratch[:0])
		p.c.Write(b)
		p.srv.keepScratch(b)
	case q.failed:
		p.refuse(errUnacknowledged)
	}
	q.frame.Release()
	q.free()
	p.done(parts, n)
}

// encode appends the answer.
func (q *produceRequest) encode(b []byte) []byte {
	at := len(b)
	b = appendI32(appendI32(b, 0), q.correlation)
	b = appendTags(b, q.flexible)
	b = appendLength(b, q.topics, q.flexible)
	for i, part := range q.parts {
		if part.topic != nil {
			if i > 0 {
				b = appendTags(b, q.flexible)
			}
			b = appendString(b, part.topic, q.flexible)
			b = appendLength(b, part.same, q.flexible)
		}
		b = part.encode(b)
	}
	if q.topics > 0 {
		b = appendTags(b, q.flexible)
	}
	if q.version >= 1 {
		b = appendI32(b, 0) // throttled for no time
	}
	b = appendTags(b, q.flexible)
	appendI32(b[:at], int32(len(b)-at-lengthSize))
	return b
}

func (part *producePart) encode(b []byte) []byte {
	q, base := part.of, int64(unknownOffset)
	if part.code == codeNone {
		base = part.b.Base
	} else {
		q.p.srv.count.add(Failures)
	}
	b = appendI32(b, part.b.Partition)
	b = appendI16(b, part.code)
	b = appendI64(b, base)
	if q.version >= 2 {
		b = appendI64(b, part.appendTime())
	}
	if q.version >= 5 {
		b = appendI64(b, unknownOffset) // where the log starts
	}
	if q.version >= 8 {
		b = appendLength(b, 0, q.flexible) // no single record is to blame
		message := ""
		if part.code != codeNone {
			message = messageOf(part.b.Code, part.b.Message)
		}
		b = appendNullString(b, message, q.flexible)
	}
	return appendTags(b, q.flexible)
}

// appendTime is when the batch was appended, in milliseconds, for topics whose records
// have that time, else -1.
func (part *producePart) appendTime() int64 {
	if part.code != codeNone {
		return -1
	}
	t := part.of.p.srv.b.Image().ByID(part.b.Topic)
	if t == nil || t.Config.TimestampType() != catalog.LogAppendTime {
		return -1
	}
	return part.b.AppendTime / 1e6
}

// free puts a request and its partitions back.
func (q *produceRequest) free() {
	s := q.p.srv
	for i, part := range q.parts {
		q.parts[i] = nil
		part.of, part.topic, part.b.Batch, part.b.Message = nil, nil, nil, ""
		part.next, s.produceParts = s.produceParts, part
	}
	*q = produceRequest{parts: q.parts[:0], next: s.produces}
	s.produces = q
}
