package disk

import (
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/mqd-broker/mqd/engine/aio"
)

// Tree is the files of a machine, on one disk or several, and what of them is
// durable. It is not safe for use by several goroutines at a time.
type Tree struct {
	root    *Inode
	devices []*device
	inodes  uint64
	choose  Chooser
}

// Chooser makes the choices that are left to chance.
type Chooser interface {
	// Below returns a number in [0, n).
	Below(n int64) int64
}

// chance is true in permille of 1000 cases.
func chance(c Chooser, permille int64) bool { return c.Below(1000) < permille }

// NewTree makes an empty root directory on a disk of capacity bytes whose content
// lies in mem.
func NewTree(capacity int64, c Chooser, mem *Pages) *Tree {
	v := &device{id: 1, capacity: capacity, mem: mem}
	t := &Tree{devices: []*device{v}, choose: c}
	t.root = v.newDir(&t.inodes)
	return t
}

// directory is the names in a directory: those that a lookup sees, and those
// that a power cut leaves.
type directory struct {
	cur, dur map[string]*Inode
}

// nameChange is one change of a directory that no SyncDir has covered: name
// leads to ino, or to nothing. The two changes of a rename share a tx: the
// filesystem's journal holds both or neither.
type nameChange struct {
	dir  *Inode
	name string
	ino  *Inode
	tx   uint64
}

func (v *device) newInode(ids *uint64) *Inode {
	*ids++
	return &Inode{id: *ids, dev: v, cur: content{mem: v.mem}, dur: content{mem: v.mem}}
}

func (v *device) newDir(ids *uint64) *Inode {
	n := v.newInode(ids)
	n.dir = &directory{cur: map[string]*Inode{}, dur: map[string]*Inode{}}
	return n
}

// set changes a name, within the transaction tx.
func (v *device) set(dir *Inode, name string, ino *Inode, tx uint64) {
	if old := dir.dir.cur[name]; old != nil {
		old.links--
		old.release()
	}
	if ino == nil {
		delete(dir.dir.cur, name)
	} else {
		ino.links++
		dir.dir.cur[name] = ino
	}
	v.names = append(v.names, nameChange{dir, name, ino, tx})
}

// release gives the space of a file back when nothing leads to it any more.
func (f *Inode) release() {
	if f.links == 0 && f.opens == 0 && f.dir == nil {
		f.dev.used -= blocks(f.size)
	}
}

// SyncDir makes the names in the directory at p durable.
func (t *Tree) SyncDir(p string) error {
	n, err := t.LookupDir(p)
	if err == nil {
		n.dev.syncNames(n)
	}
	return err
}

// TryLock locks the file for its holder alone.
func (f *Inode) TryLock() bool {
	if f.locked {
		return false
	}
	f.locked = true
	return true
}

// Unlock ends the lock.
func (f *Inode) Unlock() { f.locked = false }

// Space describes the disk that holds the file: its number, its size and how
// much of it is free, in bytes.
func (f *Inode) Space() (device uint64, total, free int64) {
	return f.dev.id, f.dev.capacity, max(0, f.dev.capacity-f.dev.used)
}

// SetCapacity changes the size of the disk that holds the file. Files that do
// not fit any more are kept; nothing can grow then.
func (f *Inode) SetCapacity(bytes int64) { f.dev.capacity = bytes }

// Mount makes p the root directory of another disk of capacity bytes, with a
// cache of its own. Its parent must exist, it must not.
func (t *Tree) Mount(p string, capacity int64) error {
	dir, name, err := t.lookupParent(p)
	if err == nil && dir.dir.cur[name] != nil {
		err = syscall.EEXIST
	}
	if err != nil {
		return err
	}
	v := &device{id: uint64(len(t.devices) + 1), capacity: capacity, mem: t.devices[0].mem}
	t.devices = append(t.devices, v)
	n := v.newDir(&t.inodes)
	n.links = 1
	dir.dir.cur[name], dir.dir.dur[name] = n, n
	return nil
}

// syncNames makes every transaction durable that touches dir.
func (v *device) syncNames(dir *Inode) {
	var due []uint64
	for _, c := range v.names {
		if c.dir == dir {
			due = append(due, c.tx)
		}
	}
	v.commitNames(func(tx uint64) bool { return slices.Contains(due, tx) })
}

// commitNames makes the chosen transactions durable, in order, and keeps the
// others pending.
func (v *device) commitNames(chosen func(tx uint64) bool) {
	keep := v.names[:0]
	for _, c := range v.names {
		if !chosen(c.tx) {
			keep = append(keep, c)
			continue
		}
		if c.ino == nil {
			delete(c.dir.dir.dur, c.name)
		} else {
			c.dir.dir.dur[c.name] = c.ino
		}
	}
	clear(v.names[len(keep):])
	v.names = keep
}

// Clean is p as an absolute path without dots.
func Clean(p string) string {
	if isClean(p) {
		return p
	}
	return path.Clean("/" + p)
}

