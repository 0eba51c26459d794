// Package powercut cuts the power under a real broker: the binary runs on ext4 and
// XFS, on a loop device on a disk with a volatile cache (package fusedisk), under
// the load of real clients.
//
// One load is one run of a broker. At random moments the disk is asked what a power
// cut would leave now: none of what was not flushed, a random half of its sectors,
// or a prefix of the writes. The run goes on, so one load gives many images. Each is
// then mounted, which has the filesystem replay its own log, and a broker is
// started on it. What it serves is held against what clients knew at the moment of
// the cut (package history): everything acknowledged in class flushed is at its
// offset with its bytes and without gaps; of the weaker classes the newest may be
// gone, and nothing else. Topics that were created are there, deleted ones are not.
// The new life is written to and read again, and some images are cut a second time,
// during the recovery or under that load.
//
// The rig must be able to fail: other tests break the broker or the disk and expect
// objections.
//
// Another test has the images taken while a broker compacts a topic.
//
// make powercut makes 100 images; make test a few. A failure prints the seed, which
// chooses everything but the scheduling:
//
//	go test -run TestPowerCuts ./test/powercut -powercut.images=50 -powercut.seed=7
//
// It needs root, FUSE, loop devices, mkfs.ext4, and mkfs.xfs for XFS.
package powercut
