package broker

import (
	"github.com/mqd-broker/mqd/broker/catalog"
	"github.com/mqd-broker/mqd/engine"
)

// AdminKind says what an [Admin] asks for.
type AdminKind uint8

const (
	// CreateTopic makes topic Name. It is answered when the topic is durable
	// and every shard can see it.
	CreateTopic AdminKind = iota + 1
	// AlterTopic changes settings of topic Name. It is answered when every
	// partition works by the new settings; a change to a stronger class waits
	// until everything earlier has been flushed.
	AlterTopic
	// DeleteTopic deletes topic Name and its records. It is answered when no
	// shard takes or serves anything of it any more; its files are removed in
	// the background.
	DeleteTopic
	// DescribeTopic reports the state of topic Name and of its partitions.
	DescribeTopic
	// NewProducer gives out a producer id that nobody else has or ever had.
	NewProducer
	// AddPartitions has topic Name have Partitions partitions, which must not be
	// fewer than it has. It is answered when that is durable and every shard can see
	// it. What is there stays where it is; keys may belong elsewhere from then on.
	AddPartitions
)

// Admin is a request about one topic, or for a producer id. The caller owns it; it belongs to the
// broker from [Shard.Admin] until AdminDone. It may allocate.
type Admin struct {
	// Request.

	Kind AdminKind
	Name string
	// Partitions of a topic to create, 0 takes [Options.Partitions]; or how many it is to
	// have with AddPartitions.
	Partitions uint32
	// Settings of a topic to create or alter. An empty value in an alter takes
	// the topic's own value away.
	Settings []catalog.Setting
	Owner    AdminOwner

	// Result.

	Code Code
	// Message says what is wrong, for people; "" when OK.
	Message string
	// Topic is the topic as it is in the catalog afterwards (with DeleteTopic: as
	// it was), nil with a code. It is immutable. With code Storage an alter may
	// have been recorded all the same.
	Topic *catalog.Topic
	// Infos are the partitions by number; DescribeTopic only.
	Infos []PartitionInfo
	// Producer is the id; NewProducer only, else or with a code -1.
	Producer int64

	adminState
}

// PartitionInfo is one partition of a described topic.
type PartitionInfo struct {
	// Shard is the number of the shard that owns the partition.
	Shard int
	// LogStart, Durable, End and NewestAppend are as in [Fetch].
	LogStart, Durable, End, NewestAppend int64
	// Bytes is the size of all segments.
	Bytes int64
	// ExposedBytes are acknowledged and would be lost by a power cut now.
	ExposedBytes int64
	// Epoch is the newest leader epoch; 0 where nothing has been written.
	Epoch uint32
	// Class is the class in force, which is behind the topic's while a change
	// to a stronger one is under way.
	Class Class
}

// AdminOwner is told of the outcome, on the loop of the shard that was asked,
// possibly inside [Shard.Admin].
type AdminOwner interface {
	AdminDone(r *Admin)
}

// adminState is the broker's part of an Admin.
type adminState struct {
	internal bool   // of the broker itself, about a topic of its own
	origin   *Shard // the shard that was asked; others only look at its number
	steps    []step // of a describe
	left     int    // of them, not done
	wait     waiter
}

// Admin creates, alters, deletes or describes a topic. r.Owner hears of the outcome
// once.
func (b *Shard) Admin(r *Admin) {
	r.Code, r.Message, r.Topic, r.Infos, r.Producer = OK, "", nil, nil, -1
	r.origin = b
	b.inFlight++
	if r.Kind == DescribeTopic {
		b.describe(r)
		return
	}
	if b.node.quiesced.Load() {
		r.refuse(ShuttingDown, "")
		b.adminDone(r)
		return
	}
	b.post(b.node.catalogShard(), Message{kind: msgAdmin, body: r}, &r.wait)
}

// refuse sets the result. An empty text stands for the code's help.
func (r *Admin) refuse(code Code, text string) {
	if text == "" {
		text = code.Help()
	}
	r.Code, r.Message, r.Topic = code, text, nil
}

// adminDone tells the owner, on the shard that was asked.
func (b *Shard) adminDone(r *Admin) {
	b.inFlight--
	r.Owner.AdminDone(r)
}

// describe gathers the state of a topic's partitions from all shards.
func (b *Shard) describe(r *Admin) {
	t := b.Image().ByName(r.Name)
	if t == nil {
		r.refuse(UnknownTopic, "")
		b.adminDone(r)
		return
	}
	r.Topic = t
	r.Infos = make([]PartitionInfo, t.Partitions)
	r.steps = make([]step, b.node.Shards())
	r.left = len(r.steps)
	for i := range r.steps {
		s := &r.steps[i]
		*s = step{kind: stepDescribe, topic: t, to: i, from: b.id, owner: (*described)(r), infos: r.Infos}
	}
	steps := r.steps // r may be done inside the loop
	for i := range steps {
		b.post(i, Message{kind: msgStep, body: &steps[i]}, &steps[i].wait)
	}
}

// described is an Admin as the owner of its steps.
type described Admin

func (*described) stepSeen(*step) {}

// stepDone ends the describe with its last step.
func (o *described) stepDone(*step) {
	r := (*Admin)(o)
	if r.left--; r.left == 0 {
		r.steps = nil
		r.origin.adminDone(r)
	}
}

// Info describes a partition of this shard, with as much work as it has segments.
func (b *Shard) Info(t *catalog.Topic, number uint32) PartitionInfo {
	p := b.store.Partition(engine.Key{Topic: t.ID, Partition: number})
	if p == nil {
		return PartitionInfo{Shard: b.id, NewestAppend: -1, Class: Class(t.Config.Durability())}
	}
	info := PartitionInfo{
		Shard: b.id, LogStart: p.LogStart(), Durable: p.Durable(), End: p.End(), NewestAppend: p.NewestAppendTime(),
		Bytes: p.Bytes(), ExposedBytes: p.ExposedBytes(), Epoch: p.Epoch(), Class: p.Class(),
	}
	if info.NewestAppend == 0 {
		info.NewestAppend = -1
	}
	return info
}
