// Package tuning tells what on a host costs a broker latency or safety, changes what may
// be changed, and takes that back.
//
// The catalogue ([Catalogue]) is a table of settings. Each one says where it is read,
// what is wanted on which kind of machine and why, whether that matters for what mqd
// does, which is O_DIRECT through io_uring and TCP, and what class of change it would be.
// [Check] compares a machine with it, [Plan] makes changes of what differs, and package
// undo makes those and takes them back.
//
// What many guides repeat and is wrong, or does nothing for mqd, is in a table of its
// own ([Refused]), so that nobody has to look for it twice. Never changed are boot
// files, write caches of drives and what the kernel believes of them, mount options, and
// what another user's security depends on.
package tuning
