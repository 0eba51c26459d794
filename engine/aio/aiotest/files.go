package aiotest

import (
	"bytes"
	"fmt"
	"slices"
	"sync/atomic"
	"syscall"

	"github.com/mqd-broker/mqd/engine/aio"
)

var fileTests = []test{
	{"open modes", openModes},
	{"the table of files is bounded", fullTable},
	{"allocate extends with zeros", allocate},
	{"truncate cuts and extends with zeros", truncate},
	{"sync", func(r *rig) {
		d := r.open(small)
		f := r.newFile(d, "f", 4096)
		r.check(r.file(d, &aio.FileOp{Kind: aio.FileSync, File: f}))
		r.check(r.file(d, &aio.FileOp{Kind: aio.FileSyncDir, Path: r.env.Dir}))
		r.fails(r.file(d, &aio.FileOp{Kind: aio.FileSyncDir, Path: r.path("missing")}), syscall.ENOENT)
	}},
	{"rename replaces", renames},
	{"remove", removes},
	{"remove all", removesAll},
	{"mkdir all", mkdirAll},
	{"read dir is sorted", readsDir},
	{"read file has a limit", readsFile},
	{"write atomic replaces", writesAtomic},
	{"a lock is exclusive", locks},
	{"a lock of a directory outlives its file", locksOfDirectories},
	{"statfs", statFS},
	{"an operation can be used again after an error", func(r *rig) {
		d := r.open(small)
		op := aio.FileOp{Kind: aio.FileRead, Path: r.path("f"), Len: 100}
		r.fails(r.file(d, &op), syscall.ENOENT)
		r.writeFile(d, "f", []byte("text"))
		r.check(r.file(d, &op))
		if string(op.Data) != "text" {
			r.Fatalf("read %q", op.Data)
		}
	}},
	{"more file operations than helpers", func(r *rig) {
		const n = 50
		d := r.open(small)
		o, ops := owner{}, make([]aio.FileOp, n)
		for i := range ops {
			ops[i] = aio.FileOp{Kind: aio.FileWriteAtomic, Path: r.path(fmt.Sprint(i)), Data: []byte{byte(i)}, Owner: &o}
			d.SubmitFile(&ops[i])
		}
		if d.InFlight() != n {
			r.Fatalf("%d operations in flight, expected %d", d.InFlight(), n)
		}
		r.until("all completions", func() bool { return o.files == n })
		for i := range ops {
			r.check(ops[i].Err)
			if got := r.content(d, fmt.Sprint(i)); !bytes.Equal(got, []byte{byte(i)}) {
				r.Fatalf("file %d holds %v", i, got)
			}
		}
		if d.InFlight() != 0 {
			r.Fatalf("%d operations in flight at the end", d.InFlight())
		}
	}},
}

func openModes(r *rig) {
	d := r.open(small)
	open := func(name string, mode aio.OpenMode) (aio.FileOp, error) {
		op := aio.FileOp{Kind: aio.FileOpen, Path: r.path(name), Mode: mode}
		err := r.file(d, &op)
		return op, err
	}
	if _, err := open("f", 0); !aio.IsNotExist(err) {
		r.Fatalf("opening a missing file: %v", err)
	}
	_, err := open("f", aio.OpenWrite)
	r.fails(err, syscall.ENOENT)
	_, err = open("no/f", aio.OpenWrite|aio.OpenCreate)
	r.fails(err, syscall.ENOENT)
	first, err := open("f", aio.OpenWrite|aio.OpenCreate|aio.OpenExclusive)
	r.check(err)
	if first.Size != 0 || first.File == aio.NoFile {
		r.Fatalf("a new file: handle %d, size %d", first.File, first.Size)
	}
	_, err = open("f", aio.OpenWrite|aio.OpenCreate|aio.OpenExclusive)
	r.fails(err, syscall.EEXIST)
	r.check(r.do(d, &aio.Op{Kind: aio.KindWrite, File: first.File, Buf: r.memory(d, 777, 1)}))
	again, err := open("f", aio.OpenWrite|aio.OpenCreate)
	r.check(err)
	if again.Size != 777 || again.File == first.File {
		r.Fatalf("opened again: handle %d beside %d, size %d, expected 777", again.File, first.File, again.Size)
	}
	r.check(r.file(d, &aio.FileOp{Kind: aio.FileClose, File: first.File}))
	b := r.memory(d, 777, 2)
	r.check(r.do(d, &aio.Op{Kind: aio.KindWrite, File: again.File, Buf: b}))
	if !bytes.Equal(r.content(d, "f"), b) {
		r.Fatal("a handle does not work after another of the same file was closed")
	}
}

