package sim

import (
	"syscall"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim/disk"
)

// Effect says what a fault does.
type Effect uint8

const (
	// Fail ends the operation with Err. A write that fails with EIO may leave
	// any part of its sectors changed. A flush that fails loses for good a
	// part of what it should have made durable, while reads still show it, so
	// that the next flush succeeds and proves nothing.
	Fail Effect = iota
	// Shorten ends a write after Bytes bytes. The driver goes on with the
	// rest, or fails with ErrShort when Bytes is 0.
	Shorten
	// Lie lets a flush, or a write with FlagDSYNC, succeed that makes nothing
	// durable.
	Lie
	// Misdirect lets a write land Bytes bytes further on than it should.
	Misdirect
)

// Fault is a rule: which operations it hits and how.
type Fault struct {
	Filter
	// Skip is the number of matching operations that it lets pass first.
	Skip int
	// Times is how many it hits after that. 0 means one, Always all.
	Times  int
	Effect Effect
	Err    syscall.Errno // Fail; 0 means EIO
	Bytes  int64         // Shorten, Misdirect
}

// Always is a Times that does not end.
const Always = -1

// Injection is a fault at work.
type Injection struct {
	w     *World
	rule  Fault
	seen  int
	hits  int
	ended bool
}

// Inject puts a fault to work. The first of several that match wins.
func (w *World) Inject(f Fault) *Injection {
	w.mu.Lock()
	defer w.mu.Unlock()
	if f.Times == 0 {
		f.Times = 1
	}
	if f.Err == 0 {
		f.Err = syscall.EIO
	}
	i := &Injection{w: w, rule: f}
	w.faults = append(w.faults, i)
	return i
}

// Hits is how often the fault has struck.
func (i *Injection) Hits() int {
	i.w.mu.Lock()
	defer i.w.mu.Unlock()
	return i.hits
}

// Seen is the number of operations that matched, those that passed included.
func (i *Injection) Seen() int {
	i.w.mu.Lock()
	defer i.w.mu.Unlock()
	return i.seen
}

// End takes the fault away.
func (i *Injection) End() {
	i.w.mu.Lock()
	defer i.w.mu.Unlock()
	i.ended = true
}

// strike is the rule that hits s, or nil.
func (w *World) strike(s *subject) *Fault {
	for _, i := range w.faults {
		r := &i.rule
		if i.ended || !r.match(s) || !r.Effect.fits(s.op) {
			continue
		}
		i.seen++
		if i.seen <= r.Skip || r.Times != Always && i.hits >= r.Times {
			continue
		}
		i.hits++
		return r
	}
	if s.op&changing != 0 && w.tree.ReadOnly() {
		return &Fault{Err: syscall.EROFS}
	}
	return nil
}

// changing are the operations that a filesystem which takes no changes refuses.
const changing = Writes | Allocates | Truncates | Renames | Removes | Mkdirs

func (e Effect) fits(op Ops) bool {
	switch e {
	case Shorten, Misdirect:
		return op == Writes
	case Lie:
		return op&(Writes|Flushes) != 0
	}
	return true
}

// file finds a file for the functions that damage it.
func (w *World) file(path string) (*disk.Inode, error) {
	n, err := w.tree.Lookup(path)
	if err == nil && n.IsDir() {
		err = syscall.EISDIR
	}
	return n, fsError("damage", path, err)
}

// Corrupt inverts the bits of mask in the byte at off of the file at path, on the
// medium and in the cache.
func (w *World) Corrupt(path string, off int64, mask byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, err := w.file(path)
	if err != nil {
		return err
	}
	if off < 0 || off >= n.Size() {
		return &aio.Error{Op: "damage", What: path, Off: off, Err: syscall.EINVAL}
	}
	n.Flip(off, mask)
	return nil
}

// BadSectors makes reads of the n bytes at off of the file at path fail with EIO,
// until they are written again.
func (w *World) BadSectors(path string, off, n int64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	f, err := w.file(path)
	if err != nil {
		return err
	}
	if off < 0 || n <= 0 {
		return &aio.Error{Op: "damage", What: path, Off: off, Err: syscall.EINVAL}
	}
	f.Spoil(off, n)
	return nil
}

// SetCapacity changes the size, in bytes, of the disk that holds path. Files are
// kept even when they do not fit any more; nothing can grow then.
func (w *World) SetCapacity(path string, bytes int64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, err := w.tree.Lookup(path)
	if err != nil {
		return fsError("resize", path, err)
	}
	n.SetCapacity(bytes)
	return nil
}

// Mount makes the directory at path the root of a disk of its own, with its own
// cache, of capacity bytes. Its parent must exist, it must not.
func (w *World) Mount(path string, capacity int64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return fsError("mount", path, w.tree.Mount(path, capacity))
}

// Unflushed is the number of bytes in the caches of the machine's disks that a
// power cut could lose.
func (w *World) Unflushed() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tree.Unflushed()
}
