package fusedisk

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
)

const (
	testSize = 2 << 20
	// first is where the sectors begin that are torn apart.
	first = pageSize
)

func fill(b byte, n int) []byte { return bytes.Repeat([]byte{b}, n) }

func testRand() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

// mustWrite writes n bytes of value b.
func mustWrite(t *testing.T, d *Disk, b byte, n int, off int64) {
	t.Helper()
	if err := d.WriteAt(fill(b, n), off); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, d *Disk, n int, off int64) []byte {
	t.Helper()
	b := make([]byte, n)
	if err := d.ReadAt(b, off); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestReadsSeeWhatIsNotFlushed(t *testing.T) {
	d := New(testSize, SectorSize)
	mustWrite(t, d, 1, 10000, 3000)
	if got := read(t, d, 10002, 2999); got[0] != 0 || got[10001] != 0 || !bytes.Equal(got[1:10001], fill(1, 10000)) {
		t.Fatal("a read across pages does not see what was written")
	}
}

func TestACutTakesWhatWasNotFlushed(t *testing.T) {
	d := New(testSize, SectorSize)
	mustWrite(t, d, 1, 4096, first)
	if err := d.Flush(); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, d, 2, 1024, first)
	img := d.Cut(None, testRand())
	if !bytes.Equal(read(t, img.Disk, 4096, first), fill(1, 4096)) {
		t.Fatal("the image is not what was flushed")
	}
	if img.Kept != 0 || img.Unflushed != 2 {
		t.Fatalf("kept %d of %d sectors, expected 0 of 2", img.Kept, img.Unflushed)
	}
	if read(t, d, 1, first)[0] != 2 {
		t.Fatal("the cut has changed the disk")
	}
}

