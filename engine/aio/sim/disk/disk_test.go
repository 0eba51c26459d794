package disk_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"path"
	"syscall"
	"testing"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim/disk"
)

// dice is a Chooser from a seed.
type dice struct{ *rand.Rand }

func (d dice) Below(n int64) int64 { return d.Int64N(max(n, 1)) }

func roll(seed uint64) dice { return dice{rand.New(rand.NewPCG(seed, 1))} }

const sector = 512

// fixture is a tree with helpers that end the test on errors.
type fixture struct {
	*testing.T
	*disk.Tree
	dice dice
}

func newTree(t *testing.T, seed uint64) fixture {
	d := roll(seed)
	return fixture{t, disk.NewTree(1<<30, d, new(disk.Pages)), d}
}

func (x fixture) check(err error) {
	x.Helper()
	if err != nil {
		x.Fatal(err)
	}
}

func (x fixture) create(p string) *disk.Inode {
	x.Helper()
	n, err := x.Open(p, aio.OpenWrite|aio.OpenCreate)
	x.check(err)
	return n
}

// durable creates a file with content that is durable, as its name is.
func (x fixture) durable(p string, content []byte) *disk.Inode {
	x.Helper()
	n := x.create(p)
	x.write(n, content, 0, disk.Cached)
	n.Flush(n.Mark())
	x.check(x.SyncDir(path.Dir(p)))
	return n
}

func (x fixture) write(n *disk.Inode, b []byte, off int64, how disk.Durability) {
	x.Helper()
	if !n.Write(b, off, how) {
		x.Fatal("the disk is full")
	}
}

// content reads the file at p; nil when it does not exist.
func (x fixture) content(p string) []byte {
	x.Helper()
	n, err := x.Lookup(p)
	if errors.Is(err, syscall.ENOENT) {
		return nil
	}
	x.check(err)
	b := make([]byte, n.Size())
	got, err := n.ReadAt(b, 0)
	x.check(err)
	return b[:got]
}

func (x fixture) holds(p string, want []byte) {
	x.Helper()
	if got := x.content(p); !bytes.Equal(got, want) {
		x.Fatalf("%s holds %d bytes (%.20q ...), expected %d (%.20q ...)", p, len(got), got, len(want), want)
	}
}

func fill(v byte, n int) []byte { return bytes.Repeat([]byte{v}, n) }

func TestCachedWriteIsSeenAtOnceAndLostByACut(t *testing.T) {
	x := newTree(t, 1)
	n := x.durable("/f", fill(1, 4096))
	x.write(n, fill(2, 4096), 0, disk.Cached)
	x.holds("/f", fill(2, 4096))
	if x.Unflushed() != 4096 {
		t.Fatalf("%d bytes are not flushed", x.Unflushed())
	}
	x.PowerCut(disk.KeepNone)
	x.holds("/f", fill(1, 4096))
}

func TestCutThatKeepsAllKeepsAll(t *testing.T) {
	x := newTree(t, 1)
	n := x.create("/f")
	x.write(n, fill(2, 5000), 100, disk.Cached)
	other := x.create("/g")
	if !other.Resize(7000) {
		t.Fatal("the disk is full")
	}
	x.PowerCut(disk.KeepAll)
	x.holds("/f", append(make([]byte, 100), fill(2, 5000)...))
	x.holds("/g", make([]byte, 7000))
}

func TestFlushCoversTheWholeDeviceButSizesOfItsFileOnly(t *testing.T) {
	x := newTree(t, 1)
	x.check(x.Mount("/other", 1<<30))
	a, b, c := x.durable("/a", fill(1, 4096)), x.durable("/b", fill(1, 4096)), x.durable("/other/c", fill(1, 4096))
	for _, n := range []*disk.Inode{a, b, c} {
		x.write(n, fill(2, 8192), 0, disk.Cached)
	}
	a.Flush(a.Mark())
	x.PowerCut(disk.KeepNone)
	x.holds("/a", fill(2, 8192))
	x.holds("/b", fill(2, 4096)) // its data is durable, its new size is not
	x.holds("/other/c", fill(1, 4096))
}

func TestFlushCoversNothingAfterItsMark(t *testing.T) {
	x := newTree(t, 1)
	n := x.durable("/f", fill(1, 8192))
	x.write(n, fill(2, 4096), 0, disk.Cached)
	mark := n.Mark()
	x.write(n, fill(3, 4096), 4096, disk.Cached)
	x.write(n, fill(3, 100), 8192, disk.Cached)
	n.Flush(mark)
	x.PowerCut(disk.KeepNone)
	x.holds("/f", append(fill(2, 4096), fill(1, 4096)...))
}

