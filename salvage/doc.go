// Package salvage gives up what cannot be read any more, on an order.
//
// A broker never gives anything up by itself. Damage below the durable offset stays where
// it is: a fetch there is answered with an error and the next good offset, and a segment
// that is missing is reported, at every start. That is right as long as somebody may bring
// the bytes back, from a copy or a device that reads them the next time. It is in the way
// when nobody can. This package then does two things to a data directory on which no
// broker runs. It records the lost offsets as a gap in the partition's epoch table, so that
// consumers pass over them as over any gap, and it replaces the damaged log by a copy
// without the bytes that cannot be read. No offset changes.
//
// # What happens in which order
//
//  1. Where the newest segment of a partition is damaged or missing, an empty one is made
//     at the partition's end, in which the log goes on. A start that finds it before the
//     next step sets it aside.
//  2. The checkpoint of a shard is replaced by one with the gaps: the next of its two
//     generations, by an atomic write. That is the moment from which the losses are
//     accepted, for all partitions of the shard at once.
//  3. One by one, each damaged log is copied to a name beside it, as it is and for good;
//     a copy without the damage is written, flushed and checked, and takes its place by a
//     rename; its index is made anew.
//
// A crash leaves each file as it was or as it will be. Before step 2 nothing has changed
// for anybody. Behind it a log that still holds its damage is read as well, because nobody
// asks for the offsets in the gap; to run it again does what is left.
//
// # A journal that is gone
//
// Where the journal of a shard is missing that its checkpoint needs, what it had is lost and
// nobody knows how much that was. Then step 2 also marks the checkpoint, as both
// generations, as one that does without: the rest is done by the next start, which alone
// has the catalog and replays the other journals. It keeps what stands whole in the segments
// behind the checkpoint, and has the partitions of the shard go on above all that the
// journal can have held. See engine/recovery/forsaken.go.
//
// # What it does not do
//
// It does not touch the catalog's log, in which a gap would be lost topics. It leaves the
// end of a newest segment alone while the journals may still mend it, which is until the
// broker has been stopped in order. Until then it reads the journals too, and tells of
// damage in them and of partitions that only they know, but changes nothing in them. It
// brings nothing back.
package salvage
