// Package history checks what a broker has done with messages: it is told what
// producers sent, what was acknowledged, what readers saw and when the broker
// died, and names everything that the durability classes do not allow.
//
// The package is pure: no clock, no I/O, no goroutine. The same checker serves
// histories from real processes and from simulated ones.
//
// A [Partition] holds one partition's history. Every message is unique
// ([Message], with contents that follow from its identity, see [Append]), so
// that one value read back says who sent it, in which place of its sequence, and
// whether a single bit has changed. Lives number the processes of the broker one
// after the other; what happens between [Partition.Crashed], or another end, and the
// next one belongs to one life.
//
// The rules, by [Kind]:
//
//   - Acknowledged messages of a flushed partition are at their offsets in every
//     complete reading ([Scan]), for ever, and so is whatever a consumer of it saw.
//   - Of a memory partition a crash may take the newest messages of the life
//     that it ends, never one with a later one left, and nothing that an earlier
//     recovery had kept. Of a written partition a power cut may; the death of the
//     process takes nothing, and an orderly end takes nothing of any.
//   - Where the class changes, each message has the one that its acknowledgement
//     named.
//   - An offset has one content for all time, also if that was lost.
//   - A message that was not acknowledged may be there or not, once. One that an end of
//     a life may have taken may be there once more when its producer sends it again.
//   - Nothing is there that was not sent, that was refused, or that belongs to
//     another partition; nothing is changed.
//   - Messages of one producer stand in the order in which it sent them.
//   - Offsets are dense. Gaps may be only where an end of a life may have taken
//     messages, and the broker must have said so to whoever read on.
//   - Of a compacted partition messages may go of which a later one has the key, and those
//     that delete their key when their time has come ([Partition.Keyed]). The newest of
//     each key stays, and what has gone does not come back.
//   - The end of a partition never goes back, and neither does its start.
//   - The start moves up only when somebody has asked for that, over messages that were
//     appended long enough ago by the broker's time, or when enough is left.
//   - The broker's times of appends never fall from one offset to a higher one.
package history
