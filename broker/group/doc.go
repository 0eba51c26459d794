// Package group is the state of consumer groups: where each has got to, who its
// members are, and which member reads which partition.
//
// A [State] holds the groups of one partition of the internal topic whose log they
// live in. It is a pure state machine: it knows no clock, no file and no network.
// Whoever runs it, the coordinator, calls a method for each request and gets records
// to append to the log, in [State.Out]; the state has already changed as they say. An
// answer leaves only when everything appended before it is durable, so that nobody
// hears of what a crash takes back. If the log refuses records, the state is thrown
// away and made again from the log. A start applies the records again, by
// [State.Apply], on top of what [State.Load] has read from snapshots.
//
// # Offsets
//
// A committed offset never goes back unless somebody says so by [State.Reset]. A
// commit that changes nothing writes nothing.
//
// # Members
//
// In mode auto the partitions of the subscribed topics are divided evenly, and as few
// as possible move ([assign]). In mode manual a table says which instance reads a
// partition; instances claim what nobody has, an administrator moves the rest, and
// the partitions of an instance that is away wait for it.
//
// Either way partitions change hands in two steps: they are taken off the list of the
// one that has them, and given to the next one when the first has confirmed that it has
// stopped, or is gone. A member confirms with the generation of the list that it works
// by. So a partition has at most one owner at any time, a commit of anybody else is
// refused, and members whose list stays the same do not notice.
//
// # Snapshots
//
// Groups are hashed into [Blocks]. A block is written as the records that make its
// groups, a bounded number at a time, while the state goes on: the records that change
// it meanwhile are in the log behind the place where the writing began, and applying
// them again leads to the same state.
package group
