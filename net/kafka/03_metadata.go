package kafka

import (
	"encoding/base64"

	"github.com/mqd-broker/mqd/broker"
	"github.com/mqd-broker/mqd/broker/catalog"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Metadata, key 3, versions 0 to 12.
//
// There is one broker, at the advertised address, which leads every partition. No
// topics stand for all of them in version 0, null from version 1 on. A topic that does
// not exist is created when topic.auto_create is on and the client allows it, which
// before version 4 it always does. The broker's own topics are shown to whoever names
// them. The leader epoch of all partitions is the number of the broker's life, which
// batches carry too.

// Sizes, in bytes, by which answers are estimated.
const (
	topicEstimate     = 48
	partitionEstimate = 40
)

// metadataRequest is a request in flight: it waits while topics are created.
type metadataRequest struct {
	p       *peer
	h       header
	r       kmsg.MetadataRequest
	creates []broker.Admin
	left    int
}

func (p *peer) metadata(h *header) {
	q := &metadataRequest{p: p, h: *h}
	if !p.decode(h, &q.r) {
		return
	}
	q.h.client, q.h.body = nil, nil // they lie in the frame
	if h.version == 0 && len(q.r.Topics) == 0 {
		q.r.Topics = nil
	}
	p.began(0, 0)
	p.alone = true
	if !q.create() {
		q.answer()
	}
}

// create asks for the topics that do not exist, if that is wanted, and reports
// whether there are any.
func (q *metadataRequest) create() bool {
	s := q.p.srv
	if s.b.Node().AutoCreate() != broker.AutoCreateOn || q.h.version >= 4 && !q.r.AllowAutoTopicCreation {
		return false
	}
	image := s.b.Image()
	seen := map[string]bool{}
	for i := range q.r.Topics {
		name := q.r.Topics[i].Topic
		if name == nil || image.ByName(*name) != nil || seen[*name] || len(seen) == s.opts.MaxAutoCreate || catalog.CheckUserName(*name) != nil {
			continue
		}
		seen[*name] = true
		q.creates = append(q.creates, broker.Admin{Kind: broker.CreateTopic, Name: *name, Owner: q})
	}
	q.left = len(q.creates)
	creates := q.creates // q may be done inside the loop
	for i := range creates {
		s.b.Admin(&creates[i])
	}
	return len(creates) > 0
}

// AdminDone notes that a topic has been created, or not.
func (q *metadataRequest) AdminDone(*broker.Admin) {
	if q.left--; q.left == 0 {
		q.answer()
	}
}

// answer sends the metadata.
func (q *metadataRequest) answer() {
	image := q.p.srv.b.Image()
	size := 0
	if q.r.Topics == nil {
		size = len(image.Topics())*(topicEstimate+catalog.MaxName/4) + image.Partitions()*partitionEstimate
	}
	for i := range q.r.Topics {
		size += topicEstimate
		if t := q.find(image, &q.r.Topics[i]); t != nil {
			size += len(t.Name) + int(t.Partitions)*partitionEstimate
		}
	}
	host, port, node := q.p.srv.host, q.p.srv.port, q.p.srv.b.Node()
	q.p.answer(q.h.correlation, size, func() kmsg.Response { return q.build(image, host, port, node) })
}

// build makes the answer. It is called on the loop or on a helper.
func (q *metadataRequest) build(image *catalog.Image, host string, port int32, node *broker.Node) kmsg.Response {
	r := kmsg.NewPtrMetadataResponse()
	r.SetVersion(q.h.version)
	b := kmsg.NewMetadataResponseBroker()
	b.NodeID, b.Host, b.Port = nodeID, host, port
	r.Brokers = append(r.Brokers, b)
	r.ClusterID = kmsg.StringPtr(clusterID(node.ID()))
	r.ControllerID = nodeID
	if q.r.Topics == nil {
		for _, t := range image.Topics() {
			if !t.Internal() {
				r.Topics = append(r.Topics, describe(t, node.Term()))
			}
		}
	}
	for i := range q.r.Topics {
		asked := &q.r.Topics[i]
		if t := q.find(image, asked); t != nil {
			r.Topics = append(r.Topics, describe(t, node.Term()))
			continue
		}
		t := kmsg.NewMetadataResponseTopic()
		t.Topic, t.TopicID, t.ErrorCode = asked.Topic, asked.TopicID, q.missing(asked)
		if t.Topic == nil && q.h.version < 12 {
			t.Topic = new(string) // null comes with version 12
		}
		r.Topics = append(r.Topics, t)
	}
	return r
}

// clusterID is the node's identity in the form that Kafka's have.
func clusterID(node [16]byte) string { return base64.RawURLEncoding.EncodeToString(node[:]) }

// find is the topic that is asked for by name, or by id where there is none.
func (q *metadataRequest) find(image *catalog.Image, t *kmsg.MetadataRequestTopic) *catalog.Topic {
	if t.Topic != nil {
		return image.ByName(*t.Topic)
	}
	return image.ByID(catalog.TopicID(t.TopicID))
}

// missing says why there is no such topic.
func (q *metadataRequest) missing(t *kmsg.MetadataRequestTopic) int16 {
	if t.Topic == nil {
		return codeUnknownTopicID
	}
	if catalog.CheckName(*t.Topic) != nil {
		return codeInvalidTopic
	}
	for i := range q.creates {
		if a := &q.creates[i]; a.Name == *t.Topic && a.Code != broker.OK && a.Code != broker.TopicExists {
			if a.Code == broker.Busy || a.Code == broker.ShuttingDown {
				return codeLeaderNotAvailable // ask again
			}
			return codeOf(a.Code)
		}
	}
	return codeUnknownTopic
}

// brokers is the list of all brokers.
var brokers = []int32{nodeID}

func describe(t *catalog.Topic, epoch int32) kmsg.MetadataResponseTopic {
	m := kmsg.NewMetadataResponseTopic()
	m.Topic, m.TopicID, m.IsInternal = &t.Name, t.ID, t.Internal()
	m.Partitions = make([]kmsg.MetadataResponseTopicPartition, t.Partitions)
	for i := range m.Partitions {
		at := &m.Partitions[i]
		at.Default()
		at.Partition, at.Leader, at.LeaderEpoch = int32(i), nodeID, epoch
		at.Replicas, at.ISR = brokers, brokers
	}
	return m
}
