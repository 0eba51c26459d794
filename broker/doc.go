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
package broker
