package disk_test

import (
	"errors"
	"slices"
	"syscall"
	"testing"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim/disk"
)

func TestNameIsDurableAfterSyncDirOnly(t *testing.T) {
	x := newTree(t, 1)
	n := x.create("/f")
	x.write(n, fill(1, 100), 0, disk.Cached)
	n.Flush(n.Mark())
	x.PowerCut(disk.KeepNone)
	if x.content("/f") != nil {
		t.Fatal("a synced file without a synced name survived")
	}
	n = x.create("/f")
	x.write(n, fill(1, 100), 0, disk.Cached)
	n.Flush(n.Mark())
	x.check(x.SyncDir("/"))
	x.PowerCut(disk.KeepNone)
	x.holds("/f", fill(1, 100))
}

func TestRenameWithoutSyncDirIsTakenBack(t *testing.T) {
	x := newTree(t, 1)
	x.durable("/new", []byte("new"))
	x.durable("/f", []byte("old"))
	x.check(x.Rename("/new", "/f"))
	x.holds("/f", []byte("new"))
	x.PowerCut(disk.KeepNone)
	x.holds("/f", []byte("old"))
	x.holds("/new", []byte("new"))
	x.check(x.Rename("/new", "/f"))
	x.check(x.SyncDir("/"))
	x.PowerCut(disk.KeepNone)
	x.holds("/f", []byte("new"))
	if x.content("/new") != nil {
		t.Fatal("a renamed file has its old name")
	}
}

func TestRemovalWithoutSyncDirIsTakenBack(t *testing.T) {
	x := newTree(t, 1)
	x.durable("/f", []byte("text"))
	x.check(x.Remove("/f"))
	x.PowerCut(disk.KeepNone)
	x.holds("/f", []byte("text"))
	x.check(x.Remove("/f"))
	x.check(x.SyncDir("/"))
	x.PowerCut(disk.KeepNone)
	if x.content("/f") != nil {
		t.Fatal("a removed file is back")
	}
}

func TestDirectoryThatIsNotSyncedTakesItsFilesAlong(t *testing.T) {
	x := newTree(t, 1)
	x.check(x.Mkdir("/d"))
	x.durable("/d/f", []byte("text"))
	x.PowerCut(disk.KeepNone)
	if _, err := x.Lookup("/d"); !errors.Is(err, syscall.ENOENT) {
		t.Fatalf("looking up a lost directory: %v", err)
	}
	x.check(x.Mkdir("/d"))
	x.durable("/d/f", []byte("text"))
	x.check(x.SyncDir("/"))
	x.PowerCut(disk.KeepNone)
	x.holds("/d/f", []byte("text"))
}

func TestRenameAcrossDirectoriesIsOneStep(t *testing.T) {
	outcomes := map[string]int{}
	for seed := range uint64(60) {
		x := newTree(t, seed)
		for _, d := range []string{"/a", "/b"} {
			x.check(x.Mkdir(d))
		}
		x.check(x.SyncDir("/"))
		x.durable("/a/f", []byte("text"))
		x.check(x.Rename("/a/f", "/b/f"))
		if seed%3 == 0 {
			x.check(x.SyncDir("/b"))
		}
		x.PowerCut(disk.KeepRandom)
		a, b := x.content("/a/f") != nil, x.content("/b/f") != nil
		switch {
		case a == b:
			t.Fatalf("seed %d: old name %v, new name %v", seed, a, b)
		case seed%3 == 0 && a:
			t.Fatalf("seed %d: a synced rename was taken back", seed)
		case a:
			outcomes["old"]++
		default:
			outcomes["new"]++
		}
	}
	if outcomes["old"] == 0 || outcomes["new"] < 21 {
		t.Fatalf("random cuts leave %v", outcomes)
	}
}