func fullTable(r *rig) {
	o := small
	o.Files = 4
	d := r.open(o)
	var files []aio.File
	for i := range 10 {
		op := aio.FileOp{Kind: aio.FileOpen, Path: r.path(fmt.Sprint(i)), Mode: aio.OpenWrite | aio.OpenCreate}
		if err := r.file(d, &op); err != nil {
			r.fails(err, syscall.EMFILE) // callers tell shortages from failures
			break
		}
		files = append(files, op.File)
	}
	if len(files) != 4 {
		r.Fatalf("a table of 4 took %d files", len(files))
	}
	r.check(r.file(d, &aio.FileOp{Kind: aio.FileClose, File: files[1]}))
	r.openFile(d, "again", aio.OpenWrite|aio.OpenCreate)
}

func allocate(r *rig) {
	d := r.open(small)
	f := r.openFile(d, "f", aio.OpenWrite|aio.OpenCreate)
	b := r.memory(d, 3000, 1)
	r.check(r.do(d, &aio.Op{Kind: aio.KindWrite, File: f, Buf: b}))
	want := append(slices.Clone(b), make([]byte, 100_000-3000)...)
	r.check(r.file(d, &aio.FileOp{Kind: aio.FileAllocate, File: f, Off: 2000, Len: 98_000}))
	if !bytes.Equal(r.content(d, "f"), want) {
		r.Fatal("allocated space is not zeros behind what was there")
	}
	r.check(r.file(d, &aio.FileOp{Kind: aio.FileAllocate, File: f, Off: 0, Len: 4096}))
	if !bytes.Equal(r.content(d, "f"), want) {
		r.Fatal("allocating what is there already changes the file")
	}
	op := aio.FileOp{Kind: aio.FileOpen, Path: r.path("f")}
	r.check(r.file(d, &op))
	if op.Size != 100_000 {
		r.Fatalf("the size is %d", op.Size)
	}
}

func truncate(r *rig) {
	d := r.open(small)
	f := r.openFile(d, "f", aio.OpenWrite|aio.OpenCreate)
	b := r.memory(d, 10_000, 1)
	r.check(r.do(d, &aio.Op{Kind: aio.KindWrite, File: f, Buf: b}))
	want := slices.Clone(b)
	for _, size := range []int{5000, 70_000, 70_000, 1, 0, 3} {
		r.check(r.file(d, &aio.FileOp{Kind: aio.FileTruncate, File: f, Len: int64(size)}))
		want = append(want[:min(size, len(want))], make([]byte, max(0, size-len(want)))...)
		if got := r.content(d, "f"); !bytes.Equal(got, want) {
			r.Fatalf("truncated to %d: %d bytes, or other ones than expected", size, len(got))
		}
	}
}

func renames(r *rig) {
	d := r.open(small)
	r.writeFile(d, "a", []byte("new"))
	r.writeFile(d, "b", []byte("old"))
	r.check(r.file(d, &aio.FileOp{Kind: aio.FileRename, Path: r.path("a"), Path2: r.path("b")}))
	if got := r.content(d, "b"); string(got) != "new" {
		r.Fatalf("the replaced file holds %q", got)
	}
	r.fails(r.file(d, &aio.FileOp{Kind: aio.FileRead, Path: r.path("a"), Len: 10}), syscall.ENOENT)
	r.fails(r.file(d, &aio.FileOp{Kind: aio.FileRename, Path: r.path("a"), Path2: r.path("c")}), syscall.ENOENT)
	r.check(r.file(d, &aio.FileOp{Kind: aio.FileMkdirAll, Path: r.path("dir/sub")}))
	r.check(r.file(d, &aio.FileOp{Kind: aio.FileRename, Path: r.path("b"), Path2: r.path("dir/sub/b")}))
	r.check(r.file(d, &aio.FileOp{Kind: aio.FileRename, Path: r.path("dir"), Path2: r.path("dir2")}))
	if got := r.content(d, "dir2/sub/b"); string(got) != "new" {
		r.Fatalf("the moved file holds %q", got)
	}
}

