package broker

import "github.com/mqd-broker/mqd/broker/catalog"

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
)

// Admin is a request about one topic. The caller owns it; it belongs to the
// broker from [Shard.Admin] until AdminDone. It may allocate.
type Admin struct {
	// Request.

	Kind AdminKind
	Name string
	// Partitions of a topic to create; 0 takes [Options.Partitions].
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
	// it was), nil with a code. It is immutable.
	Topic *catalog.Topic
	// Partition numbers index PartitionInfos; DescribeTopic only.
	PartitionInfos []PartitionInfo

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
	// Epoch is the newest leader epoch.
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
type adminState struct{}
