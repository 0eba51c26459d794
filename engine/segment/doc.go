// Package segment holds a partition's files: names, formats, the index of a
// log, and the jobs that build, load and verify an index.
//
// A segment is two files. The log holds record batches and nothing else; the
// index is a cache beside it: batch starts for lookup by offset and by time, and
// for a sealed log the evidence that its bytes are still the same, one CRC-32C
// for each aligned 4 KiB. Any doubt about an index ends in [ErrRebuild]; any
// doubt about a log ends in a [CorruptError] or in a quarantined [Range], never
// in fewer bytes of log.
//
// Nothing here knows a shard. [Index] is plain memory with one owner at a time;
// the jobs block and run on helper threads or in tools, through aio.FS.
//
// The formats are in docs/format/segment.md and docs/format/index.md.
package segment
