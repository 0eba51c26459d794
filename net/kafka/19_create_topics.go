package kafka

import (
	"fmt"

	"github.com/mqd-broker/mqd/broker"
	"github.com/mqd-broker/mqd/broker/catalog"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// CreateTopics, key 19, versions 0 to 7.
//
// -1 partitions are topic.default_partitions, and a replication factor is 1 or -1. A
// manual assignment may only name the one broker there is. A topic is there for
// everybody when it is answered. One that a request names more than once is not made.
//
//	v1  validate only, message
//	v5  partitions, replication factor and configurations in the answer
//	v7  topic id

// topicEstimateV5 is the size, in bytes, by which a topic in an answer is estimated that
// comes with its configurations.
const topicEstimateV5 = 2048

// createRequest is a request in flight.
type createRequest struct {
	sweep
	h      header
	r      kmsg.CreateTopicsRequest
	a      *kmsg.CreateTopicsResponse
	topics []creation
	names  map[string]int // how often each is named
}

// creation is one topic of it.
type creation struct {
	b  broker.Admin
	of *createRequest
	at *kmsg.CreateTopicsResponseTopic
}

func (p *peer) createTopics(h *header) {
	q := &createRequest{h: header{correlation: h.correlation, version: h.version}, a: kmsg.NewPtrCreateTopicsResponse()}
	if !p.decode(h, &q.r) {
		return
	}
	q.a.SetVersion(h.version)
	q.a.Topics = make([]kmsg.CreateTopicsResponseTopic, len(q.r.Topics))
	q.topics = make([]creation, len(q.r.Topics))
	q.names = make(map[string]int, len(q.r.Topics))
	for i := range q.r.Topics {
		q.names[q.r.Topics[i].Topic]++
	}
	q.p, q.n, q.sweep.ask, q.sweep.done = p, len(q.r.Topics), q.ask, q.answer
	p.began(0, 0)
	p.alone = true
	q.step()
}

// ask creates a topic, or says why not.
func (q *createRequest) ask(i int) {
	c, t, at := &q.topics[i], &q.r.Topics[i], &q.a.Topics[i]
	at.Default()
	at.Topic, at.NumPartitions, at.ReplicationFactor, at.ConfigErrorCode = t.Topic, -1, -1, codeNone
	c.of, c.at, c.b.Kind, c.b.Name, c.b.Owner = q, at, broker.CreateTopic, t.Topic, c
	code, err := q.check(c, t)
	switch {
	case code != codeNone:
		c.refuse(code, err.Error())
	case q.r.ValidateOnly:
		q.answered()
	default:
		q.p.srv.b.Admin(&c.b)
	}
}

func (c *creation) refuse(code int16, text string) {
	c.at.ErrorCode, c.at.ErrorMessage = code, &text
	c.of.p.srv.count.add(Failures)
	c.of.answered()
}

// check judges a topic to be created, and fills in what the broker is asked for.
func (q *createRequest) check(c *creation, t *kmsg.CreateTopicsRequestTopic) (int16, error) {
	partitions := t.NumPartitions
	if n := q.names[t.Topic]; n > 1 {
		return codeInvalidRequest, fmt.Errorf("topic %s is named %d times", t.Topic, n)
	}
	if len(t.ReplicaAssignment) > 0 {
		if t.NumPartitions != -1 || t.ReplicationFactor != -1 {
			return codeInvalidRequest, fmt.Errorf("both a number of partitions and an assignment of them")
		}
		partitions = int32(len(t.ReplicaAssignment))
		seen := make([]bool, partitions)
		for _, a := range t.ReplicaAssignment {
			if a.Partition < 0 || a.Partition >= partitions || seen[a.Partition] || len(a.Replicas) != 1 || a.Replicas[0] != nodeID {
				return codeInvalidAssignment, fmt.Errorf("partition %d has replicas %v, expected each from 0 on once, with broker %d alone", a.Partition, a.Replicas, nodeID)
			}
			seen[a.Partition] = true
		}
	}
	o := q.p.srv.b.Node().Options()
	switch {
	case t.ReplicationFactor != -1 && t.ReplicationFactor != 1:
		return codeInvalidReplication, fmt.Errorf("replication factor %d, and there is 1 broker", t.ReplicationFactor)
	case partitions == -1:
		partitions = int32(o.Partitions)
	}
	limits := catalog.Limits{Partitions: o.MaxTopicPartitions, MaxMessageBytes: int64(o.MaxBatch)}
	if err := catalog.CheckUserName(t.Topic); err != nil {
		return codeInvalidTopic, err
	}
	if q.p.srv.b.Image().ByName(t.Topic) != nil {
		return codeTopicExists, fmt.Errorf("topic %s exists already", t.Topic)
	}
	if err := catalog.CheckPartitions(uint32(max(0, partitions)), limits.Partitions); err != nil {
		return codeInvalidPartitions, err
	}
	c.b.Partitions = uint32(partitions)
	var none catalog.Config
	for _, given := range t.Configs {
		known := findConfig(given.Name)
		if known == nil {
			return codeInvalidConfig, fmt.Errorf("unknown configuration %s", given.Name)
		}
		if given.Value == nil {
			continue
		}
		s, ok, err := known.setting(&none, *given.Value)
		if err != nil {
			return codeInvalidConfig, err
		}
		if ok {
			c.b.Settings = append(c.b.Settings, s)
		}
	}
	if _, err := catalog.ParseSettings(c.b.Settings, catalog.Set, limits); err != nil {
		return codeInvalidConfig, err
	}
	return codeNone, nil
}

// AdminDone notes the outcome of a creation.
func (c *creation) AdminDone(r *broker.Admin) {
	if r.Code != broker.OK {
		c.refuse(adminCodeOf(r.Code), messageOf(r.Code, r.Message))
		return
	}
	c.at.TopicID, c.at.NumPartitions, c.at.ReplicationFactor = r.Topic.ID, int32(r.Topic.Partitions), 1
	c.of.answered()
}

func (q *createRequest) answer() {
	size := len(q.topics) * topicEstimate
	if q.h.version >= 5 {
		size = len(q.topics) * topicEstimateV5
	}
	q.p.answer(q.h.correlation, size, func() kmsg.Response {
		for i := range q.topics {
			if t := q.topics[i].b.Topic; t != nil && q.h.version >= 5 {
				q.topics[i].at.Configs = createdConfigs(&t.Config)
			}
		}
		return q.a
	})
}

func createdConfigs(t *catalog.Config) []kmsg.CreateTopicsResponseTopicConfig {
	all := make([]kmsg.CreateTopicsResponseTopicConfig, len(configs))
	for i := range configs {
		c, at := &configs[i], &all[i]
		at.Default()
		value, own := c.of(t)
		at.Name, at.Value, at.Source, at.ReadOnly = c.name, &value, int8(sourceOf(own)), false
	}
	return all
}

// sourceOf says where a topic's value comes from.
func sourceOf(own bool) kmsg.ConfigSource {
	if own {
		return kmsg.ConfigSourceDynamicTopicConfig
	}
	return kmsg.ConfigSourceDefaultConfig
}