// isClean reports whether p is plainly clean. It says no to names with a dot in front.
func isClean(p string) bool {
	if len(p) < 2 || p[0] != '/' || p[len(p)-1] == '/' {
		return false
	}
	for i := 1; i < len(p); i++ {
		if p[i-1] == '/' && (p[i] == '/' || p[i] == '.') {
			return false
		}
	}
	return true
}

// Lookup finds the Inode at p.
func (t *Tree) Lookup(p string) (*Inode, error) {
	n := t.root
	for name := range strings.SplitSeq(strings.Trim(Clean(p), "/"), "/") {
		if name == "" {
			continue
		}
		if n.dir == nil {
			return nil, syscall.ENOTDIR
		}
		next := n.dir.cur[name]
		if next == nil {
			return nil, syscall.ENOENT
		}
		n = next
	}
	return n, nil
}

// LookupDir finds the directory at p.
func (t *Tree) LookupDir(p string) (*Inode, error) {
	n, err := t.Lookup(p)
	if err == nil && n.dir == nil {
		return nil, syscall.ENOTDIR
	}
	return n, err
}

// lookupParent finds the directory that holds p's last name, and that name.
func (t *Tree) lookupParent(p string) (*Inode, string, error) {
	p = Clean(p)
	dir, err := t.LookupDir(path.Dir(p))
	return dir, path.Base(p), err
}

// Open finds or creates the file at p and counts a handle on it.
func (t *Tree) Open(p string, mode aio.OpenMode) (*Inode, error) {
	dir, name, err := t.lookupParent(p)
	if err != nil {
		return nil, err
	}
	n := dir.dir.cur[name]
	switch {
	case n == nil && mode&aio.OpenCreate == 0:
		return nil, syscall.ENOENT
	case n == nil:
		n = dir.dev.newInode(&t.inodes)
		dir.dev.tx++
		dir.dev.set(dir, name, n, dir.dev.tx)
	case mode&aio.OpenCreate != 0 && mode&aio.OpenExclusive != 0:
		return nil, syscall.EEXIST
	case n.dir != nil:
		return nil, syscall.EISDIR
	}
	n.opens++
	return n, nil
}

// Close undoes Open.
func (t *Tree) Close(n *Inode) {
	n.opens--
	n.release()
}

// Mkdir makes a directory; one that is there is no error.
func (t *Tree) Mkdir(p string) error {
	if Clean(p) == "/" {
		return nil
	}
	dir, name, err := t.lookupParent(p)
	if err != nil {
		return err
	}
	switch n := dir.dir.cur[name]; {
	case n == nil:
		dir.dev.tx++
		dir.dev.set(dir, name, dir.dev.newDir(&t.inodes), dir.dev.tx)
	case n.dir == nil:
		return syscall.EEXIST
	}
	return nil
}

// Remove unlinks p; a missing p is no error.
func (t *Tree) Remove(p string) error {
	dir, name, err := t.lookupParent(p)
	if err != nil {
		if err == syscall.ENOENT {
			return nil
		}
		return err
	}
	n := dir.dir.cur[name]
	if n == nil {
		return nil
	}
	if n.dir != nil {
		if len(n.dir.cur) > 0 {
			return syscall.ENOTEMPTY
		}
		if n.dev != dir.dev {
			return syscall.EBUSY
		}
	}
	dir.dev.tx++
	dir.dev.set(dir, name, nil, dir.dev.tx)
	return nil
}

// Rename moves from to to, replacing what is there. Both names change in one
// transaction.
func (t *Tree) Rename(from, to string) error {
	src, oldName, err := t.lookupParent(from)
	if err != nil {
		return err
	}
	dst, newName, err := t.lookupParent(to)
	if err != nil {
		return err
	}
	n := src.dir.cur[oldName]
	if n == nil {
		return syscall.ENOENT
	}
	if src.dev != dst.dev || n.dev != src.dev {
		return syscall.EXDEV
	}
	if n.dir != nil && strings.HasPrefix(Clean(to)+"/", Clean(from)+"/") && Clean(from) != Clean(to) {
		return syscall.EINVAL
	}
	if old := dst.dir.cur[newName]; old == n {
		return nil
	} else if old != nil {
		if err := mayReplace(n, old); err != nil {
			return err
		}
	}
	src.dev.tx++
	src.dev.set(dst, newName, n, src.dev.tx)
	src.dev.set(src, oldName, nil, src.dev.tx)
	return nil
}

func mayReplace(n, old *Inode) error {
	switch {
	case n.dir == nil && old.dir != nil:
		return syscall.EISDIR
	case n.dir != nil && old.dir == nil:
		return syscall.ENOTDIR
	case old.dir != nil && len(old.dir.cur) > 0:
		return syscall.ENOTEMPTY
	}
	return nil
}

// ReadDir lists the directory at p by name.
func (t *Tree) ReadDir(p string) ([]aio.DirEntry, error) {
	dir, err := t.LookupDir(p)
	if err != nil {
		return nil, err
	}
	list := make([]aio.DirEntry, 0, len(dir.dir.cur))
	for name, n := range dir.dir.cur {
		list = append(list, aio.DirEntry{Name: name, Dir: n.dir != nil, Size: n.size})
	}
	slices.SortFunc(list, func(a, b aio.DirEntry) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}