func removes(r *rig) {
	d := r.open(small)
	r.check(r.file(d, &aio.FileOp{Kind: aio.FileRemove, Path: r.path("missing")}))
	r.check(r.file(d, &aio.FileOp{Kind: aio.FileMkdirAll, Path: r.path("dir")}))
	r.writeFile(d, "dir/f", []byte("x"))
	r.fails(r.file(d, &aio.FileOp{Kind: aio.FileRemove, Path: r.path("dir")}), syscall.ENOTEMPTY)
	f := r.openFile(d, "dir/f", 0)
	r.check(r.file(d, &aio.FileOp{Kind: aio.FileRemove, Path: r.path("dir/f")}))
	b := r.memory(d, 1, 0)
	op := aio.Op{Kind: aio.KindRead, File: f, Buf: b}
	r.check(r.do(d, &op))
	if op.N != 1 || b[0] != 'x' {
		r.Fatal("an open file that was removed cannot be read")
	}
	r.check(r.file(d, &aio.FileOp{Kind: aio.FileRemove, Path: r.path("dir")}))
	r.fails(r.file(d, &aio.FileOp{Kind: aio.FileReadDir, Path: r.path("dir")}), syscall.ENOENT)
}

func removesAll(r *rig) {
	d := r.open(small)
	r.check(r.file(d, &aio.FileOp{Kind: aio.FileRemoveAll, Path: r.path("missing")}))
	r.check(r.file(d, &aio.FileOp{Kind: aio.FileMkdirAll, Path: r.path("dir/a/b")}))
	r.writeFile(d, "dir/a/f", []byte("x"))
	r.writeFile(d, "dir/f", []byte("x"))
	r.writeFile(d, "kept", []byte("x"))
	r.check(r.file(d, &aio.FileOp{Kind: aio.FileRemoveAll, Path: r.path("dir")}))
	op := aio.FileOp{Kind: aio.FileReadDir, Path: r.env.Dir}
	r.check(r.file(d, &op))
	if len(op.Entries) != 1 || op.Entries[0].Name != "kept" {
		r.Fatalf("left are %v", op.Entries)
	}
}

func mkdirAll(r *rig) {
	d := r.open(small)
	for range 2 {
		r.check(r.file(d, &aio.FileOp{Kind: aio.FileMkdirAll, Path: r.path("a/b/c")}))
		r.check(r.file(d, &aio.FileOp{Kind: aio.FileMkdirs, Path: r.path("a/x/y")}))
	}
	r.writeFile(d, "a/x/y/f", []byte("x"))
	r.writeFile(d, "a/b/c/f", []byte("x"))
	for _, kind := range []aio.FileKind{aio.FileMkdirAll, aio.FileMkdirs} {
		r.fails(r.file(d, &aio.FileOp{Kind: kind, Path: r.path("a/b/c/f/d")}), nil)
	}
}

func readsDir(r *rig) {
	d := r.open(small)
	for i, name := range []string{"b", "a10", "c", "a9", "B"} {
		r.writeFile(d, name, make([]byte, i*1000))
	}
	r.check(r.file(d, &aio.FileOp{Kind: aio.FileMkdirAll, Path: r.path("bb")}))
	op := aio.FileOp{Kind: aio.FileReadDir, Path: r.env.Dir}
	r.check(r.file(d, &op))
	got := slices.Clone(op.Entries)
	for i := range got {
		if got[i].Dir {
			got[i].Size = 0 // has no meaning
		}
	}
	want := []aio.DirEntry{{Name: "B", Size: 4000}, {Name: "a10", Size: 1000}, {Name: "a9", Size: 3000},
		{Name: "b"}, {Name: "bb", Dir: true}, {Name: "c", Size: 2000}}
	if !slices.Equal(got, want) {
		r.Fatalf("the directory lists\n%v, expected\n%v", got, want)
	}
	r.fails(r.file(d, &aio.FileOp{Kind: aio.FileReadDir, Path: r.path("c")}), syscall.ENOTDIR)
}

func readsFile(r *rig) {
	d := r.open(small)
	r.writeFile(d, "f", make([]byte, 5000))
	for _, limit := range []int64{5000, 5001} {
		op := aio.FileOp{Kind: aio.FileRead, Path: r.path("f"), Len: limit}
		r.check(r.file(d, &op))
		if len(op.Data) != 5000 {
			r.Fatalf("limit %d: read %d bytes", limit, len(op.Data))
		}
	}
	r.fails(r.file(d, &aio.FileOp{Kind: aio.FileRead, Path: r.path("f"), Len: 4999}), aio.ErrTooBig)
	r.fails(r.file(d, &aio.FileOp{Kind: aio.FileRead, Path: r.path("missing"), Len: 10}), syscall.ENOENT)
}

