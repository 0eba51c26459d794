// Package layout says what a partition is called, where it lives and how it is
// configured: topic ids, slots and their shards, durability classes, and the paths
// of a data directory.
//
//	mqd.node                         identity, starts
//	lock                             held by the process
//	checkpoints/checkpoint-<shard>.{a,b}
//	journals/journal-<shard>
//	topics/<name>.<id>/<partition>/<base offset>.{log,index}
package layout
