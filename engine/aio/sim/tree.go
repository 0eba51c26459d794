package sim

import (
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/mqd-broker/mqd/engine/aio"
)

// directory is the names in a directory: those that a lookup sees, and those
// that a power cut leaves.
type directory struct {
	cur, dur map[string]*inode
}

// nameChange is one change of a directory that no SyncDir has covered: name
// leads to ino, or to nothing. The two changes of a rename share a tx: the
// filesystem's journal holds both or neither.
type nameChange struct {
	dir  *inode
	name string
	ino  *inode
	tx   uint64
}

func (v *device) newInode(ids *uint64) *inode {
	*ids++
	return &inode{id: *ids, dev: v}
}

func (v *device) newDir(ids *uint64) *inode {
	n := v.newInode(ids)
	n.dir = &directory{cur: map[string]*inode{}, dur: map[string]*inode{}}
	return n
}

// set changes a name, within the transaction tx.
func (v *device) set(dir *inode, name string, ino *inode, tx uint64) {
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
func (f *inode) release() {
	if f.links == 0 && f.opens == 0 && f.dir == nil {
		f.dev.used -= blocks(f.size)
	}
}

// syncNames makes every transaction durable that touches dir.
func (v *device) syncNames(dir *inode) {
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

// clean is p as an absolute path without dots.
func clean(p string) string { return path.Clean("/" + p) }

// lookup finds the inode at p.
func (w *World) lookup(p string) (*inode, error) {
	n := w.root
	for name := range strings.SplitSeq(strings.Trim(clean(p), "/"), "/") {
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

// lookupDir finds the directory at p.
func (w *World) lookupDir(p string) (*inode, error) {
	n, err := w.lookup(p)
	if err == nil && n.dir == nil {
		return nil, syscall.ENOTDIR
	}
	return n, err
}

// lookupParent finds the directory that holds p's last name, and that name.
func (w *World) lookupParent(p string) (*inode, string, error) {
	p = clean(p)
	dir, err := w.lookupDir(path.Dir(p))
	return dir, path.Base(p), err
}

// open finds or creates the file at p.
func (w *World) open(p string, mode aio.OpenMode) (*inode, error) {
	dir, name, err := w.lookupParent(p)
	if err != nil {
		return nil, err
	}
	n := dir.dir.cur[name]
	switch {
	case n == nil && mode&aio.OpenCreate == 0:
		return nil, syscall.ENOENT
	case n == nil:
		n = dir.dev.newInode(&w.inodes)
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

// closeInode undoes open.
func (w *World) closeInode(n *inode) {
	n.opens--
	n.release()
}

func (w *World) mkdir(p string) error {
	if clean(p) == "/" {
		return nil
	}
	dir, name, err := w.lookupParent(p)
	if err != nil {
		return err
	}
	switch n := dir.dir.cur[name]; {
	case n == nil:
		dir.dev.tx++
		dir.dev.set(dir, name, dir.dev.newDir(&w.inodes), dir.dev.tx)
	case n.dir == nil:
		return syscall.EEXIST
	}
	return nil
}

// remove unlinks p; a missing p is no error.
func (w *World) remove(p string) error {
	dir, name, err := w.lookupParent(p)
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

func (w *World) rename(from, to string) error {
	src, oldName, err := w.lookupParent(from)
	if err != nil {
		return err
	}
	dst, newName, err := w.lookupParent(to)
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
	if n.dir != nil && strings.HasPrefix(clean(to)+"/", clean(from)+"/") && clean(from) != clean(to) {
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

func mayReplace(n, old *inode) error {
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

func (w *World) readDir(p string) ([]aio.DirEntry, error) {
	dir, err := w.lookupDir(p)
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
