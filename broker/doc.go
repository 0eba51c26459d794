// Package broker is what the front doors speak to: produce, fetch, offsets and the
// administration of topics, without a protocol.
//
// A [Node] is what the shards of a process have in common: options, the catalog's
// image, the assignment of slots. A [Shard] runs on one loop and owns what is
// asked there; a request for a partition of another shard travels to it through
// the mesh, as a pointer in a [Message].
//
// # Requests
//
// A request is a struct of the caller's ([Produce], [Fetch], [ListOffsets],
// [Admin]), which it pools. It belongs to the broker from the call until its owner
// hears of the result, on the loop of the shard that was called and possibly
// inside the call. Produce and fetch allocate nothing.
//
// # Order
//
// Requests of one connection to one partition are appended in the order in which
// they were made, also through the mesh and also where they have to wait: for a
// credit of the mesh and for memory to convert plain batches in a FIFO for each
// shard that is asked, for room in journal or memory in a FIFO for each partition.
// What waits is bounded by what the front doors let each connection have in
// flight; a produce that has waited for [Options.ProduceTimeout] is refused.
//
// # Who touches what
//
// A request in the mesh belongs to the shard that holds its message. The produce
// request itself crosses; of a fetch the asked shard only reads the request and
// keeps everything else in a struct of its own, so that a long poll holds no
// credit and can be cancelled while its answer is on the way.
//
// Requests and replies of a pair of shards travel in rings of their own. Within a
// ring order holds; between the two it does not, and whoever sends both about one
// thing has to expect that the later one is seen first.
//
// # Topics
//
// The catalog's shard, the owner of slot 0, carries out changes to topics one after
// another: command checked, appended to the catalog's log, applied when it is
// flushed, published as a new image, brought to every shard. A deleted topic leaves
// a tombstone and a directory that is renamed, then removed in the background.
//
// # Groups
//
// Consumer groups live in the partitions of an internal topic, which is made when the
// first group is. The shard that owns a partition keeps the groups in it, by a state of
// package group. A commit first visits the shards that own its partitions, which hold it
// against their logs.
package broker
