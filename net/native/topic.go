package native

import (
	"github.com/mqd-broker/mqd/broker"
	"github.com/mqd-broker/mqd/broker/catalog"
	"github.com/mqd-broker/mqd/net/wire"
)

// topicRequest is an administrative request in flight.
type topicRequest struct {
	b    broker.Admin
	peer *peer
	h    wire.Header
	size int // of the answer, estimated
}

// describedEstimate is the size, in bytes, by which a described partition is
// estimated.
const describedEstimate = 48

// topic takes a request to create, alter, grow, delete or describe a topic, or for a producer id.
func (p *peer) topic(h wire.Header, body []byte) {
	q := &topicRequest{peer: p, h: h}
	q.b.Owner = q
	if err := q.decode(body); err != nil {
		p.malformed(h, err)
		return
	}
	if h.Op == wire.OpTopicDescribe {
		if t := p.srv.b.Image().ByName(q.b.Name); t != nil {
			q.size = int(t.Partitions) * describedEstimate
		}
	}
	if !p.reserve(h, q.size) {
		return
	}
	p.began(0)
	p.srv.b.Admin(&q.b)
}

// decode fills the broker's request.
func (q *topicRequest) decode(body []byte) error {
	switch q.h.Op {
	case wire.OpTopicCreate:
		r, err := wire.DecodeTopicCreateRequest(body)
		q.b.Kind, q.b.Name, q.b.Partitions, q.b.Settings = broker.CreateTopic, r.Name, r.Partitions, settings(r.Configs)
		return err
	case wire.OpTopicAlter:
		r, err := wire.DecodeTopicAlterRequest(body)
		q.b.Kind, q.b.Name, q.b.Settings = broker.AlterTopic, r.Name, settings(r.Configs)
		return err
	case wire.OpTopicGrow:
		r, err := wire.DecodeTopicGrowRequest(body)
		q.b.Kind, q.b.Name, q.b.Partitions = broker.AddPartitions, r.Name, r.Partitions
		return err
	case wire.OpTopicDelete:
		r, err := wire.DecodeTopicDeleteRequest(body)
		q.b.Kind, q.b.Name = broker.DeleteTopic, r.Name
		return err
	case wire.OpTopicDescribe:
		r, err := wire.DecodeTopicDescribeRequest(body)
		q.b.Kind, q.b.Name = broker.DescribeTopic, r.Name
		return err
	case wire.OpProducerInit:
		q.b.Kind = broker.NewProducer
		return wire.DecodeProducerInitRequest(body)
	}
	return wire.ErrUnsupportedOp
}

func settings(configs []wire.Config) []catalog.Setting {
	out := make([]catalog.Setting, len(configs))
	for i, c := range configs {
		out[i] = catalog.Setting{Key: c.Key, Value: c.Value}
	}
	return out
}

// AdminDone answers the request.
func (q *topicRequest) AdminDone(r *broker.Admin) {
	p := q.peer
	if r.Code != broker.OK {
		p.srv.count.add(Failures)
	}
	p.answer(q.size, q.encode)
}

// encode makes the answer. The request is nobody else's any more.
func (q *topicRequest) encode() []byte {
	r, corr := &q.b, q.h.Correlation
	code, text := codeOf(r.Code), messageOf(r.Code, r.Message)
	switch r.Kind {
	case broker.CreateTopic:
		a := wire.TopicCreateResponse{Code: code, Message: text}
		if r.Topic != nil {
			a.ID = wire.TopicID(r.Topic.ID)
		}
		return wire.AppendTopicCreateResponse(nil, corr, a)
	case broker.DescribeTopic:
		return wire.AppendTopicDescribeResponse(nil, corr, described(r, code, text))
	case broker.NewProducer:
		a := wire.ProducerInitResponse{Code: code, Producer: r.Producer, Message: text}
		if r.Code != broker.OK {
			a.Epoch = -1
		}
		return wire.AppendProducerInitResponse(nil, corr, a)
	}
	return wire.AppendTopicResult(nil, q.h.Op, corr, wire.TopicResult{Code: code, Message: text})
}

func described(r *broker.Admin, code wire.Code, text string) *wire.TopicDescribeResponse {
	a := &wire.TopicDescribeResponse{Code: code, Message: text}
	if r.Topic == nil || code != wire.CodeNone {
		return a
	}
	a.ID, a.Class = wire.TopicID(r.Topic.ID), wire.Class(r.Topic.Config.Durability())
	for _, d := range r.Topic.Config.Describe() {
		source := wire.SourceDefault
		if d.Own {
			source = wire.SourceTopic
		}
		a.Configs = append(a.Configs, wire.DescribedConfig{Key: d.Key, Value: d.Value, Source: source})
	}
	a.Partitions = make([]wire.PartitionDescription, len(r.Infos))
	for i := range r.Infos {
		in := &r.Infos[i]
		a.Partitions[i] = wire.PartitionDescription{
			Shard: uint32(in.Shard), LogStart: in.LogStart, Durable: in.Durable, End: in.End,
			BytesOnDisk: in.Bytes, ExposedBytes: in.ExposedBytes, Epoch: in.Epoch,
		}
	}
	return a
}
