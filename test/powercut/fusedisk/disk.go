package fusedisk

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
)

// SectorSize is the smallest unit in which a power cut tears writes, in bytes.
const SectorSize = 512

// ErrFlush is what a disk answers that was told to fail flushes.
var ErrFlush = errors.New("fusedisk: flush failed")

// ErrRange: a read or write that is not within the disk.
var ErrRange = errors.New("fusedisk: beyond the end of the disk")

// Disk is a disk with a volatile cache. It may be used by any goroutine.
type Disk struct {
	size   int64
	sector int64

	mu      sync.Mutex
	live    pages // what reads see
	durable pages // what no power cut takes
	pending []write
	lies    bool
	failing int // flushes that fail
	stats   Stats
}

// write is a write that no flush has covered.
type write struct {
	off  int64
	data []byte
}

// Stats counts what a disk was asked.
type Stats struct {
	Reads, Writes, Flushes int
	// Unflushed is the bytes written and not covered by a flush.
	Unflushed int64
}

// New makes a disk of zeros, size bytes, a multiple of 4096. Power cuts tear writes
// in units of sector bytes, [SectorSize] or a multiple that divides 4096.
func New(size, sector int64) *Disk {
	return &Disk{size: size, sector: sector, live: newPages(size), durable: newPages(size)}
}

// Size is the disk's size in bytes.
func (d *Disk) Size() int64 { return d.size }

// ReadAt reads len(b) bytes at off, what was written last whether it was flushed
// or not. The error is [ErrRange].
func (d *Disk) ReadAt(b []byte, off int64) error {
	if err := d.within(len(b), off); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stats.Reads++
	d.live.read(b, off)
	return nil
}

// WriteAt writes b at off; it is volatile until [Disk.Flush]. The error is
// [ErrRange].
func (d *Disk) WriteAt(b []byte, off int64) error {
	if err := d.within(len(b), off); err != nil {
		return err
	}
	w := write{off, append([]byte(nil), b...)}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stats.Writes++
	d.stats.Unflushed += int64(len(b))
	d.live.write(b, off)
	d.pending = append(d.pending, w)
	return nil
}

// Flush makes everything durable that was written before it began. A disk that
// lies does nothing. The error is [ErrFlush]: nothing has become durable.
func (d *Disk) Flush() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stats.Flushes++
	if d.failing > 0 {
		d.failing--
		d.drop()
		return ErrFlush
	}
	if d.lies {
		return nil
	}
	for _, w := range d.pending {
		d.durable.write(w.data, w.off)
	}
	d.drop()
	return nil
}

// drop empties the cache.
func (d *Disk) drop() {
	clear(d.pending)
	d.pending, d.stats.Unflushed = d.pending[:0], 0
}

// Lie says whether flushes are acknowledged without being done.
func (d *Disk) Lie(lies bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lies = lies
}

// FailFlushes makes the next n flushes fail. What they should have made durable is
// dropped from the cache: reads see it, and no later flush writes it, although that
// one reports success. Real disks do the same.
func (d *Disk) FailFlushes(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failing = n
}

// Stats counts what the disk was asked so far.
func (d *Disk) Stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stats
}

func (d *Disk) within(n int, off int64) error {
	if off < 0 || off > d.size || int64(n) > d.size-off {
		return fmt.Errorf("%w: %d bytes at %d of %d", ErrRange, n, off, d.size)
	}
	return nil
}

// Mode is what a power cut leaves of what was not flushed.
type Mode uint8

// The modes.
const (
	// None: nothing.
	None Mode = iota
	// Half: each sector of each write with probability 1/2, so that writes are
	// torn, and later ones are there without earlier ones.
	Half
	// Prefix: the writes up to a random one, in the order in which they came, and
	// that one torn.
	Prefix

	// Modes is how many there are.
	Modes
)

// String is the mode in words.
func (m Mode) String() string {
	switch m {
	case None:
		return "none"
	case Half:
		return "half"
	case Prefix:
		return "prefix"
	}
	return fmt.Sprintf("mode(%d)", uint8(m))
}

// Image is what a power cut leaves.
type Image struct {
	*Disk
	// Kept of Unflushed sectors have survived; the first page counts as one.
	Kept, Unflushed int
}

// Cut is the disk as it would be had the power failed now. rng chooses sectors.
// The disk itself is as it was.
func (d *Disk) Cut(m Mode, rng *rand.Rand) Image {
	d.mu.Lock()
	defer d.mu.Unlock()
	img := Image{Disk: &Disk{size: d.size, sector: d.sector, durable: d.durable.clone()}}
	for _, w := range d.pending {
		w.units(d.sector, func(int64, []byte) { img.Unflushed++ })
	}
	prefix := 0
	if m == Prefix {
		prefix = rng.IntN(img.Unflushed + 1)
	}
	n := 0
	for _, w := range d.pending {
		w.units(d.sector, func(off int64, unit []byte) {
			if m == Half && rng.IntN(2) == 0 || m == Prefix && n < prefix {
				img.durable.write(unit, off)
				img.Kept++
			}
			n++
		})
	}
	img.live = img.durable.clone()
	return img
}

// units yields what a power cut takes or leaves as a whole: sectors. The first page
// is one unit, because ext4 has its superblock there, which spans two sectors under
// one checksum, and does not survive a torn write of it.
func (w *write) units(sector int64, yield func(off int64, unit []byte)) {
	for at := int64(0); at < int64(len(w.data)); {
		end := at + sector - (w.off+at)%sector
		if w.off+at < pageSize {
			end = pageSize - w.off
		}
		end = min(end, int64(len(w.data)))
		yield(w.off+at, w.data[at:end])
		at = end
	}
}
