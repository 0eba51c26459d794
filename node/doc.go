// Package node is one broker process: it recovers the data directory, starts a
// shard for each CPU that it is given, opens the front doors, and ends in order.
//
// It does not choose how I/O is done: the program gives it a [Platform].
package node
