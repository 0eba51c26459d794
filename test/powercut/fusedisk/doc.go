// Package fusedisk is a disk whose power can be cut: a file, served over FUSE,
// that a loop device makes a block device of.
//
// A [Disk] is the model. What is written to it lies in a volatile cache until a
// flush: reads see it, and a cut of the power takes some of it back, sector by
// sector. [Disk.Cut] makes an image of what would be left now; the disk itself
// goes on. Images share memory with the disk they come from, so that one run of a
// program leaves as many of them as are wanted. A disk can also lie: acknowledge
// flushes and do nothing.
//
// On Linux a [Server] shows disks as files of one directory, and an [Attachment]
// is a filesystem on one of them. A flush of the filesystem goes through the loop
// device and arrives as FUSE's fsync. The server speaks FUSE's protocol over
// /dev/fuse itself.
//
// Whatever a test mounts and attaches must be gone when it ends, also when it is
// killed. So there are two rules. All of it happens in a mount namespace that ends
// with the test ([Isolate]): the kernel unmounts what is in it, and a loop device
// detaches itself when nobody has it open. A child that does nothing else is the
// last one in there. And the process that serves the disk
// never waits for it: what would have it wait, setting up loop devices, mounting,
// unmounting, is done by children. A process that waits for itself cannot even be
// killed.
package fusedisk
