package hostfs

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mqd-broker/mqd/engine/aio"
	"golang.org/x/sys/unix"
)

// aligned returns n bytes of page-aligned memory outside the Go heap.
func aligned(t *testing.T, n int) []byte {
	t.Helper()
	mem, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(mem) })
	return mem
}

func TestADirectFileReadsToItsUnalignedEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	if err := os.WriteFile(path, bytes.Repeat([]byte{7}, 3*aio.BlockSize+100), 0o600); err != nil {
		t.Fatal(err)
	}
	f := mustOpen(t, path, aio.OpenWrite|aio.OpenDirect)
	if !f.Direct() || f.Path() != path {
		t.Fatalf("opened %q, direct %v", f.Path(), f.Direct())
	}
	if flags, err := unix.FcntlInt(uintptr(f.Fd()), unix.F_GETFL, 0); err != nil || flags&unix.O_DIRECT == 0 {
		t.Fatalf("the descriptor is not direct: %x %v", flags, err)
	}
	mem := aligned(t, 8*aio.BlockSize)
	n, err := f.ReadAt(mem, 0)
	if n != 3*aio.BlockSize+100 || err != io.EOF || mem[n-1] != 7 || mem[n] != 0 {
		t.Fatal(n, err)
	}
	if n, err := f.WriteAt(mem[:aio.BlockSize], 8*aio.BlockSize); n != aio.BlockSize || err != nil {
		t.Fatal(n, err)
	}
	_, err = f.WriteAt(mem[:100], 0)
	asError(t, err, unix.EINVAL)
}

func TestAFilesystemWithoutDirectIOIsNamed(t *testing.T) {
	_, err := New().Open("/proc/version", aio.OpenDirect)
	e := asError(t, err, aio.ErrNoDirect)
	if e.What != "/proc/version" {
		t.Fatal(err)
	}
}

func TestBootIDIsTheKernels(t *testing.T) {
	text, err := os.ReadFile(bootIDFile)
	if err != nil {
		t.Skipf("the kernel tells no boot id: %v", err)
	}
	id, ok := parseBootID(text)
	if !ok || id != bootID() {
		t.Fatalf("%q became %x, bootID is %x", text, id, bootID())
	}
	for _, bad := range []string{"", "123", strings.Repeat("g", 32), strings.Repeat("0", 34)} {
		if _, ok := parseBootID([]byte(bad)); ok {
			t.Errorf("%q was taken for a boot id", bad)
		}
	}
}

func TestTheTypeOfAFilesystemIsItsName(t *testing.T) {
	info, err := New().Stat("/proc")
	if err != nil || info.Type != "proc" {
		t.Fatalf("/proc is of type %q: %v", info.Type, err)
	}
	root, err := New().Stat("/")
	if err != nil {
		t.Fatal(err)
	}
	if root.Mount == info.Mount || root.Device == info.Device {
		t.Fatalf("two filesystems look like one: %+v %+v", root, info)
	}
	if got := typeName(^uint64(0), unix.XFS_SUPER_MAGIC); got != "xfs" {
		t.Errorf("by number alone: %q", got)
	}
	if got := typeName(^uint64(0), 0x1234); got != "0x1234" {
		t.Errorf("of an unknown number: %q", got)
	}
}

func TestMountInfoIsReadByItsFields(t *testing.T) {
	const info = "24 30 0:22 / /sys rw - sysfs sysfs rw\n" +
		"244 30 8:1 / /a rw,relatime shared:1 master:2 - ext4 /dev/sda1 rw\n" +
		"31 30 8:2 / /b rw - xfs /dev/sda2 rw\n"
	for mount, want := range map[uint64]string{24: "sysfs", 244: "ext4", 31: "xfs", 4: "", 30: ""} {
		if got := mountType(info, mount); got != want {
			t.Errorf("mount %d: %q, want %q", mount, got, want)
		}
	}
}