func TestDurableWriteFlushesNoEarlierWrite(t *testing.T) {
	x := newTree(t, 1)
	n := x.durable("/f", fill(1, 8192))
	x.write(n, fill(2, 4096), 0, disk.Cached)
	x.write(n, fill(3, 4096), 4096, disk.Durable)
	x.PowerCut(disk.KeepNone)
	x.holds("/f", append(fill(1, 4096), fill(3, 4096)...))
}

func TestDurableWriteMakesTheSizeDurableThatItNeeds(t *testing.T) {
	x := newTree(t, 1)
	n := x.durable("/f", nil)
	x.write(n, fill(3, 4096), 4096, disk.Durable)
	x.PowerCut(disk.KeepNone)
	x.holds("/f", append(make([]byte, 4096), fill(3, 4096)...))
}

func TestDurableBytesNeverFallBack(t *testing.T) {
	for seed := range uint64(100) {
		x := newTree(t, seed)
		n := x.durable("/f", fill(1, 4096))
		x.write(n, fill(2, 4096), 0, disk.Cached)
		x.write(n, fill(3, 2048), 1024, disk.Durable)
		x.PowerCut(disk.Keep(seed % 4))
		if got := x.content("/f"); !bytes.Equal(got[1024:3072], fill(3, 2048)) {
			t.Fatalf("seed %d: durable bytes fell back to %d", seed, got[1024])
		}
	}
}

func TestTornWriteIsWholeSectors(t *testing.T) {
	torn := 0
	for seed := range uint64(100) {
		x := newTree(t, seed)
		n := x.durable("/f", fill(1, 8192))
		x.write(n, fill(2, 8192), 0, disk.Cached)
		x.PowerCut(disk.KeepRandom)
		got, kept := x.content("/f"), 0
		for at := 0; at < len(got); at += sector {
			if !bytes.Equal(got[at:at+sector], fill(got[at], sector)) {
				t.Fatalf("seed %d: a sector of two halves", seed)
			}
			kept += int(got[at] - 1)
		}
		if kept > 0 && kept < len(got)/sector {
			torn++
		}
	}
	if torn < 50 {
		t.Fatalf("%d of 100 random cuts tore a write of 16 sectors", torn)
	}
}

func TestPrefixCutKeepsTheOldestWrites(t *testing.T) {
	partial := 0
	for seed := range uint64(100) {
		x := newTree(t, seed)
		n := x.durable("/f", make([]byte, 10*4096))
		for i := range 10 {
			x.write(n, fill(1, 4096), int64(9-i)*4096, disk.Cached) // from the back to the front
		}
		x.PowerCut(disk.KeepPrefix)
		got := x.content("/f")
		lost := false
		for i := range 10 {
			kept := bytes.Count(got[(9-i)*4096:(10-i)*4096], fill(1, sector))
			if kept > 0 && lost {
				t.Fatalf("seed %d: write %d is kept behind a lost one", seed, i)
			}
			if kept > 0 && kept < 8 {
				partial++
			}
			lost = lost || kept < 8
		}
	}
	if partial == 0 {
		t.Fatal("no prefix ended inside a write")
	}
}

func TestSizeIsDurableAfterItsOwnFlushOnly(t *testing.T) {
	for _, c := range []struct {
		name string
		size int64
		kept []byte
	}{{"grow", 9000, append(fill(1, 4096), make([]byte, 9000-4096)...)}, {"cut", 100, fill(1, 100)}} {
		t.Run(c.name, func(t *testing.T) {
			for _, flush := range []bool{false, true} {
				x := newTree(t, 1)
				n, other := x.durable("/f", fill(1, 4096)), x.durable("/g", nil)
				n.Resize(c.size)
				x.holds("/f", c.kept)
				other.Flush(other.Mark())
				want := fill(1, 4096)
				if flush {
					n.Flush(n.Mark())
					want = c.kept
				}
				x.PowerCut(disk.KeepNone)
				x.holds("/f", want)
			}
		})
	}
}

func TestWhatFollowsACutOfAFileReadsZeros(t *testing.T) {
	x := newTree(t, 1)
	n := x.durable("/f", fill(1, 8192))
	n.Resize(4096)
	x.write(n, fill(2, 100), 6000, disk.Cached)
	want := append(append(fill(1, 4096), make([]byte, 6000-4096)...), fill(2, 100)...)
	x.holds("/f", want)
	n.Flush(n.Mark())
	x.PowerCut(disk.KeepNone)
	x.holds("/f", want)
}

