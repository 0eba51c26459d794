package cli

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A broker has ext4 place topics apart (FS_TOPDIR_FL), by both drivers.
func TestABrokerHasTopicsPlacedApart(t *testing.T) {
	const topDir = 0x20000
	for _, io := range []string{"uring", "portable"} {
		dir := t.TempDir()
		b := serve(t, dir, "--io", io, "--shards", "1")
		f, err := os.Open(filepath.Join(dir, "topics"))
		if err != nil {
			t.Fatal(err)
		}
		var st unix.Statfs_t
		if err := unix.Fstatfs(int(f.Fd()), &st); err != nil || st.Type != unix.EXT4_SUPER_MAGIC {
			_ = f.Close()
			t.Skipf("the tests' directory is not on ext4: %#x, %v", st.Type, err)
		}
		flags, err := unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS)
		if err != nil || flags&topDir == 0 {
			t.Errorf("%s: flags %#x, %v", io, flags, err)
		}
		_ = f.Close()
		b.stop()
	}
}
