package client

import (
	"context"
	"strings"
	"time"

	"github.com/mqd-broker/mqd/net/wire"
)

// topic is what a client knows of a topic.
type topic struct {
	name   string
	id     wire.TopicID
	class  Class
	shards []uint16 // owner of each partition
	first  int      // how many partitions there were when the topic was heard of
}

// metadata asks for topics by name, or for all of them.
func (c *Client) metadata(ctx context.Context, req wire.MetadataRequest) ([]wire.TopicMetadata, error) {
	body, err := do(ctx, c.control, callRead, "", wire.OpMetadata, func(dst []byte, corr uint32) []byte {
		return wire.AppendMetadataRequest(dst, corr, req)
	})
	if err != nil {
		return nil, err
	}
	resp, err := wire.DecodeMetadataResponse(body)
	if err != nil {
		return nil, opError("metadata", "", -1, err)
	}
	return resp.Topics, nil
}

// lookup asks for one topic.
func (c *Client) lookup(ctx context.Context, name string) (topic, error) {
	if err := checkTopic(name); err != nil {
		return topic{}, err
	}
	found, err := c.metadata(ctx, wire.MetadataRequest{Topics: []string{name}})
	switch {
	case err != nil:
		return topic{}, err
	case len(found) != 1 || found[0].Name != name:
		return topic{}, opError("metadata", name, -1, ErrProtocol)
	case found[0].Code != wire.CodeNone:
		return topic{}, readError("metadata", name, -1, found[0].Code, "")
	case len(found[0].PartitionShards) == 0:
		return topic{}, opError("metadata", name, -1, ErrProtocol)
	}
	return topicOf(&found[0]), nil
}

func topicOf(t *wire.TopicMetadata) topic {
	return topic{name: t.Name, id: t.ID, class: t.Class, shards: t.PartitionShards, first: len(t.PartitionShards)}
}

// after is t where old was known before. Partitions that have come since then are read from
// their start: whoever wanted what is new wants all of it.
func (t *topic) after(old *topic) *topic {
	if old != nil && old.id == t.id {
		again := *t
		again.first = old.first
		return &again
	}
	return t
}

// checkTopic refuses names that no topic can have.
func checkTopic(name string) error {
	if err := wire.CheckTopicName(name); err != nil {
		return invalid("%s", strings.TrimPrefix(err.Error(), "wire: "))
	}
	return nil
}

// implied bounds a look-up that a call without a context needs.
func (c *Client) implied() (context.Context, context.CancelFunc) {
	return context.WithTimeout(c.ctx, c.cfg.timeout)
}

// refresh has the owners of partitions looked up again in the background: the
// number of shards has changed, or a topic's id is not known any more. It is done now and
// then anyway, because a topic may have got more partitions.
func (c *Client) refresh() {
	select {
	case c.refreshC <- struct{}{}:
	default:
	}
}

// refreshLoop looks topics up again, at most once in the longest back-off.
func (c *Client) refreshLoop() {
	defer close(c.refreshDone)
	pause := time.NewTimer(0)
	defer pause.Stop()
	again := time.NewTicker(c.cfg.refreshEvery)
	defer again.Stop()
	for {
		look := c.refreshTopics
		select {
		case <-c.refreshC:
		case <-again.C:
			look = c.growTopics
		case <-c.ctx.Done():
			return
		}
		ctx, cancel := c.implied()
		look(ctx)
		cancel()
		pause.Reset(c.cfg.backoffMax)
		select {
		case <-pause.C:
		case <-c.ctx.Done():
			return
		}
	}
}

// topicUsers are those who have to hear what becomes of their topics.
type topicUsers struct {
	names     map[string]bool
	producers []*Producer
	consumers []*Consumer
}

func (c *Client) topicUsers() topicUsers {
	u := topicUsers{names: map[string]bool{}}
	c.mu.Lock()
	for p := range c.producers {
		u.names[p.topic.name] = true
		u.producers = append(u.producers, p)
	}
	for co := range c.consumers {
		u.consumers = append(u.consumers, co)
	}
	c.mu.Unlock() // a consumer asks for links with its own lock held
	for _, co := range u.consumers {
		for _, name := range co.names() {
			u.names[name] = true
		}
	}
	return u
}

// tell tells what a topic is like now.
func (u *topicUsers) tell(t *topic) {
	for _, p := range u.producers {
		if p.topic.name == t.name {
			p.moved(t)
		}
	}
	for _, co := range u.consumers {
		co.moved(t)
	}
}

// refreshTopics looks the topics up that are in use.
func (c *Client) refreshTopics(ctx context.Context) {
	u := c.topicUsers()
	for name := range u.names {
		t, err := c.lookup(ctx, name)
		if err != nil {
			c.cfg.log.Warn("topic look-up failed", "topic", name, "error", err)
			continue
		}
		u.tell(&t)
	}
}

// growTopics looks for partitions that have come. It asks for all topics and names none: a
// broker may make a topic that is named, and nobody wants one back that has been deleted.
func (c *Client) growTopics(ctx context.Context) {
	u := c.topicUsers()
	if len(u.names) == 0 {
		return
	}
	found, err := c.metadata(ctx, wire.MetadataRequest{All: true})
	if err != nil {
		c.cfg.log.Warn("topic look-up failed", "error", err)
		return
	}
	for i := range found {
		if f := &found[i]; u.names[f.Name] && f.Code == wire.CodeNone && len(f.PartitionShards) > 0 {
			t := topicOf(f)
			u.tell(&t)
		}
	}
}