func TestImagesAndDiskGoOnApart(t *testing.T) {
	d := New(testSize, SectorSize)
	mustWrite(t, d, 1, 8192, 0)
	if err := d.Flush(); err != nil {
		t.Fatal(err)
	}
	a, b := d.Cut(None, testRand()), d.Cut(None, testRand())
	for i, other := range []*Disk{d, a.Disk, b.Disk} {
		mustWrite(t, other, byte(10+i), 100, 50)
		if err := other.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	for i, other := range []*Disk{d, a.Disk, b.Disk} {
		img := other.Cut(None, testRand())
		if got := read(t, img.Disk, 1, 60)[0]; got != byte(10+i) {
			t.Fatalf("disk %d has the bytes of another: %d", i, got)
		}
		if got := read(t, img.Disk, 1, 150)[0]; got != 1 {
			t.Fatalf("disk %d has lost what lay beside the write: %d", i, got)
		}
	}
}

func TestAPrefixHasNoWriteWithoutTheOnesBefore(t *testing.T) {
	const writes = 64
	rng := testRand()
	torn, lengths := false, map[int]bool{}
	for range 200 {
		d := New(testSize, SectorSize)
		for i := range writes {
			mustWrite(t, d, byte(i+1), 1024, first+int64(i)*1024)
		}
		img := d.Cut(Prefix, rng)
		got, n := read(t, img.Disk, writes*1024, first), 0
		for at := 0; at < len(got) && got[at] != 0; at += SectorSize {
			n++
		}
		if n != img.Kept || !bytes.Equal(got[n*SectorSize:], make([]byte, len(got)-n*SectorSize)) {
			t.Fatalf("%d sectors from the first, %d kept, and others behind them", n, img.Kept)
		}
		torn = torn || n%2 == 1
		lengths[n] = true
	}
	if !torn || len(lengths) < 50 {
		t.Fatalf("torn %v, %d lengths of 129", torn, len(lengths))
	}
}

func TestHalfTearsAndReorders(t *testing.T) {
	d := New(testSize, SectorSize)
	for i := range 1000 {
		mustWrite(t, d, byte(i%250+1), 1024, first+int64(i)*1024)
	}
	img := d.Cut(Half, testRand())
	torn, late := 0, 0
	for i := range 1000 {
		first, second := read(t, img.Disk, 1, first+int64(i)*1024)[0], read(t, img.Disk, 1, first+int64(i)*1024+512)[0]
		if (first == 0) != (second == 0) {
			torn++
		}
		if i > 900 && first != 0 {
			late++
		}
	}
	if torn < 300 || late == 0 || img.Kept < 800 || img.Kept > 1200 {
		t.Fatalf("%d torn writes, %d late ones, %d sectors of 2000", torn, late, img.Kept)
	}
}

func TestTheOlderOfTwoWritesCanSurvive(t *testing.T) {
	d := New(testSize, SectorSize)
	mustWrite(t, d, 1, 512*200, first)
	mustWrite(t, d, 2, 512*200, first)
	img := d.Cut(Half, testRand())
	found := map[byte]int{}
	for i := range int64(200) {
		found[read(t, img.Disk, 1, first+i*512)[0]]++
	}
	if found[0] == 0 || found[1] == 0 || found[2] == 0 {
		t.Fatalf("sectors by content: %v", found)
	}
}

func TestTheFirstPageIsNotTorn(t *testing.T) {
	rng, kept := testRand(), 0
	for m := range Modes {
		for range 50 {
			d := New(testSize, SectorSize)
			mustWrite(t, d, 1, 2*pageSize, 1024)
			img := d.Cut(m, rng)
			if got := read(t, img.Disk, pageSize-1024, 1024); !bytes.Equal(got, fill(got[0], len(got))) {
				t.Fatalf("a cut that leaves %v has torn it", m)
			} else if got[0] == 1 {
				kept++
			}
		}
	}
	if kept == 0 || kept == 100 {
		t.Fatalf("%d of 150 cuts have left it", kept)
	}
}

func TestLargeSectorsAreNotTorn(t *testing.T) {
	d := New(testSize, pageSize)
	mustWrite(t, d, 1, testSize-first, first)
	img := d.Cut(Half, testRand())
	kept := 0
	for off := int64(first); off < testSize; off += pageSize {
		got := read(t, img.Disk, pageSize, off)
		if !bytes.Equal(got, fill(got[0], pageSize)) {
			t.Fatalf("the sector at %d is torn", off)
		}
		kept += int(got[0])
	}
	if kept != img.Kept || kept < 200 || kept > 312 {
		t.Fatalf("%d sectors of 511, %d kept", kept, img.Kept)
	}
}

func TestALyingDiskKeepsNothing(t *testing.T) {
	d := New(testSize, SectorSize)
	d.Lie(true)
	mustWrite(t, d, 1, 512, 0)
	if err := d.Flush(); err != nil {
		t.Fatal(err)
	}
	if img := d.Cut(None, testRand()); read(t, img.Disk, 1, 0)[0] != 0 {
		t.Fatal("a flush that was a lie has made something durable")
	}
	d.Lie(false)
	if err := d.Flush(); err != nil {
		t.Fatal(err)
	}
	if img := d.Cut(None, testRand()); read(t, img.Disk, 1, 0)[0] != 1 {
		t.Fatal("an honest flush has not")
	}
}

func TestAFailedFlushDropsWhatALaterOneReports(t *testing.T) {
	d := New(testSize, SectorSize)
	d.FailFlushes(1)
	mustWrite(t, d, 1, 512, 0)
	if err := d.Flush(); !errors.Is(err, ErrFlush) {
		t.Fatalf("error %v, expected ErrFlush", err)
	}
	mustWrite(t, d, 2, 512, 512)
	if err := d.Flush(); err != nil {
		t.Fatal(err)
	}
	if got := read(t, d, 1, 0)[0]; got != 1 {
		t.Fatalf("the cache reads %d, expected what was written", got)
	}
	img := d.Cut(None, testRand())
	if got := read(t, img.Disk, 1024, 0); got[0] != 0 || got[512] != 2 {
		t.Fatalf("durable are %d and %d, expected 0 and 2", got[0], got[512])
	}
}

func TestNothingIsBeyondTheEnd(t *testing.T) {
	d := New(testSize, SectorSize)
	for _, off := range []int64{-1, testSize - 1, testSize, 1 << 62} {
		if err := d.WriteAt(fill(1, 2), off); !errors.Is(err, ErrRange) {
			t.Errorf("write at %d: %v, expected ErrRange", off, err)
		}
		if err := d.ReadAt(fill(1, 2), off); !errors.Is(err, ErrRange) {
			t.Errorf("read at %d: %v, expected ErrRange", off, err)
		}
	}
}
