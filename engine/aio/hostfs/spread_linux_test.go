package hostfs

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// flagsOf are the flags that the filesystem has for path.
func flagsOf(t *testing.T, path string) (flags int, ext bool) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if !isExt(int(f.Fd())) {
		return 0, false
	}
	flags, err = unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	if err != nil {
		t.Fatal(err)
	}
	return flags, true
}

func TestSpreadSetsTheFlagOfExt4AndNoOther(t *testing.T) {
	dir := t.TempDir()
	before, ext := flagsOf(t, dir)
	New().Spread(dir)
	New().Spread(dir) // of one that has it
	if !ext {
		t.Skip("not ext4")
	}
	if after, _ := flagsOf(t, dir); after != before|topDir {
		t.Fatalf("flags were %#x and are %#x, want %#x more", before, after, topDir)
	}
	if err := New().Mkdir(filepath.Join(dir, "a")); err != nil {
		t.Fatal(err)
	}
}

func TestSpreadIsSilentWhereThereIsNothingToDo(t *testing.T) {
	dir := t.TempDir()
	New().Spread(filepath.Join(dir, "missing"))
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	before, ext := flagsOf(t, file)
	New().Spread(file)
	if after, _ := flagsOf(t, file); ext && after != before {
		t.Fatalf("the flags of a file were %#x and are %#x", before, after)
	}
	New().Spread("/proc")
}
