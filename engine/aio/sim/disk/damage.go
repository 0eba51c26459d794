package disk

// span is the byte range [from, to) of a file.
type span struct{ from, to int64 }

// FailFlush is a flush that fails: a part of what it should have made durable is
// lost for good, each write and the change of the file's size with even odds.
// Reads still show all of it. With a change of size the filesystem has lost a
// transaction: nothing can be changed on it any more before a restart of the machine,
// as ext4 and XFS have it.
func (f *Inode) FailFlush(mark uint64, c Chooser) {
	v := f.dev
	keep := v.log[:0]
	for i := range v.log {
		r := v.log[i]
		if r.seq <= mark && !r.durable && !r.trim && chance(c, 500) {
			r.ino.logged--
			v.drop(&r)
			continue
		}
		keep = append(keep, r)
	}
	v.cutLog(keep)
	if f.shrink == 0 && len(f.sizes) > 0 && chance(c, 500) {
		v.settled(f)
		f.sizes = nil
		v.readOnly = true
	}
}

// ReadOnly reports whether a filesystem of the machine has given up and takes no
// changes any more.
func (t *Tree) ReadOnly() bool {
	for _, v := range t.devices {
		if v.readOnly {
			return true
		}
	}
	return false
}

// Tear is a write that stops half way: some of its sectors become visible, none
// beyond the end of the file.
func (f *Inode) Tear(data []byte, off int64, c Chooser) {
	permille := c.Below(1001)
	end := min(int64(len(data)), f.size-off)
	for at := int64(0); at < end; {
		n := min(end-at, sectorSize-(off+at)%sectorSize)
		if chance(c, permille) {
			f.Write(data[at:at+n], off+at, Cached)
		}
		at += n
	}
}

// Fly is a write that is under way when the power fails: the cut that follows
// decides about its sectors.
func (f *Inode) Fly(data []byte, off int64) {
	for len(data) > 0 {
		n := min(len(data), maxRecord)
		f.dev.push(f.dev.record(f, data[:n], off))
		data, off = data[n:], off+int64(n)
	}
}

// Flip inverts the bits of mask in the byte at off, on the medium and in the
// cache.
func (f *Inode) Flip(off int64, mask byte) {
	f.cur.flip(off, mask)
	f.dur.flip(off, mask)
	for i := range f.dev.log {
		if r := &f.dev.log[i]; r.ino == f && off >= r.off && off < r.off+r.n && !r.trim {
			c := content{mem: f.dev.mem, pages: r.data}
			c.flip(off-r.off/pageSize*pageSize, mask)
		}
	}
}

// Spoil makes the sectors of the n bytes at off unreadable until they are
// written again.
func (f *Inode) Spoil(off, n int64) {
	f.bad = append(f.bad, span{off &^ (sectorSize - 1), (off + n + sectorSize - 1) &^ (sectorSize - 1)})
}

// IsDir reports whether this is a directory.
func (f *Inode) IsDir() bool { return f.dir != nil }

// Unflushed is the number of bytes in the caches that a power cut could lose.
func (t *Tree) Unflushed() int64 {
	n := int64(0)
	for _, v := range t.devices {
		for i := range v.log {
			if r := &v.log[i]; !r.durable && !r.trim {
				n += r.n
			}
		}
	}
	return n
}

// heal forgets bad sectors that a write has replaced wholly.
func (f *Inode) heal(from, to int64) {
	if len(f.bad) == 0 {
		return
	}
	var keep []span
	for _, s := range f.bad {
		if s.from < from {
			keep = append(keep, span{s.from, min(s.to, from)})
		}
		if s.to > to {
			keep = append(keep, span{max(s.from, to), s.to})
		}
	}
	f.bad = keep
}

// isBad reports whether a read of [from, to) meets a bad sector.
func (f *Inode) isBad(from, to int64) bool {
	for _, s := range f.bad {
		if s.from < to && from < s.to {
			return true
		}
	}
	return false
}
