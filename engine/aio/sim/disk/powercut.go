package disk

// Keep says what a power cut leaves of the writes that no flush has covered and
// of the directory changes that no SyncDir has covered.
type Keep uint8

const (
	// KeepNone loses all of it.
	KeepNone Keep = iota
	// KeepAll loses nothing; writes in flight have reached the disk as well.
	KeepAll
	// KeepRandom keeps each sector and each change with a probability that is
	// drawn for the crash.
	KeepRandom
	// KeepPrefix keeps the oldest, up to a sector in the middle of a write.
	KeepPrefix
)

// PowerCut loses what is not durable, but for what keep lets survive, and makes
// the rest the visible state. No handle and no lock survives.
func (t *Tree) PowerCut(keep Keep) {
	t.powerCut(func(v *device) verdict { return t.newCut(keep, v) })
}

func (t *Tree) powerCut(of func(v *device) verdict) {
	for _, v := range t.devices {
		v.powerCut(of(v))
		v.readOnly = false
	}
	t.restore(t.root, map[*Inode]bool{})
	t.Restart()
}

// verdict decides what of one device survives.
type verdict interface {
	// size decides about a change of a file's size, names about a change of names. Of
	// changes of a size those behind one that is lost are not asked about.
	size(seq uint64) bool
	names(tx uint64) bool
	// sectors returns the decision about each of n sectors of the record seq.
	sectors(seq uint64, n int64) func(i int64) bool
}

// cut is a verdict by chance.
type cut struct {
	keep     Keep
	choose   Chooser
	permille int64  // KeepRandom: how many
	seq      uint64 // KeepPrefix: the newest record that is kept, in part
	tx       uint64 // KeepPrefix: the newest change of names that is kept
}

func (t *Tree) newCut(keep Keep, v *device) *cut {
	c := &cut{keep: keep, choose: t.choose, permille: t.choose.Below(1001)}
	oldest := v.seq + 1
	if len(v.log) > 0 {
		oldest = v.log[0].seq
	}
	for _, f := range v.resized {
		oldest = min(oldest, f.sizes[0].seq)
	}
	c.seq = oldest - 1 + uint64(c.choose.Below(int64(v.seq-oldest)+2))
	if n := c.choose.Below(int64(len(v.names)) + 1); n > 0 {
		c.tx = v.names[n-1].tx
	}
	return c
}

// keeps decides about something that cannot be kept in part.
func (c *cut) keeps(seq, newest uint64) bool {
	switch c.keep {
	case KeepAll:
		return true
	case KeepRandom:
		return chance(c.choose, c.permille)
	case KeepPrefix:
		return seq <= newest
	}
	return false
}

func (c *cut) size(seq uint64) bool { return c.keeps(seq, c.seq) }

func (c *cut) names(tx uint64) bool { return c.keeps(tx, c.tx) }

func (c *cut) sectors(seq uint64, n int64) func(i int64) bool {
	if c.keep == KeepPrefix && seq == c.seq {
		end := c.choose.Below(n + 1)
		return func(i int64) bool { return i < end }
	}
	return func(int64) bool { return c.keeps(seq, c.seq) }
}

// powerCut leaves on the device what c keeps.
func (v *device) powerCut(c verdict) {
	sizes := map[*Inode]uint64{} // the newest change of size that is kept
	for _, f := range v.resized {
		sizes[f] = f.cutSize(c)
	}
	v.resized = v.resized[:0]
	for i := range v.log {
		r := &v.log[i]
		f := r.ino
		kept := sizes[f]
		switch {
		case r.durable, r.trim && r.seq <= kept:
			r.apply()
		case r.trim, f.shrink != 0 && f.shrink > kept && r.seq > f.shrink:
			r.ino.logged--
		default:
			r.applySectors(c)
		}
		v.drop(r)
	}
	v.cutLog(v.log[:0])
	last, kept := uint64(0), false
	v.commitNames(func(tx uint64) bool {
		if tx != last {
			last, kept = tx, c.names(tx)
		}
		return kept
	})
	clear(v.names)
	v.names = v.names[:0]
}

// cutSize chooses which of f's changes of size are kept, a prefix of them, and
// returns the seq of the last.
func (f *Inode) cutSize(c verdict) uint64 {
	last := uint64(0)
	for _, s := range f.sizes {
		if !c.size(s.seq) {
			break
		}
		f.durSize, last = s.size, s.seq
	}
	f.sizes = nil
	return last
}

// applySectors puts those sectors of the record on the medium that c keeps.
func (r *record) applySectors(c verdict) {
	r.ino.logged--
	first := r.off / sectorSize
	keeps := c.sectors(r.seq, (r.off+r.n-1)/sectorSize-first+1)
	for at := int64(0); at < r.n; {
		n := min(r.n-at, sectorSize-(r.off+at)%sectorSize)
		if keeps((r.off+at)/sectorSize - first) {
			i, from := int((r.off+at)/pageSize), (r.off+at)%pageSize
			r.ino.dur.put(i, from, from+n, r.page(i))
		}
		at += n
	}
}

// restore makes what is durable the visible state, from n down.
func (t *Tree) restore(n *Inode, seen map[*Inode]bool) {
	if seen[n] {
		return
	}
	seen[n] = true
	n.links = 0
	if n.dir == nil {
		n.size, n.sizes, n.shrink = n.durSize, nil, 0
		n.dur.cut(n.size)
		n.cur.become(&n.dur)
		return
	}
	clear(n.dir.cur)
	for name, m := range n.dir.dur {
		n.dir.cur[name] = m
		t.restore(m, seen)
	}
}

// Restart forgets the handles and locks of processes that are gone, and with
// them the files that had no name any more.
func (t *Tree) Restart() {
	for _, v := range t.devices {
		v.used = 0
	}
	t.count(t.root, map[*Inode]bool{})
}

func (t *Tree) count(n *Inode, seen map[*Inode]bool) {
	if seen[n] {
		return
	}
	seen[n] = true
	n.links, n.opens, n.locked = 0, 0, false
	if n.dir == nil {
		n.dev.used += blocks(n.size)
		return
	}
	for _, m := range n.dir.cur {
		t.count(m, seen)
		m.links++
	}
}
