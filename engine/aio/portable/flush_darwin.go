package portable

import "golang.org/x/sys/unix"

// flushName is what notes call a flush.
const flushName = "F_FULLFSYNC"

// flush makes a file durable. fsync(2) would hand the data to the device and leave it in
// its cache. A signal that comes first is no failure.
func flush(fd int) error {
	for {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_FULLFSYNC, 0); err != unix.EINTR {
			return err
		}
	}
}
