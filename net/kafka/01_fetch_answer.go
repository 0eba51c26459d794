package kafka

import "github.com/mqd-broker/mqd/broker"

// encode appends the answer without the batches, and notes for each partition where
// they belong. The frame's length counts them.
func (q *fetchRequest) encode(b []byte) []byte {
	at := len(b)
	b = appendI32(appendI32(b, 0), q.correlation)
	b = appendTags(b, q.flexible)
	b = appendI32(b, 0) // throttled for no time
	topics, parts := q.topics, q.parts
	if q.version >= 7 {
		code := int16(codeNone)
		if q.session {
			code, topics, parts = codeFetchSession, 0, nil
		}
		b = appendI32(appendI16(b, code), 0)
	}
	b = appendLength(b, topics, q.flexible)
	batches := 0
	for i, part := range parts {
		if part.name != nil {
			if i > 0 {
				b = appendTags(b, q.flexible)
			}
			b = appendString(b, part.name, q.flexible)
			b = appendLength(b, part.same, q.flexible)
		}
		b = part.encode(b)
		part.headEnd = len(b)
		batches += part.bytes
		b = appendTags(b, q.flexible)
	}
	if topics > 0 {
		b = appendTags(b, q.flexible)
	}
	b = appendTags(b, q.flexible)
	appendI32(b[:at], int32(len(b)-at-lengthSize+batches))
	return b
}

// encode appends what comes before the batches of a partition.
func (part *fetchPart) encode(b []byte) []byte {
	q, f := part.of, &part.f
	code, start, durable := part.code, int64(unknownOffset), int64(unknownOffset)
	if code == codeNone {
		start, durable = f.LogStart, f.Durable
		if f.Offset != offsetNowhere || f.Code != broker.OffsetOutOfRange {
			code = fetchCodeOf(f.Code)
		}
	}
	if code != codeNone {
		q.p.srv.count.add(Failures)
	}
	b = appendI32(b, f.Partition)
	b = appendI16(b, code)
	b = appendI64(b, durable)
	b = appendI64(b, durable) // last stable offset: there are no transactions
	if q.version >= 5 {
		b = appendI64(b, start)
	}
	aborted := -1 // null
	if q.committed {
		aborted = 0
	}
	b = appendLength(b, aborted, q.flexible)
	if q.version >= 11 {
		b = appendI32(b, -1) // no replica is preferred
	}
	return appendLength(b, part.bytes, q.flexible)
}
