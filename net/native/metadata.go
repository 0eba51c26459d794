package native

import (
	"github.com/mqd-broker/mqd/broker"
	"github.com/mqd-broker/mqd/broker/catalog"
	"github.com/mqd-broker/mqd/net/wire"
)

// metadataRequest is a metadata request in flight: it waits while topics that it
// names are created.
type metadataRequest struct {
	peer    *peer
	h       wire.Header
	names   []string // nil: all topics
	size    int      // of the answer, estimated
	creates []broker.Admin
	left    int
}

// Sizes, in bytes, by which answers are estimated.
const (
	topicEstimate     = wire.MaxTopicName + 32
	partitionEstimate = 2
)

// metadata takes a metadata request.
func (p *peer) metadata(h wire.Header, body []byte) {
	r, err := wire.DecodeMetadataRequest(body)
	if err != nil {
		p.malformed(h, err)
		return
	}
	image := p.srv.b.Image()
	size := len(image.Topics())*topicEstimate + image.Partitions()*partitionEstimate
	if !r.All {
		size = 0
		for _, name := range r.Topics {
			size += topicEstimate + len(name)
			if t := image.ByName(name); t != nil {
				size += int(t.Partitions) * partitionEstimate
			}
		}
	}
	if !p.reserve(h, size) {
		return
	}
	p.began(0)
	q := &metadataRequest{peer: p, h: h, names: r.Topics, size: size}
	if r.All {
		q.names = nil
	} else if q.names == nil {
		q.names = []string{}
	}
	if !q.create(image) {
		q.answer()
	}
}

// create asks for the topics that do not exist, if that is wanted, and reports
// whether there are any.
func (q *metadataRequest) create(image *catalog.Image) bool {
	s := q.peer.srv
	if s.b.Node().AutoCreate() != broker.AutoCreateOn {
		return false
	}
	seen := map[string]bool{}
	for _, name := range q.names {
		if image.ByName(name) == nil && !seen[name] && wire.CheckTopicName(name) == nil && len(seen) < s.opts.MaxAutoCreate {
			seen[name] = true
			q.creates = append(q.creates, broker.Admin{Kind: broker.CreateTopic, Name: name, Owner: q})
		}
	}
	q.left = len(q.creates)
	if q.left == 0 {
		return false
	}
	creates := q.creates // q may be done inside the loop
	for i := range creates {
		s.b.Admin(&creates[i])
	}
	return true
}

// AdminDone notes that a topic has been created, or not.
func (q *metadataRequest) AdminDone(*broker.Admin) {
	q.left--
	if q.left == 0 {
		q.answer()
	}
}

// answer sends the metadata.
func (q *metadataRequest) answer() {
	b := q.peer.srv.b
	image, node := b.Image(), b.Node()
	q.peer.answer(q.size, func() []byte {
		r := wire.MetadataResponse{Shards: uint32(node.Shards())}
		if q.names == nil {
			for _, t := range image.Topics() {
				if t.Internal() {
					continue // whoever wants to see it names it
				}
				r.Topics = append(r.Topics, describeTopic(node, t))
			}
		}
		for _, name := range q.names {
			if t := image.ByName(name); t != nil {
				r.Topics = append(r.Topics, describeTopic(node, t))
			} else {
				r.Topics = append(r.Topics, wire.TopicMetadata{Name: name, Code: q.missing(name)})
			}
		}
		return wire.AppendMetadataResponse(nil, q.h.Correlation, r)
	})
}

// missing says why there is no topic of a name.
func (q *metadataRequest) missing(name string) wire.Code {
	for i := range q.creates {
		if a := &q.creates[i]; a.Name == name && a.Code != broker.OK && a.Code != broker.TopicExists {
			return codeOf(a.Code)
		}
	}
	if wire.CheckTopicName(name) != nil {
		return wire.CodeInvalidTopic
	}
	return wire.CodeUnknownTopic
}

func describeTopic(n *broker.Node, t *catalog.Topic) wire.TopicMetadata {
	m := wire.TopicMetadata{
		Name: t.Name, ID: wire.TopicID(t.ID), Class: wire.Class(t.Config.Durability()),
		PartitionShards: make([]uint16, t.Partitions),
	}
	for i := range m.PartitionShards {
		m.PartitionShards[i] = uint16(n.ShardOf(broker.TopicID(t.ID), int32(i)))
	}
	return m
}
