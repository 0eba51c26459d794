package hostfs

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/mqd-broker/mqd/engine/aio"
	"golang.org/x/sys/unix"
)

const (
	bootIDFile    = "/proc/sys/kernel/random/boot_id"
	mountInfoFile = "/proc/self/mountinfo"
)

func statFS(path string) (aio.FSInfo, error) {
	var fs unix.Statfs_t
	if _, err := retry(func() (int, error) { return 0, unix.Statfs(path, &fs) }); err != nil {
		return aio.FSInfo{}, err
	}
	block := uint64(fs.Bsize)
	if fs.Frsize > 0 {
		block = uint64(fs.Frsize)
	}
	info := aio.FSInfo{
		TotalBytes: int64(fs.Blocks * block),
		FreeBytes:  int64(fs.Bavail * block),
		BootID:     bootID(),
	}
	if fs.Blocks == 0 {
		info.TotalBytes, info.FreeBytes = aio.UnknownBytes, aio.UnknownBytes
	}
	device, local, unique, err := identity(path)
	if err != nil {
		return aio.FSInfo{}, err
	}
	info.Device, info.Mount = device, unique
	info.Type = typeName(local, uint64(fs.Type))
	return info, nil
}

// identity returns the device that holds path, the mount's number in
// mountinfo, and the mount's identity. The numbers in mountinfo are used again
// after an unmount, so kernels that have a unique one (6.8) are asked for that.
// Where the kernel tells neither (before 5.8), the identity is one that no other
// process will ever see: a mount that cannot be recognised is not the same.
func identity(path string) (device, local, unique uint64, err error) {
	var st unix.Statx_t
	err = statx(path, unix.STATX_BASIC_STATS|unix.STATX_MNT_ID, &st)
	if err != nil {
		return 0, 0, 0, err
	}
	device = unix.Mkdev(st.Dev_major, st.Dev_minor)
	if st.Mask&unix.STATX_MNT_ID == 0 {
		return device, 0, processID(), nil
	}
	local = st.Mnt_id
	if err := statx(path, unix.STATX_MNT_ID_UNIQUE, &st); err != nil || st.Mask&unix.STATX_MNT_ID_UNIQUE == 0 {
		return device, local, local, nil
	}
	return device, local, st.Mnt_id, nil
}

func statx(path string, mask int, st *unix.Statx_t) error {
	_, err := retry(func() (int, error) { return 0, unix.Statx(unix.AT_FDCWD, path, 0, mask, st) })
	return err
}

// processID is a number that this process alone has drawn.
var processID = sync.OnceValue(func() uint64 {
	var b [8]byte
	rand.Read(b[:]) // never fails: see its documentation
	return binary.BigEndian.Uint64(b[:]) | 1
})

// bootID is the kernel's identity of this boot. Where /proc does not tell, each
// process has one of its own, equal to no other.
var bootID = sync.OnceValue(func() [16]byte {
	text, err := os.ReadFile(bootIDFile)
	if err == nil {
		if id, ok := parseBootID(text); ok {
			return id
		}
	}
	var id [16]byte
	rand.Read(id[:])
	return id
})

// parseBootID reads the form 8-4-4-4-12 of a UUID.
func parseBootID(text []byte) (id [16]byte, ok bool) {
	digits := bytes.ReplaceAll(bytes.TrimSpace(text), []byte("-"), nil)
	if len(digits) != 2*len(id) {
		return id, false
	}
	_, err := hex.Decode(id[:], digits)
	return id, err == nil
}

// typeName is the filesystem's name from mountinfo: the magic number of statfs
// alone cannot tell ext2, ext3 and ext4 apart, nor one FUSE filesystem from
// another. Without mountinfo it is the magic number's.
func typeName(mount, magic uint64) string {
	if text, err := os.ReadFile(mountInfoFile); err == nil {
		if name := mountType(string(text), mount); name != "" {
			return name
		}
	}
	if name, ok := magicNames[magic]; ok {
		return name
	}
	return fmt.Sprintf("0x%x", magic)
}

// mountType finds the type in the lines of proc(5)'s mountinfo: the first field
// is the mount's number, and the type follows a field "-".
func mountType(info string, mount uint64) string {
	want := strconv.FormatUint(mount, 10)
	for line := range strings.Lines(info) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] != want {
			continue
		}
		for i := 6; i+1 < len(fields); i++ {
			if fields[i] == "-" {
				return fields[i+1]
			}
		}
	}
	return ""
}

// magicNames are the numbers of statfs(2) for filesystems that a broker's data
// may be on.
var magicNames = map[uint64]string{
	unix.EXT4_SUPER_MAGIC:      "ext4",
	unix.XFS_SUPER_MAGIC:       "xfs",
	unix.BTRFS_SUPER_MAGIC:     "btrfs",
	unix.TMPFS_MAGIC:           "tmpfs",
	unix.OVERLAYFS_SUPER_MAGIC: "overlay",
	unix.FUSE_SUPER_MAGIC:      "fuse",
	unix.NFS_SUPER_MAGIC:       "nfs",
	unix.F2FS_SUPER_MAGIC:      "f2fs",
	unix.BCACHEFS_SUPER_MAGIC:  "bcachefs",
	0x2fc12fc1:                 "zfs",
}
