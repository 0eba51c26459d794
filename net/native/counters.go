package native

import "sync/atomic"

// Counter numbers a counter of a server.
type Counter uint8

// The counters.
const (
	Hellos Counter = iota
	Pings
	MetadataRequests
	Produces
	Fetches
	OffsetLookups
	LagRequests
	TopicRequests
	GroupRequests
	Refusals
	Failures
	HandOvers
	Stays
	Pauses
	ShardWaits
	Parks
	PlainFetches
	PlainOffloads

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
	{Hellos, "native_hellos_total", "hello requests that were answered with success"},
	{Pings, "native_pings_total", "ping requests"},
	{MetadataRequests, "native_metadata_requests_total", "metadata requests"},
	{Produces, "native_produce_requests_total", "produce requests"},
	{Fetches, "native_fetch_requests_total", "fetch requests"},
	{OffsetLookups, "native_list_offsets_requests_total", "list-offsets requests"},
	{LagRequests, "native_lag_requests_total", "requests for how far a reader is behind in a partition"},
	{TopicRequests, "native_topic_requests_total", "requests to create, alter, trim, delete and describe topics, and for producer ids"},
	{GroupRequests, "native_group_requests_total", "requests about consumer groups"},
	{Refusals, "native_refusals_total", "frames answered with an error response: malformed, unknown, or refused as they are"},
	{Failures, "native_failures_total", "requests answered with a code other than None"},
	{HandOvers, "native_hand_overs_total", "connections that asked for another shard in hello"},
	{Stays, "native_hand_overs_failed_total", "connections that asked for another shard and stayed"},
	{Pauses, "native_pauses_total", "times that a connection had its bound of requests or bytes in flight"},
	{ShardWaits, "native_shard_waits_total", "times that a connection waited because the shard had its bound of requests"},
	{Parks, "native_parked_fetches_total", "answers to fetches that were given back because the peer did not read"},
	{PlainFetches, "native_plain_fetches_total", "fetches answered in plain encoding"},
	{PlainOffloads, "native_plain_offloads_total", "of those, converted by a helper"},
}

// Counters are a server's counters. Its loop alone counts; anyone may read.
type Counters struct {
	values [numCounters]atomic.Uint64
}

// Get is the value of a counter.
func (c *Counters) Get(n Counter) uint64 { return c.values[n].Load() }

func (c *Counters) add(n Counter) { c.values[n].Store(c.values[n].Load() + 1) }
