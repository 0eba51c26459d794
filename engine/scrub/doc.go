// Package scrub reads, in the background and at a bounded rate, what nobody reads.
//
// A device loses bytes in silence. Whoever fetches them is told, but of a log that is
// read once nobody hears until it is too late to have it from somewhere else. So a
// [Scrubber] for each shard goes through all sealed segments, again and again, and
// compares everything that there is to compare: the CRC of every batch, the chain of
// offsets, the recorded epochs, the checksum of every region and the entries of the
// index.
//
// It changes nothing in a log. What is damaged is told once and counted, and stays as it
// is: fetches of it are answered with an error and the next good offset, whether the
// scrubber has been there or not. An index that cannot be used, with a log that can, is
// made again.
//
// # What it costs
//
// A segment is verified in pieces by jobs on the helpers, with direct reads, so that
// neither a shard's loop nor the page cache takes part. A piece is begun by a timer, no
// sooner than the one before has paid for its bytes at the rate; time that went unused
// is not made up for. While the shard has something better to do with the device the
// piece waits, but not for ever. Only where a segment has no index that can be used is it
// read in one go, by the job that makes one; its bytes are paid for afterwards.
//
// # Segments that change
//
// Between pieces no file is open and nothing is held: a segment may be deleted or
// replaced at any time. What is found damaged is read a second time from its start, and
// it counts only if that finds it too and the store still has the segment. Nothing is
// remembered from one life to the next. A pass begins somewhere, so that a broker that
// is often started anew does not always read the same.
package scrub
