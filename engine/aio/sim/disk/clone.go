package disk

import (
	"hash/maphash"
	"maps"
	"slices"
)

// cloner copies a tree. The bytes of files are shared until one side changes them.
type cloner struct {
	devices map[*device]*device
	inodes  map[*Inode]*Inode
}

// Clone is a copy of a tree that [Outcomes.Image] has made.
func (t *Tree) Clone() *Tree { return t.clone() }

// clone is a copy of the tree, which stands alone.
func (t *Tree) clone() *Tree {
	c := &cloner{map[*device]*device{}, map[*Inode]*Inode{}}
	mem := &Pages{loose: true}
	n := &Tree{inodes: t.inodes, choose: t.choose}
	for _, v := range t.devices {
		d := &device{readOnly: v.readOnly, id: v.id, capacity: v.capacity, used: v.used, seq: v.seq, tx: v.tx, mem: mem}
		v.mem.loose = true
		c.devices[v] = d
		n.devices = append(n.devices, d)
	}
	n.root = c.inode(t.root)
	for _, v := range t.devices {
		d := c.devices[v]
		d.log = slices.Clone(v.log)
		for i := range d.log {
			d.log[i].ino = c.inode(d.log[i].ino)
			d.log[i].data = slices.Clone(d.log[i].data)
			for _, p := range d.log[i].data {
				if p != nil {
					p.refs++
				}
			}
		}
		for _, f := range v.resized {
			d.resized = append(d.resized, c.inode(f))
		}
		d.names = slices.Clone(v.names)
		for i := range d.names {
			d.names[i].dir = c.inode(d.names[i].dir)
			d.names[i].ino = c.inode(d.names[i].ino)
		}
	}
	return n
}

// inode is the copy of n; nil of nil.
func (c *cloner) inode(n *Inode) *Inode {
	if n == nil {
		return nil
	}
	if m := c.inodes[n]; m != nil {
		return m
	}
	m := &Inode{
		id: n.id, dev: c.devices[n.dev], size: n.size, durSize: n.durSize, sizes: slices.Clone(n.sizes), shrink: n.shrink,
		logged: n.logged, bad: slices.Clone(n.bad), links: n.links, opens: n.opens, locked: n.locked,
	}
	m.cur.mem, m.dur.mem = m.dev.mem, m.dev.mem
	c.inodes[n] = m
	if n.dir == nil {
		m.cur.become(&n.cur)
		m.dur.become(&n.dur)
		return m
	}
	m.dir = &directory{cur: map[string]*Inode{}, dur: map[string]*Inode{}}
	for name, o := range n.dir.cur {
		m.dir.cur[name] = c.inode(o)
	}
	for name, o := range n.dir.dur {
		m.dir.dur[name] = c.inode(o)
	}
	return m
}

// Use says who makes the choices that are left to chance.
func (t *Tree) Use(c Chooser) { t.choose = c }

// Sum is a hash of all that can be read in the tree. Trees of one process with equal
// sums hold the same.
func (t *Tree) Sum() uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	sum(&h, t.root)
	return h.Sum64()
}

func sum(h *maphash.Hash, n *Inode) {
	if n.dir == nil {
		foldNumbers(h, uint64(n.size))
		n.cur.fold(h)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(n.dir.cur)) {
		foldNumbers(h, uint64(len(name)))
		_, _ = h.WriteString(name) // never fails
		sum(h, n.dir.cur[name])
	}
	foldNumbers(h, ^uint64(0))
}

func foldNumbers(h *maphash.Hash, list ...uint64) {
	for _, v := range list {
		var b [8]byte
		for i := range b {
			b[i] = byte(v >> (8 * i))
		}
		_, _ = h.Write(b[:]) // never fails
	}
}
