package sim

// inode is a file or a directory. It exists for as long as a name, durable or
// not, or a handle leads to it.
type inode struct {
	id  uint64
	dev *device
	dir *directory // nil for a file

	// cur is what a read sees, dur what is on the medium. They differ where
	// the device's log has records, and where a failed flush has lost some.
	cur, dur      content
	size, durSize int64
	sizes         []sizeChange // changes of size that no sync has covered
	shrink        uint64       // seq of the oldest shrinking one among them, or 0
	logged        int          // records in the device's log

	links, opens int
	locked       bool
	bad          []span
}

type sizeChange struct {
	seq  uint64
	size int64
}

// span is the byte range [from, to) of a file.
type span struct{ from, to int64 }

// record is a write in the device's log, with a copy of its bytes (none for
// zeros). The log is in the order of completion.
type record struct {
	ino  *inode
	off  int64
	n    int64
	data []byte
	seq  uint64
	// durable: the bytes are on the medium; the record stays only because
	// older volatile ones of the same file precede it.
	durable bool
	// trim: a truncation. It takes effect with the size and not before.
	trim bool
}

// device is a disk with a volatile write cache, and the filesystem on it.
//
// A write goes to the file's visible content and to the log. A flush applies
// the log's records to the durable content, in order; a power cut applies those
// that the policy picks. So every mixture of older and newer sectors that a real
// cache could leave behind can come out, and none that it could not: a sector
// that was made durable never falls back behind that.
type device struct {
	id       uint64
	capacity int64 // bytes
	used     int64
	log      []record
	arena    arena
	seq      uint64
	names    []nameChange
	tx       uint64
}

// write makes data visible at off of f and, with dsync, durable. It returns
// the error of a full device before anything is written.
func (v *device) write(f *inode, data []byte, off int64, dsync bool) bool {
	end := off + int64(len(data))
	if end > f.size && !v.resize(f, end) {
		return false
	}
	f.healed(off, end)
	f.cur.write(data, off)
	if dsync && (end > f.durSize || f.shrink != 0) {
		v.commitSize(f, v.seq)
	}
	if dsync && f.logged == 0 {
		f.dur.write(data, off)
		return true
	}
	v.append(f, data, off, dsync)
	return true
}

// append logs a write in pieces no longer than a chunk of the arena.
func (v *device) append(f *inode, data []byte, off int64, durable bool) {
	for len(data) > 0 {
		n := min(len(data), arenaChunk)
		r := record{ino: f, off: off, n: int64(n), durable: durable}
		if n > len(zeroPage) || !allZero(data[:n]) {
			r.data = v.arena.copy(data[:n])
		}
		v.push(r)
		data, off = data[n:], off+int64(n)
	}
}

func (v *device) push(r record) {
	v.seq++
	r.seq = v.seq
	v.log = append(v.log, r)
	r.ino.logged++
}

// resize changes the visible size; false when the device is full.
func (v *device) resize(f *inode, size int64) bool {
	grow := blocks(size) - blocks(f.size)
	if grow > 0 && v.used+grow > v.capacity {
		return false
	}
	v.used += grow
	if size < f.size {
		f.cur.cut(size)
		v.push(record{ino: f, off: size, n: f.size - size, trim: true})
		if f.shrink == 0 {
			f.shrink = v.seq
		}
	} else {
		v.seq++
	}
	f.size = size
	f.sizes = append(f.sizes, sizeChange{seq: v.seq, size: size})
	return true
}

// blocks is the space, in bytes, that size bytes take.
func blocks(size int64) int64 { return (size + 4095) &^ 4095 }

// commitSize makes the size that f had at mark durable, with the truncations
// before it.
func (v *device) commitSize(f *inode, mark uint64) {
	keep := f.sizes[:0]
	for _, c := range f.sizes {
		if c.seq <= mark {
			f.durSize = c.size
		} else {
			keep = append(keep, c)
		}
	}
	f.sizes = keep
	if f.shrink == 0 || f.shrink > mark {
		return
	}
	f.shrink = 0
	for i := range v.log {
		r := &v.log[i]
		switch {
		case r.ino != f || !r.trim || r.durable:
		case r.seq <= mark:
			r.durable = true
		case f.shrink == 0:
			f.shrink = r.seq
		}
	}
}

// flush makes durable every record up to mark, and the size of f (if any).
// Records behind an uncommitted truncation of another file wait for that file's
// own sync: the blocks they went to are not reachable before.
func (v *device) flush(f *inode, mark uint64) {
	if f != nil {
		v.commitSize(f, mark)
	}
	keep := v.log[:0]
	for _, r := range v.log {
		if r.seq > mark || r.ino.shrink != 0 && r.seq >= r.ino.shrink {
			keep = append(keep, r)
			continue
		}
		r.apply()
	}
	v.cutLog(keep)
}

func (v *device) cutLog(keep []record) {
	clear(v.log[len(keep):])
	v.log = keep
	if len(keep) == 0 {
		v.arena.reset()
	}
}

// apply puts the record on the medium.
func (r *record) apply() {
	r.ino.logged--
	if r.data == nil {
		r.ino.dur.zero(r.off, r.off+r.n)
	} else {
		r.ino.dur.write(r.data, r.off)
	}
}

// healed forgets bad sectors that a write has replaced wholly.
func (f *inode) healed(from, to int64) {
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
func (f *inode) isBad(from, to int64) bool {
	for _, s := range f.bad {
		if s.from < to && from < s.to {
			return true
		}
	}
	return false
}

// arenaChunk is the size, in bytes, of the pieces in which the log takes memory.
const arenaChunk = pageSize

// arena holds the log's copies of written bytes. It is emptied whenever the log
// is, and keeps its memory.
type arena struct {
	chunks [][]byte
	cur    int
	used   int
}

func (a *arena) copy(b []byte) []byte {
	if len(a.chunks) > 0 && a.used+len(b) > arenaChunk {
		a.cur++
		a.used = 0
	}
	if a.cur == len(a.chunks) {
		a.chunks = append(a.chunks, make([]byte, arenaChunk))
	}
	dst := a.chunks[a.cur][a.used : a.used+len(b) : a.used+len(b)]
	a.used += len(b)
	copy(dst, b)
	return dst
}

// reset empties the arena; beyond a bound its memory is given back.
func (a *arena) reset() {
	a.cur, a.used = 0, 0
	if len(a.chunks) > 256 {
		a.chunks = a.chunks[:256]
	}
}
