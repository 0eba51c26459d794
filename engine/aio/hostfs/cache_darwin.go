package hostfs

import "golang.org/x/sys/unix"

// avoidCache keeps what is read and written out of the page cache, as far as the
// filesystem can. There is no O_DIRECT that could be refused.
func avoidCache(fd uintptr) error {
	_, err := unix.FcntlInt(fd, unix.F_NOCACHE, 1)
	return err
}
