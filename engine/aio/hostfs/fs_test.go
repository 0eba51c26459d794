package hostfs

import (
	"bytes"
	"errors"
	"io"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/mqd-broker/mqd/engine/aio"
)

func mustOpen(t *testing.T, path string, mode aio.OpenMode) *File {
	t.Helper()
	f, err := New().Open(path, mode)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f.(*File)
}

// asError checks that err has the one form of this package's errors.
func asError(t *testing.T, err, is error) *aio.Error {
	t.Helper()
	var e *aio.Error
	if !errors.As(err, &e) || !errors.Is(err, is) {
		t.Fatalf("want an *aio.Error that wraps %v, got %T %v", is, err, err)
	}
	if e.Op == "" || e.What == "" {
		t.Fatalf("the error names no operation or no path: %#v", e)
	}
	return e
}

func TestAFileIsExtendedByZeros(t *testing.T) {
	f := mustOpen(t, filepath.Join(t.TempDir(), "a"), aio.OpenWrite|aio.OpenCreate)
	want := bytes.Repeat([]byte{7}, 3001)
	if _, err := f.WriteAt(want, 0); err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{0, 3001, 3002, 2*zeroPiece + 5000} {
		if err := extend(f, int64(size)); err != nil {
			t.Fatal(err)
		}
		want = append(want, make([]byte, max(0, size-len(want)))...)
		got := make([]byte, len(want)+1)
		if n, err := f.ReadAt(got, 0); n != len(want) || err != io.EOF || !bytes.Equal(got[:n], want) {
			t.Fatalf("extended to %d: %d bytes (%v), or other ones than expected", size, n, err)
		}
	}
}

func TestAFileKeepsWhatIsWrittenAtOffsets(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	f := mustOpen(t, path, aio.OpenWrite|aio.OpenCreate)
	for _, off := range []int64{10_000, 0} {
		if n, err := f.WriteAt([]byte("hello"), off); n != 5 || err != nil {
			t.Fatal(n, err)
		}
	}
	if size, err := f.Size(); size != 10_005 || err != nil {
		t.Fatal(size, err)
	}
	got := make([]byte, 7)
	if n, err := f.ReadAt(got, 9_999); n != 6 || err != io.EOF || string(got[:6]) != "\x00hello" {
		t.Fatalf("%d %v %q", n, err, got[:n])
	}
	if n, err := f.ReadAt(got, 20_000); n != 0 || err != io.EOF {
		t.Fatalf("behind the end: %d %v", n, err)
	}
	if err := f.Truncate(3); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	if n, err := f.ReadAt(got, 0); n != 3 || err != io.EOF || string(got[:3]) != "hel" {
		t.Fatalf("%d %v %q", n, err, got[:n])
	}
}

func TestAllocateExtendsTheFileWithZerosAndKeepsItsContent(t *testing.T) {
	f := mustOpen(t, filepath.Join(t.TempDir(), "a"), aio.OpenWrite|aio.OpenCreate)
	if _, err := f.WriteAt([]byte("head"), 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Allocate(0, 3<<20); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 3<<20)
	if n, err := f.ReadAt(got, 0); n != len(got) || err != nil {
		t.Fatal(n, err)
	}
	if want := append([]byte("head"), make([]byte, 3<<20-4)...); !bytes.Equal(got, want) {
		t.Fatal("the content is not the old one followed by zeros")
	}
	if err := f.Allocate(0, 4096); err != nil {
		t.Fatal(err)
	}
	if size, _ := f.Size(); size != 3<<20 {
		t.Fatalf("allocating inside the file changed its size to %d", size)
	}
}

func TestOpenModesAreHonoured(t *testing.T) {
	fs, path := New(), filepath.Join(t.TempDir(), "a")
	_, err := fs.Open(path, aio.OpenWrite)
	asError(t, err, syscall.ENOENT)
	if !aio.IsNotExist(err) {
		t.Fatal("IsNotExist does not know the error")
	}
	mustOpen(t, path, aio.OpenWrite|aio.OpenCreate|aio.OpenExclusive)
	_, err = fs.Open(path, aio.OpenWrite|aio.OpenCreate|aio.OpenExclusive)
	asError(t, err, syscall.EEXIST)
	reader := mustOpen(t, path, 0)
	_, err = reader.WriteAt([]byte("x"), 4096)
	if e := asError(t, err, syscall.EBADF); e.Off != 4096 || e.What != path {
		t.Fatalf("the error does not say where: %v", e)
	}
}

