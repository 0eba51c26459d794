package broker

import (
	"github.com/mqd-broker/mqd/broker/catalog"
	"github.com/mqd-broker/mqd/broker/catalogfile"
	"github.com/mqd-broker/mqd/engine"
	"github.com/mqd-broker/mqd/engine/order"
)

// partition is a partition of this shard with the produces that wait for room.
type partition struct {
	*engine.Partition
	waiting fifo
	busy    order.Node[*partition] // in the busy list
}

// partition finds or opens a partition of this shard, by the catalog as it is now.
func (b *Shard) partition(topic TopicID, number int32) (*partition, Code) {
	k := engine.Key{Topic: topic, Partition: uint32(number)}
	if p := b.parts[k]; p != nil {
		return p, OK
	}
	t, code := b.node.lookup(topic, number)
	if code != OK {
		return nil, code
	}
	p := &partition{Partition: b.store.Open(k, t.Name, b.node.config(t))}
	b.parts[k] = p
	return p, OK
}

// lookup finds the topic of a partition.
func (n *Node) lookup(topic TopicID, number int32) (*catalog.Topic, Code) {
	t := n.image.Load().ByID(topic)
	switch {
	case t == nil:
		return nil, UnknownTopic
	case uint32(number) >= t.Partitions:
		return nil, UnknownPartition
	}
	return t, OK
}

// config is what a topic's settings mean to the engine.
func (n *Node) config(t *catalog.Topic) engine.PartitionConfig {
	return catalogfile.PartitionConfig(&t.Config, n.opts.MaxBatch)
}

// busyList is a list of partitions, in the order in which they came.
type busyList struct{ order.List[*partition] }

func (l *busyList) push(p *partition) {
	if !p.busy.Listed() {
		p.busy.Owner = p
		l.Add(&p.busy, 0)
	}
}

func (l *busyList) remove(p *partition) {
	if p.busy.Listed() {
		l.Remove(&p.busy)
	}
}