func TestPrefixCutKeepsTheOldestNames(t *testing.T) {
	lengths := map[int]bool{}
	for seed := range uint64(60) {
		x := newTree(t, seed)
		names := []string{"/e", "/d", "/c", "/b", "/a"}
		for _, p := range names {
			x.create(p)
		}
		x.PowerCut(disk.KeepPrefix)
		kept := 0
		for i, p := range names {
			if x.content(p) != nil {
				if kept != i {
					t.Fatalf("seed %d: %s is kept behind a lost name", seed, p)
				}
				kept++
			}
		}
		lengths[kept] = true
	}
	if len(lengths) != 6 {
		t.Fatalf("prefixes of 5 names had the lengths %v", lengths)
	}
}

func TestNamesFollowTheRulesOfAFilesystem(t *testing.T) {
	x := newTree(t, 1)
	x.check(x.Mkdir("/d"))
	x.check(x.Mkdir("/d"))
	x.check(x.Mkdir("/e"))
	x.durable("/d/f", nil)
	x.check(x.Mount("/m", 1<<20))
	open := func(p string, mode aio.OpenMode) error { _, err := x.Open(p, mode); return err }
	for _, c := range []struct {
		what      string
		got, want error
	}{
		{"open a directory", open("/d", 0), syscall.EISDIR},
		{"open a missing file", open("/g", aio.OpenWrite), syscall.ENOENT},
		{"create below a file", open("/d/f/g", aio.OpenCreate), syscall.ENOTDIR},
		{"create what is there", open("/d/f", aio.OpenCreate|aio.OpenExclusive), syscall.EEXIST},
		{"mkdir over a file", x.Mkdir("/d/f"), syscall.EEXIST},
		{"mkdir below nothing", x.Mkdir("/x/y"), syscall.ENOENT},
		{"remove a full directory", x.Remove("/d"), syscall.ENOTEMPTY},
		{"remove a mount", x.Remove("/m"), syscall.EBUSY},
		{"remove nothing", x.Remove("/x/y"), nil},
		{"rename nothing", x.Rename("/x", "/y"), syscall.ENOENT},
		{"rename to another disk", x.Rename("/d/f", "/m/f"), syscall.EXDEV},
		{"rename a file over a directory", x.Rename("/d/f", "/e"), syscall.EISDIR},
		{"rename a directory over a file", x.Rename("/e", "/d/f"), syscall.ENOTDIR},
		{"rename over a full directory", x.Rename("/e", "/d"), syscall.ENOTEMPTY},
		{"rename a directory into itself", x.Rename("/d", "/d/e"), syscall.EINVAL},
		{"rename to the same name", x.Rename("/d/f", "/d/f"), nil},
		{"sync a file as a directory", x.SyncDir("/d/f"), syscall.ENOTDIR},
		{"mount over something", x.Mount("/d", 1), syscall.EEXIST},
		{"rename over an empty directory", x.Rename("/d", "/e"), nil},
		{"the file under the moved parent", open("/e/f", 0), nil},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v, expected %v", c.what, c.got, c.want)
		}
	}
	list, err := x.ReadDir("/")
	x.check(err)
	names := []string{}
	for _, e := range list {
		names = append(names, e.Name)
	}
	if !slices.Equal(names, []string{"e", "m"}) {
		t.Fatalf("the root holds %v", names)
	}
}

func TestOpenFileThatWasRemovedLives(t *testing.T) {
	x := newTree(t, 1)
	n := x.durable("/f", []byte("text"))
	x.check(x.Remove("/f"))
	b := make([]byte, 4)
	if got, err := n.ReadAt(b, 0); got != 4 || err != nil || string(b) != "text" {
		t.Fatalf("read %q, %v", b[:got], err)
	}
}

func TestLockEndsWithTheProcess(t *testing.T) {
	x := newTree(t, 1)
	n := x.durable("/f", nil)
	if !n.TryLock() || n.TryLock() {
		t.Fatal("a lock is not exclusive")
	}
	x.Restart()
	if !n.TryLock() {
		t.Fatal("a lock outlived its process")
	}
}