func writesAtomic(r *rig) {
	d := r.open(small)
	for _, size := range []int{10, 100_000, 3, 0} {
		data := make([]byte, size)
		fill(data, byte(size))
		r.writeFile(d, "f", data)
		if got := r.content(d, "f"); !bytes.Equal(got, data) {
			r.Fatalf("wrote %d bytes, read %d or other ones", size, len(got))
		}
	}
	op := aio.FileOp{Kind: aio.FileReadDir, Path: r.env.Dir}
	r.check(r.file(d, &op))
	if len(op.Entries) != 1 {
		r.Fatalf("left are %v", op.Entries)
	}
	r.fails(r.file(d, &aio.FileOp{Kind: aio.FileWriteAtomic, Path: r.path("no/f")}), syscall.ENOENT)

	var not atomic.Bool
	r.check(r.file(d, &aio.FileOp{Kind: aio.FileWriteAtomic, Path: r.path("f"), Data: []byte("in force"), Unless: &not}))
	not.Store(true)
	r.fails(r.file(d, &aio.FileOp{Kind: aio.FileWriteAtomic, Path: r.path("f"), Data: []byte("not wanted"), Unless: &not}), aio.ErrCanceled)
	if got := r.content(d, "f"); string(got) != "in force" {
		r.Fatalf("the file holds %q", got)
	}
}

func locks(r *rig) {
	d, other := r.open(small), r.open(small)
	first := aio.FileOp{Kind: aio.FileLock, Path: r.path("lock")}
	r.check(r.file(d, &first))
	for _, d := range []aio.Driver{d, other} {
		op := aio.FileOp{Kind: aio.FileLock, Path: r.path("lock")}
		r.fails(r.file(d, &op), aio.ErrLocked)
	}
	r.check(r.file(d, &aio.FileOp{Kind: aio.FileClose, File: first.File}))
	r.check(r.file(other, &aio.FileOp{Kind: aio.FileLock, Path: r.path("lock")}))
}

// locksOfDirectories removes a lock file, as people do who take it for one that a crash
// has left: the directory is locked beside it.
func locksOfDirectories(r *rig) {
	d, other := r.open(small), r.open(small)
	r.check(r.file(d, &aio.FileOp{Kind: aio.FileMkdirs, Path: r.path("dir")}))
	path := r.path("dir/lock")
	first := aio.FileOp{Kind: aio.FileLock, Path: path, Path2: r.path("dir")}
	r.check(r.file(d, &first))
	r.check(r.file(d, &aio.FileOp{Kind: aio.FileRemove, Path: path}))
	for range 2 {
		op := aio.FileOp{Kind: aio.FileLock, Path: path, Path2: r.path("dir")}
		r.fails(r.file(other, &op), aio.ErrLocked)
	}
	// Whoever was refused holds nothing, not even the new file.
	fresh := aio.FileOp{Kind: aio.FileLock, Path: path}
	r.check(r.file(other, &fresh))
	r.check(r.file(other, &aio.FileOp{Kind: aio.FileClose, File: fresh.File}))
	r.check(r.file(d, &aio.FileOp{Kind: aio.FileClose, File: first.File}))
	r.check(r.file(other, &aio.FileOp{Kind: aio.FileLock, Path: path, Path2: r.path("dir")}))
}

func statFS(r *rig) {
	d := r.open(small)
	r.writeFile(d, "f", []byte("x"))
	dir, f := aio.FileOp{Kind: aio.FileStatFS, Path: r.env.Dir}, aio.FileOp{Kind: aio.FileStatFS, Path: r.path("f")}
	r.check(r.file(d, &dir))
	r.check(r.file(d, &f))
	if s := dir.FS; s.TotalBytes <= 0 || s.FreeBytes <= 0 || s.FreeBytes > s.TotalBytes || s.Type == "" {
		r.Fatalf("the filesystem is %+v", s)
	}
	if dir.FS.Device != f.FS.Device || dir.FS.Mount != f.FS.Mount || dir.FS.BootID != f.FS.BootID {
		r.Fatalf("a file and its directory stand on different devices: %+v, %+v", f.FS, dir.FS)
	}
	r.fails(r.file(d, &aio.FileOp{Kind: aio.FileStatFS, Path: r.path("missing")}), syscall.ENOENT)
}
