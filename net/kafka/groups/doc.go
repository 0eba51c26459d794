// Package groups answers what Kafka clients ask about consumer groups and the offsets
// that they commit. Each API is a file that its key begins the name of.
//
// It knows no connection: a [Door] takes requests whose header others have read, asks
// the broker, and hands the answer to the request's [Peer]. Requests are decoded and
// answers encoded by kmsg; what a member says of itself and what its leader assigns to
// it are bytes that nobody here looks into.
//
// Offsets are those of the broker's groups, so that both protocols see the same. A
// Kafka client may commit an offset below the one that is committed, above the end of
// the log, or below its start, because its own rule of who may commit is another one:
// generations decide, not offsets.
package groups