func TestDurableWriteBehindATruncationMakesBothDurable(t *testing.T) {
	x := newTree(t, 1)
	n := x.durable("/f", fill(1, 8192))
	n.Resize(0)
	x.write(n, fill(2, 512), 4096, disk.Durable)
	x.write(n, fill(3, 512), 4096, disk.Durable)
	x.PowerCut(disk.KeepNone)
	x.holds("/f", append(make([]byte, 4096), fill(3, 512)...))
}

func TestFailedFlushLosesForGoodWhatTheNextOneDoesNotBringBack(t *testing.T) {
	lost := 0
	for seed := range uint64(50) {
		x := newTree(t, seed)
		n := x.durable("/f", fill(1, 40960))
		for i := range int64(10) {
			x.write(n, fill(2, 4096), i*4096, disk.Cached)
		}
		n.FailFlush(n.Mark(), x.dice)
		x.holds("/f", fill(2, 40960))
		n.Flush(n.Mark())
		x.Restart() // the death of the process changes nothing
		x.holds("/f", fill(2, 40960))
		x.PowerCut(disk.KeepAll)
		lost += bytes.Count(x.content("/f"), fill(1, 4096))
	}
	if lost < 100 || lost > 400 {
		t.Fatalf("%d of 500 writes were lost by a failed flush", lost)
	}
}

func TestFullDiskRefusesToGrowAndTakesOverwrites(t *testing.T) {
	x := newTree(t, 1)
	n := x.durable("/f", fill(1, 8192))
	n.SetCapacity(12288)
	if n.Write(fill(2, 8192), 8192, disk.Cached) || n.Resize(20000) {
		t.Fatal("a full disk let a file grow")
	}
	x.holds("/f", fill(1, 8192))
	x.write(n, fill(2, 8192), 0, disk.Cached)
	x.write(n, fill(3, 4096), 8192, disk.Cached)
	if _, total, free := n.Space(); total != 12288 || free != 0 {
		t.Fatalf("%d of %d bytes are free", free, total)
	}
	x.check(x.Remove("/f"))
	if _, _, free := n.Space(); free != 0 {
		t.Fatalf("%d bytes are free while a removed file is open", free)
	}
	x.Close(n)
	if _, _, free := n.Space(); free != 12288 {
		t.Fatalf("%d bytes are free on an empty disk", free)
	}
	x.PowerCut(disk.KeepNone)
	if _, _, free := n.Space(); free != 4096 {
		t.Fatalf("%d bytes are free after the removal was lost", free)
	}
}

func TestBadSectorsFailReadsUntilTheyAreWritten(t *testing.T) {
	x := newTree(t, 1)
	n := x.durable("/f", fill(1, 8192))
	n.Spoil(1000, 100) // the sectors of [512, 1536)
	b := make([]byte, 512)
	for off, bad := range map[int64]bool{0: false, 512: true, 1024: true, 1536: false} {
		if _, err := n.ReadAt(b, off); errors.Is(err, syscall.EIO) != bad {
			t.Fatalf("reading at %d: %v", off, err)
		}
	}
	x.write(n, fill(2, 512), 512, disk.Cached)
	if _, err := n.ReadAt(b, 512); err != nil {
		t.Fatalf("reading a sector that was written again: %v", err)
	}
	if _, err := n.ReadAt(b, 1024); !errors.Is(err, syscall.EIO) {
		t.Fatalf("reading the other bad sector: %v", err)
	}
}

func TestFlippedBitsStayThroughFlushAndCut(t *testing.T) {
	x := newTree(t, 1)
	n := x.durable("/f", fill(1, 4096))
	x.write(n, make([]byte, 512), 512, disk.Cached)
	n.Flip(0, 0x80)
	n.Flip(600, 0x01)
	want := fill(1, 4096)
	copy(want[512:], make([]byte, 512))
	want[0], want[600] = 0x81, 1
	x.holds("/f", want)
	n.Flush(n.Mark())
	x.PowerCut(disk.KeepNone)
	x.holds("/f", want)
}

func TestFlushCoversTruncationsUpToItsMarkOnly(t *testing.T) {
	x := newTree(t, 1)
	n := x.durable("/f", fill(1, 8192))
	n.Resize(6000)
	mark := n.Mark()
	n.Resize(2000)
	x.write(n, fill(2, 1000), 2000, disk.Cached)
	n.Flush(mark)
	x.PowerCut(disk.KeepNone)
	x.holds("/f", fill(1, 6000))
	n.Resize(100)
	n.Flush(n.Mark())
	x.PowerCut(disk.KeepNone)
	x.holds("/f", fill(1, 100))
}
