// Package checkpoint holds the formats of what a shard needs to start again
// without reading the store: the checkpoint of each shard, the epoch table of
// each partition in it, and the node file of the data directory.
//
// A checkpoint makes the journal below its LSN superfluous. It is written whole,
// under two names in turn, so that a crash or a bad sector leaves one that can be
// read; the sequence number in it tells which is newer. The journal is given up
// only below what both say.
//
// Everything but the functions in the open files is pure: bytes in, bytes out.
// The formats are in docs/format/checkpoint.md.
package checkpoint