func TestNamesAppearMoveAndGo(t *testing.T) {
	fs, dir := New(), t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	for range 2 {
		if err := fs.Mkdir(in("d")); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"b", "a", "d/x"} {
		if _, err := mustOpen(t, in(name), aio.OpenWrite|aio.OpenCreate).WriteAt([]byte(name), 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := fs.Mkdir(in("a")); err == nil {
		t.Fatal("a directory was made where a file is")
	}
	asError(t, fs.Remove(in("d")), syscall.ENOTEMPTY)
	if err := fs.Rename(in("b"), in("a")); err != nil {
		t.Fatal(err)
	}
	asError(t, fs.Rename(in("b"), in("c")), syscall.ENOENT)
	if err := fs.SyncDir(dir); err != nil {
		t.Fatal(err)
	}
	asError(t, fs.SyncDir(in("none")), syscall.ENOENT)
	got, err := fs.ReadDir(dir)
	want := []aio.DirEntry{{Name: "a", Size: 1}, {Name: "d", Dir: true}}
	if err != nil || len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Fatalf("want %v, got %v %v", want, got, err)
	}
	for range 2 {
		if err := fs.Remove(in("a")); err != nil {
			t.Fatal(err)
		}
		if err := fs.RemoveAll(in("d")); err != nil {
			t.Fatal(err)
		}
	}
	if got, err = fs.ReadDir(dir); err != nil || len(got) != 0 {
		t.Fatal(got, err)
	}
	_, err = fs.ReadDir(in("d"))
	asError(t, err, syscall.ENOENT)
}

func TestALockIsExclusiveAndEndsWithClose(t *testing.T) {
	fs, path := New(), filepath.Join(t.TempDir(), "lock")
	first, err := fs.Lock(path, "")
	if err != nil {
		t.Fatal(err)
	}
	_, err = fs.Lock(path, "")
	asError(t, err, aio.ErrLocked)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := fs.Lock(path, "")
	if err != nil {
		t.Fatalf("the lock outlived its holder: %v", err)
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = fs.Lock(filepath.Join(path, "below"), "")
	asError(t, err, syscall.ENOTDIR)
}

func TestStatDescribesOneFilesystemTheSameWayTwice(t *testing.T) {
	fs, dir := New(), t.TempDir()
	a, err := fs.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	b, err := fs.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	if a.Type == "" || a.TotalBytes <= 0 || a.FreeBytes < 0 || a.FreeBytes > a.TotalBytes || a.BootID == ([16]byte{}) {
		t.Fatalf("implausible: %+v", a)
	}
	a.FreeBytes, b.FreeBytes = 0, 0
	if a != b {
		t.Fatalf("%+v is not %+v", a, b)
	}
	_, err = fs.Stat(filepath.Join(dir, "none"))
	asError(t, err, syscall.ENOENT)
}

func TestStepsOfThePortRunOnTheMachinesFiles(t *testing.T) {
	fs, dir := New(), t.TempDir()
	deep := filepath.Join(dir, "x", "y")
	for _, op := range []*aio.FileOp{
		{Kind: aio.FileMkdirAll, Path: deep},
		{Kind: aio.FileWriteAtomic, Path: filepath.Join(deep, "f"), Data: []byte("one")},
		{Kind: aio.FileWriteAtomic, Path: filepath.Join(deep, "f"), Data: []byte("2")},
	} {
		if !aio.RunFileOp(fs, op) || op.Err != nil {
			t.Fatalf("%d: %v", op.Kind, op.Err)
		}
	}
	read := &aio.FileOp{Kind: aio.FileRead, Path: filepath.Join(deep, "f"), Len: 1}
	if aio.RunFileOp(fs, read); read.Err != nil || string(read.Data) != "2" {
		t.Fatalf("%q %v", read.Data, read.Err)
	}
	list := &aio.FileOp{Kind: aio.FileReadDir, Path: deep}
	if aio.RunFileOp(fs, list); list.Err != nil || len(list.Entries) != 1 {
		t.Fatalf("something is left beside the file: %v %v", list.Entries, list.Err)
	}
}
