package kafka

import (
	"github.com/mqd-broker/mqd/broker"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DeleteRecords, key 21, versions 0 to 2.
//
// The log begins at the offset then, or at its end for -1. An offset behind the end is
// OFFSET_OUT_OF_RANGE, and one below the start changes nothing.

// trimRequest is a request in flight.
type trimRequest struct {
	sweep
	correlation int32
	a           *kmsg.DeleteRecordsResponse
	trims       []trim
	partitions  int // of the answer
}

// trim is one partition of it.
type trim struct {
	b  broker.ListOffsets
	of *trimRequest
	at *kmsg.DeleteRecordsResponseTopicPartition
}

func (p *peer) deleteRecords(h *header) {
	var r kmsg.DeleteRecordsRequest
	if !p.decode(h, &r) {
		return
	}
	q := &trimRequest{correlation: h.correlation, a: kmsg.NewPtrDeleteRecordsResponse()}
	q.a.SetVersion(h.version)
	image := p.srv.b.Image()
	for i := range r.Topics {
		t := kmsg.NewDeleteRecordsResponseTopic()
		t.Topic = r.Topics[i].Topic
		t.Partitions = make([]kmsg.DeleteRecordsResponseTopicPartition, len(r.Topics[i].Partitions))
		known := image.ByName(t.Topic)
		for k := range t.Partitions {
			asked, at := &r.Topics[i].Partitions[k], &t.Partitions[k]
			at.Default()
			at.Partition, at.LowWatermark = asked.Partition, unknownOffset
			switch {
			case known == nil:
				at.ErrorCode = codeUnknownTopic
			case known.Internal():
				at.ErrorCode = codeInvalidTopic
			case asked.Offset < -1:
				at.ErrorCode = codeOffsetOutOfRange
			default:
				l := trim{of: q, at: at}
				l.b.Topic, l.b.Partition, l.b.Time, l.b.Trim = broker.TopicID(known.ID), asked.Partition, asked.Offset, true
				q.trims = append(q.trims, l)
			}
			if at.ErrorCode != codeNone {
				p.srv.count.add(Failures)
			}
		}
		q.a.Topics = append(q.a.Topics, t)
		q.partitions += len(t.Partitions)
	}
	q.p, q.n, q.sweep.ask, q.sweep.done = p, len(q.trims), q.ask, q.answer
	p.began(0, 0)
	p.alone = true
	q.step()
}

func (q *trimRequest) ask(i int) {
	l := &q.trims[i]
	l.b.Owner = l
	q.p.srv.b.ListOffsets(&l.b)
}

// OffsetsListed notes where a log begins.
func (l *trim) OffsetsListed(r *broker.ListOffsets) {
	if r.Code != broker.OK {
		l.at.ErrorCode = codeOf(r.Code)
		l.of.p.srv.count.add(Failures)
	} else {
		l.at.LowWatermark = r.Offset
	}
	l.of.answered()
}

func (q *trimRequest) answer() {
	q.p.answer(q.correlation, q.partitions*topicEstimate, func() kmsg.Response { return q.a })
}
