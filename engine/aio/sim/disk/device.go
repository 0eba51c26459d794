package disk

import (
	"slices"
	"syscall"
)

// Inode is a file or a directory. It exists for as long as a name, durable or
// not, or an open handle leads to it.
type Inode struct {
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
	bad           []span       // latent bad sectors

	links, opens int
	locked       bool
}

type sizeChange struct {
	seq  uint64
	size int64
}

// record is a write in the device's log. The log is in the order of completion.
type record struct {
	ino *Inode
	off int64
	n   int64
	// data is the pages of the file from the one that holds off on, as far as they
	// were written; none, and a missing one, for zeros.
	data []*page
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
	readOnly bool // until the next power cut
	id       uint64
	capacity int64 // bytes
	used     int64
	log      []record
	mem      *Pages
	lists    []*page // what the pages of records are listed in, used up to its length
	seq      uint64
	resized  []*Inode // files with changes of size that are not durable
	names    []nameChange
	tx       uint64
}

// Size is the visible size in bytes.
func (f *Inode) Size() int64 { return f.size }

// ReadAt reads what there is of b before the end of the file. EIO when it meets
// a bad sector.
func (f *Inode) ReadAt(b []byte, off int64) (int, error) {
	n := int(max(0, min(int64(len(b)), f.size-off)))
	if f.isBad(off, off+int64(n)) {
		return 0, syscall.EIO
	}
	f.cur.read(b[:n], off)
	return n, nil
}

// Write makes data visible at off and, with dsync, durable. It reports false,
// and changes nothing, when the disk is full.
func (f *Inode) Write(data []byte, off int64, dsync Durability) bool {
	v, end := f.dev, off+int64(len(data))
	if end > f.size && !f.Resize(end) {
		return false
	}
	f.heal(off, end)
	durable := dsync == Durable
	if durable && (end > f.durSize || f.shrink != 0) {
		v.commitSize(f, v.seq)
	}
	logged := !durable || f.logged > 0
	for len(data) > 0 {
		n := min(len(data), maxRecord)
		r := v.record(f, data[:n], off)
		r.applyTo(&f.cur)
		if logged {
			r.durable = durable
			v.push(r)
		} else {
			r.applyTo(&f.dur)
			v.drop(&r)
			v.lists = v.lists[:len(v.lists)-len(r.data)]
		}
		data, off = data[n:], off+int64(n)
	}
	return true
}

// Durability says whether a write is durable by itself.
type Durability uint8

const (
	// Cached writes wait for a flush.
	Cached Durability = iota
	// Durable writes are on the medium when they complete.
	Durable
)

// Mark is the present place in the device's log, to be handed to Flush.
func (f *Inode) Mark() uint64 { return f.dev.seq }

// Flush makes everything durable that the device had completed at mark, and the
// size that the file had then.
func (f *Inode) Flush(mark uint64) { f.dev.flush(f, mark) }

// maxRecord is the longest record, in bytes: a longer write becomes several.
const maxRecord = 64 << 10

// record makes a record of a write, with pages of its own.
func (v *device) record(f *Inode, data []byte, off int64) record {
	r := record{ino: f, off: off, n: int64(len(data)), data: v.list(int((off+int64(len(data))-1)/pageSize - off/pageSize + 1))}
	eachPage(off, r.n, func(i int, from, to, at int64) {
		if part := data[at : at+to-from]; !allZero(part) {
			p := v.mem.take()
			copy(p.b[from:to], part)
			r.data[i-int(off/pageSize)] = p
		}
	})
	return r
}

// list is room for n pages. All of it is given back when the log is empty.
func (v *device) list(n int) []*page {
	at := len(v.lists)
	if at+n > cap(v.lists) {
		v.lists, at = make([]*page, 0, 1024), 0
	}
	v.lists = v.lists[:at+n]
	list := v.lists[at : at+n : at+n]
	clear(list)
	return list
}

// drop gives the pages of a record back.
func (v *device) drop(r *record) {
	for _, p := range r.data {
		v.mem.drop(p)
	}
}

func (v *device) push(r record) {
	v.seq++
	r.seq = v.seq
	v.log = append(v.log, r)
	r.ino.logged++
}

// Resize changes the visible size; it reports false when the disk is full.
func (f *Inode) Resize(size int64) bool {
	v := f.dev
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
	if len(f.sizes) == 0 {
		v.resized = append(v.resized, f)
	}
	f.sizes = append(f.sizes, sizeChange{seq: v.seq, size: size})
	return true
}

// blocks is the space, in bytes, that size bytes take.
func blocks(size int64) int64 { return (size + 4095) &^ 4095 }

// commitSize makes the size that f had at mark durable, with the truncations
// before it.
func (v *device) commitSize(f *Inode, mark uint64) {
	keep := f.sizes[:0]
	for _, c := range f.sizes {
		if c.seq <= mark {
			f.durSize = c.size
		} else {
			keep = append(keep, c)
		}
	}
	if len(f.sizes) > 0 && len(keep) == 0 {
		v.settled(f)
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

// settled takes f from the list of files with changes of size.
func (v *device) settled(f *Inode) {
	i := slices.Index(v.resized, f)
	v.resized = slices.Delete(v.resized, i, i+1)
}

// flush makes durable every record up to mark, and the size of f.
// Records behind an uncommitted truncation of another file wait for that file's
// own sync: the blocks they went to are not reachable before.
func (v *device) flush(f *Inode, mark uint64) {
	v.commitSize(f, mark)
	keep := v.log[:0]
	for i := range v.log {
		r := &v.log[i]
		if r.seq > mark || r.ino.shrink != 0 && r.seq >= r.ino.shrink {
			keep = append(keep, *r)
			continue
		}
		r.apply()
		v.drop(r)
	}
	v.cutLog(keep)
}

func (v *device) cutLog(keep []record) {
	clear(v.log[len(keep):])
	v.log = keep
	if len(keep) == 0 {
		v.lists = v.lists[:0]
	}
}

// apply puts the record on the medium.
func (r *record) apply() {
	r.ino.logged--
	r.applyTo(&r.ino.dur)
}

// applyTo brings what the record holds to c.
func (r *record) applyTo(c *content) {
	if r.data == nil {
		c.zero(r.off, r.off+r.n)
		return
	}
	eachPage(r.off, r.n, func(i int, from, to, _ int64) { c.put(i, from, to, r.page(i)) })
}

// page is page i of the file as the record has it.
func (r *record) page(i int) *page {
	if r.data == nil {
		return nil
	}
	return r.data[i-int(r.off/pageSize)]
}
