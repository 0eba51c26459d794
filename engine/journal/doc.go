// Package journal is a shard's write-ahead log: one region used as a ring, into
// which the batches of all partitions of the shard are written, and from which
// they are recovered.
//
// # The way in
//
// [Journal.Append] copies an entry and its body into the round that is filling and
// returns the round's LSN. [Journal.Kick], called once a turn of the shard's loop,
// closes that round and writes it, provided that nothing is in flight; otherwise
// it goes on filling until what is in flight has completed. That is the whole of
// group commit: no timer, and rounds grow with the load. (A mark, see below, keeps no
// round waiting.) Progress is reported as
// two watermarks over LSNs, "written" and "flushed"; an acknowledgement leaves
// when the watermark of its class has passed its round.
//
// # What makes a round durable
//
// A write with DSYNC makes its own bytes durable and nothing else. So it is used
// only while every earlier round is durable or is itself being written with
// DSYNC. Behind a plain write, durability takes a plain write and then a flush,
// submitted after that write and all earlier ones have completed. A flush covers
// what had completed when it was submitted. The flushed watermark moves by these
// two means and no other.
//
// # What proves it
//
// Every round carries the flushed watermark at the time it was written. Replay
// takes the greatest that it can find anywhere: a round at or below it was
// durable, so if it cannot be read, that is corruption; a round above it that
// cannot be read is the tail of a crash and is dropped. The newest round has
// nobody behind it to vouch for it, so after a millisecond of silence an empty
// round, the mark, is written and flushed. See mark.go.
//
// # The ring
//
// Two blocks at the start hold the anchor, written alternately; the rest is the
// ring of rounds. Rounds lie behind each other, in order of LSN, and none
// straddles the end: a wrap round says that what is left of the lap is skipped.
// The anchor holds the head, the oldest round that recovery needs. A checkpoint
// moves it ([Journal.Release]); only when the new anchor is durable may the space
// be written again. A full ring is [ErrFull], never overwriting.
//
// # Lives
//
// Every start of the broker is a life of the journal with an incarnation of its
// own, durable before the first round of that life. A round names its
// incarnation, the round before it (LSN and checksum of its header), its place in
// the region, and the last round that this life took over from earlier ones. An
// old round that happens to lie where the next one is expected, or further on,
// therefore never passes for a continuation: see replay.go.
//
// # Failure
//
// A failed write is an error of this journal, a failed flush one of the device:
// after it, a later flush may succeed although data is gone. Both end the journal
// for good; nothing is retried. Journals and segments of one device share a flag
// (Options.DeviceFailed) that is checked before every report of progress.
//
// The format is docs/format/journal.md, byte by byte.
package journal
