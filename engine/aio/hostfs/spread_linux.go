package hostfs

import "golang.org/x/sys/unix"

// topDir is FS_TOPDIR_FL of the kernel: ext4's directory whose subdirectories are not
// related.
const topDir = 0x20000

// Spread sets ext4's flag for a directory whose subdirectories are not related; see
// aio.FS. New ones then come to block groups that have room, each to another.
// Without it they come to the group of path until that is full, where a filesystem without
// a journal looks at each inode that was deleted in the last minutes before it finds one
// that it may use. Filesystems without the flag refuse it, and nothing is lost.
func (FS) Spread(path string) {
	fd, err := retry(func() (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if !isExt(fd) { // elsewhere the bit may mean something else
		return
	}
	flags, err := unix.IoctlGetInt(fd, unix.FS_IOC_GETFLAGS)
	if err != nil || flags&topDir != 0 {
		return
	}
	_ = unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, flags|topDir)
}

// isExt reports whether an open file is one of ext2, ext3 or ext4.
func isExt(fd int) bool {
	var st unix.Statfs_t
	return unix.Fstatfs(fd, &st) == nil && st.Type == unix.EXT4_SUPER_MAGIC
}
