package kafka

import (
	"github.com/mqd-broker/mqd/broker"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// OffsetForLeaderEpoch, key 23, versions 2 to 4.
//
// The newest epoch up to the one that is asked for in which something was written, and the
// offset behind its last record: a client that has read further there has read what a crash
// has taken back. An epoch that is not yet has -1 and -1.
//
//	v3  replica id, which is not looked at
//	v4  flexible

// epochRequest is a request in flight.
type epochRequest struct {
	sweep
	correlation int32
	a           *kmsg.OffsetForLeaderEpochResponse
	lookups     []epochLookup
	partitions  int // of the answer
}

// epochLookup looks at one partition.
type epochLookup struct {
	b  broker.ListOffsets
	of *epochRequest
	at *kmsg.OffsetForLeaderEpochResponseTopicPartition
}

func (p *peer) epochEnds(h *header) {
	var r kmsg.OffsetForLeaderEpochRequest
	if !p.decode(h, &r) {
		return
	}
	q := &epochRequest{correlation: h.correlation, a: kmsg.NewPtrOffsetForLeaderEpochResponse()}
	q.a.SetVersion(h.version)
	q.p, q.sweep.ask, q.sweep.done = p, q.ask, q.answer
	q.fill(&r)
	q.n = len(q.lookups)
	p.began(0, 0)
	p.alone = true
	q.step()
}

// fill makes the answer's partitions, and the look-ups that fill them.
func (q *epochRequest) fill(r *kmsg.OffsetForLeaderEpochRequest) {
	s := q.p.srv
	image := s.b.Image()
	for i := range r.Topics {
		t := kmsg.NewOffsetForLeaderEpochResponseTopic()
		t.Topic = r.Topics[i].Topic
		t.Partitions = make([]kmsg.OffsetForLeaderEpochResponseTopicPartition, len(r.Topics[i].Partitions))
		known := image.ByName(t.Topic)
		for k := range t.Partitions {
			asked, at := &r.Topics[i].Partitions[k], &t.Partitions[k]
			at.Default()
			at.Partition, at.LeaderEpoch, at.EndOffset = asked.Partition, unknownEpoch, unknownOffset
			if at.ErrorCode = s.epochCode(asked.CurrentLeaderEpoch); known == nil {
				at.ErrorCode = codeUnknownTopic
			}
			if at.ErrorCode != codeNone {
				s.count.add(Failures)
				continue
			}
			l := epochLookup{of: q, at: at}
			l.b.Topic, l.b.Partition, l.b.EndOf, l.b.Epoch = broker.TopicID(known.ID), asked.Partition, true, asked.LeaderEpoch
			q.lookups = append(q.lookups, l)
		}
		q.a.Topics = append(q.a.Topics, t)
		q.partitions += len(t.Partitions)
	}
}

func (q *epochRequest) ask(i int) {
	l := &q.lookups[i]
	l.b.Owner = l
	q.p.srv.b.ListOffsets(&l.b)
}

// OffsetsListed notes an answer.
func (l *epochLookup) OffsetsListed(r *broker.ListOffsets) {
	if l.at.ErrorCode = fetchCodeOf(r.Code); r.Code != broker.OK {
		l.of.p.srv.count.add(Failures)
	} else {
		l.at.LeaderEpoch, l.at.EndOffset = r.Epoch, r.Offset
	}
	l.of.answered()
}

func (q *epochRequest) answer() {
	q.p.answer(q.correlation, q.partitions*topicEstimate, func() kmsg.Response { return q.a })
}
