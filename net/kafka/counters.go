package kafka

import "sync/atomic"

// Counter numbers a counter of a server.
type Counter uint8

// The counters.
const (
	VersionRequests Counter = iota
	MetadataRequests
	Produces
	Fetches
	OffsetLookups
	ProducerInits
	CoordinatorRequests
	GroupOffsets
	GroupCalls
	AdminRequests
	Refusals
	Failures
	Pauses
	ShardWaits

	numCounters
)

// CounterInfo describes a counter.
type CounterInfo struct {
	Counter Counter
	// Name is a metric's, unit included.
	Name string
	Help string
}

// CounterTable describes the counters, in order.
var CounterTable = [numCounters]CounterInfo{
	{VersionRequests, "kafka_api_versions_requests_total", "ApiVersions requests of Kafka clients"},
	{MetadataRequests, "kafka_metadata_requests_total", "Metadata requests of Kafka clients"},
	{Produces, "kafka_produce_requests_total", "Produce requests of Kafka clients"},
	{Fetches, "kafka_fetch_requests_total", "Fetch requests of Kafka clients"},
	{OffsetLookups, "kafka_list_offsets_requests_total", "ListOffsets requests of Kafka clients"},
	{ProducerInits, "kafka_init_producer_id_requests_total", "InitProducerId requests of Kafka clients"},
	{CoordinatorRequests, "kafka_find_coordinator_requests_total", "FindCoordinator requests of Kafka clients"},
	{GroupOffsets, "kafka_group_offsets_requests_total", "OffsetCommit and OffsetFetch requests of Kafka clients"},
	{GroupCalls, "kafka_group_member_requests_total", "JoinGroup, SyncGroup, Heartbeat and LeaveGroup requests of Kafka clients"},
	{AdminRequests, "kafka_admin_requests_total", "requests of Kafka clients about topics, their configurations, groups and the cluster"},
	{Refusals, "kafka_refusals_total", "connections of Kafka clients that were closed because of what they sent"},
	{Failures, "kafka_failures_total", "partitions of Kafka clients' requests that were answered with an error"},
	{Pauses, "kafka_pauses_total", "times that a Kafka client's connection had its bound of requests or bytes in flight"},
	{ShardWaits, "kafka_shard_waits_total", "times that a Kafka client's connection waited because the shard had its bound of requests"},
}

// Counters are a server's counters. Its loop alone counts; anyone may read.
type Counters struct {
	values [numCounters]atomic.Uint64
}

// Get is the value of a counter.
func (c *Counters) Get(n Counter) uint64 { return c.values[n].Load() }

func (c *Counters) add(n Counter) { c.values[n].Store(c.values[n].Load() + 1) }
