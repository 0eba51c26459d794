package kafka

import (
	"github.com/mqd-broker/mqd/broker"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ListOffsets, key 2, versions 1 to 7; 0 is answered with UNSUPPORTED_VERSION.
//
// -1 is the end of what may be read, which is the same for both isolation levels while
// there are no transactions, -2 the start of the log, and a time the first record, not
// the first batch, that is no older. Where there is none the offset is -1.
//
//	v4  leader epochs: the one that the client knows, and that of the record
//	v7  -3 is the record with the largest timestamp, the first of several

// timeLatest and timeEarliest are times with a meaning of their own.
const (
	timeLatest   = -1
	timeEarliest = -2
	timeNewest   = -3
)

// listRequest is a request in flight.
type listRequest struct {
	sweep
	correlation int32
	a           *kmsg.ListOffsetsResponse
	lookups     []offsetLookup
	partitions  int // of the answer
}

// offsetLookup looks at one partition.
type offsetLookup struct {
	b  broker.ListOffsets
	of *listRequest
	at *kmsg.ListOffsetsResponseTopicPartition
}

func (p *peer) listOffsets(h *header) {
	var r kmsg.ListOffsetsRequest
	if !p.decode(h, &r) {
		return
	}
	q := &listRequest{correlation: h.correlation, a: kmsg.NewPtrListOffsetsResponse()}
	q.a.SetVersion(h.version)
	q.p, q.sweep.ask, q.sweep.done = p, q.ask, q.answer
	q.fill(&r)
	q.n = len(q.lookups)
	p.began(0, 0)
	p.alone = true
	q.step()
}

// fill makes the answer's partitions, and the look-ups that fill them.
func (q *listRequest) fill(r *kmsg.ListOffsetsRequest) {
	image := q.p.srv.b.Image()
	for i := range r.Topics {
		t := kmsg.NewListOffsetsResponseTopic()
		t.Topic = r.Topics[i].Topic
		t.Partitions = make([]kmsg.ListOffsetsResponseTopicPartition, len(r.Topics[i].Partitions))
		known := image.ByName(t.Topic)
		for k := range t.Partitions {
			asked, at := &r.Topics[i].Partitions[k], &t.Partitions[k]
			at.Default()
			at.Partition, at.Offset, at.Timestamp, at.LeaderEpoch = asked.Partition, unknownOffset, -1, unknownEpoch
			l := offsetLookup{of: q, at: at}
			l.b.Partition, l.b.Time = asked.Partition, asked.Timestamp
			switch {
			case q.a.Version == 0:
				at.ErrorCode = codeUnsupportedVersion
			case known == nil:
				at.ErrorCode = codeUnknownTopic
			case q.p.srv.epochCode(asked.CurrentLeaderEpoch) != codeNone:
				at.ErrorCode = q.p.srv.epochCode(asked.CurrentLeaderEpoch)
			case asked.Timestamp == timeLatest:
				l.b.Time = broker.TimeEnd
			case asked.Timestamp == timeEarliest:
				l.b.Time = broker.TimeStart
			case asked.Timestamp == timeNewest && q.a.Version >= 7:
				l.b.Newest = true
			case asked.Timestamp < 0: // a place that the version has not
				at.ErrorCode = codeUnsupportedVersion
			}
			if at.ErrorCode != codeNone {
				q.p.srv.count.add(Failures)
				continue
			}
			l.b.Topic = broker.TopicID(known.ID)
			q.lookups = append(q.lookups, l)
		}
		q.a.Topics = append(q.a.Topics, t)
		q.partitions += len(t.Partitions)
	}
}

func (q *listRequest) ask(i int) {
	l := &q.lookups[i]
	l.b.Owner = l
	q.p.srv.b.ListOffsets(&l.b)
}

// OffsetsListed notes an answer.
func (l *offsetLookup) OffsetsListed(r *broker.ListOffsets) {
	l.at.ErrorCode = fetchCodeOf(r.Code)
	switch {
	case r.Code != broker.OK:
		l.of.p.srv.count.add(Failures)
	case (r.Time >= 0 || r.Newest) && r.Timestamp < 0: // nothing is that new
	default:
		l.at.Offset, l.at.Timestamp, l.at.LeaderEpoch = r.Offset, r.Timestamp, r.Epoch
	}
	l.of.answered()
}

func (q *listRequest) answer() {
	q.p.answer(q.correlation, q.partitions*topicEstimate, func() kmsg.Response { return q.a })
}
