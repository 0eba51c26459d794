package sim

import (
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/internal/invariant"
)

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

// Crash cuts the power of the machine: its drivers are dead, what was in flight
// and what lay in the cache is kept as keep says, sector by sector. The calls
// that a caller makes on a dead driver fail with ErrClosed, and its operations
// never complete. New drivers find the disk as it is after the restart.
func (w *World) Crash(keep Keep) {
	w.mu.Lock()
	defer w.mu.Unlock()
	flight := w.inFlightWrites()
	w.killDrivers()
	for _, f := range flight {
		if keep != KeepNone {
			f.handle.ino.dev.append(f.handle.ino, f.data, f.off, false)
		}
	}
	for _, v := range w.devices {
		v.powerCut(w.newCut(keep, v))
	}
	w.restoreTree()
	w.reboot()
}

// Kill ends the processes of the machine and nothing else: completed writes stay
// in the cache and are seen by the next drivers, those in flight are seen wholly,
// partly or not at all.
func (w *World) Kill() {
	w.mu.Lock()
	defer w.mu.Unlock()
	flight := w.inFlightWrites()
	w.killDrivers()
	for _, f := range flight {
		w.applyPart(f)
	}
	w.recount()
}

// flying is a write that was in flight when the machine stopped.
type flying struct {
	handle *handle
	data   []byte
	off    int64
}

// inFlightWrites lists the writes in flight that could reach the disk, in the
// order in which they would have been performed at the latest.
func (w *World) inFlightWrites() []flying {
	var list []flying
	for _, d := range w.drivers {
		if d.side != server {
			continue
		}
		for i := range d.slots {
			s := &d.slots[i]
			if s.op == nil || s.over || s.op.Kind != aio.KindWrite {
				continue
			}
			op := s.op
			h := d.handle(op.File)
			if h == nil || h.mode&aio.OpenWrite == 0 || h.checkIO(op.Buf, op.Off) != nil {
				continue
			}
			list = append(list, flying{h, op.Buf[op.Drv.Done:], op.Off + int64(op.Drv.Done)})
		}
	}
	for i := len(list) - 1; i > 0; i-- {
		j := w.rng.below(int64(i + 1))
		list[i], list[j] = list[j], list[i]
	}
	return list
}

// applyPart makes some of the sectors of f visible. Sectors beyond the end of the
// file are not: its size was not changed yet.
func (w *World) applyPart(f flying) {
	permille := w.rng.below(1001)
	end := min(int64(len(f.data)), f.handle.ino.size-f.off)
	for at := int64(0); at < end; {
		n := min(end-at, sectorSize-(f.off+at)%sectorSize)
		if w.rng.chance(permille) {
			f.handle.ino.dev.write(f.handle.ino, f.data[at:at+n], f.off+at, false)
		}
		at += n
	}
}

// killDrivers ends every driver of the machine.
func (w *World) killDrivers() {
	w.epoch++
	for i := 0; i < len(w.drivers); {
		if w.drivers[i].side == server {
			w.drivers[i].kill()
		} else {
			i++
		}
	}
	for _, s := range w.net.socks {
		if s != nil && s.side == server {
			s.die()
		}
	}
}

// cut decides what of one device survives.
type cut struct {
	keep     Keep
	rng      *random
	permille int64  // KeepRandom: how many
	seq      uint64 // KeepPrefix: the newest record that is kept, in part
	tx       uint64 // KeepPrefix: the newest change of names that is kept
}

func (w *World) newCut(keep Keep, v *device) *cut {
	c := &cut{keep: keep, rng: &w.rng, permille: w.rng.below(1001)}
	if len(v.log) > 0 {
		c.seq = v.log[w.rng.below(int64(len(v.log)))].seq
	}
	if n := w.rng.below(int64(len(v.names)) + 1); n > 0 {
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
		return c.rng.chance(c.permille)
	case KeepPrefix:
		return seq <= newest
	}
	return false
}

// sectors returns the decision about each of n sectors of the record seq.
func (c *cut) sectors(seq uint64, n int64) func(i int64) bool {
	if c.keep == KeepPrefix && seq == c.seq {
		end := c.rng.below(n + 1)
		return func(i int64) bool { return i < end }
	}
	return func(int64) bool { return c.keeps(seq, c.seq) }
}

// powerCut leaves on the device what c keeps.
func (v *device) powerCut(c *cut) {
	sizes := map[*inode]uint64{} // the newest change of size that is kept
	for i := range v.log {
		r := &v.log[i]
		f := r.ino
		kept, seen := sizes[f]
		if !seen {
			kept = f.cutSize(c)
			sizes[f] = kept
		}
		switch {
		case r.durable, r.trim && r.seq <= kept:
			r.apply()
		case r.trim, f.shrink != 0 && f.shrink > kept && r.seq > f.shrink:
			r.ino.logged--
		default:
			r.applySectors(c)
		}
	}
	v.cutLog(v.log[:0])
	last, kept := uint64(0), false
	v.commitNames(func(tx uint64) bool {
		if tx != last {
			last, kept = tx, c.keeps(tx, c.tx)
		}
		return kept
	})
	clear(v.names)
	v.names = v.names[:0]
}

// cutSize chooses which of f's changes of size are kept, a prefix of them, and
// returns the seq of the last.
func (f *inode) cutSize(c *cut) uint64 {
	last := uint64(0)
	for _, s := range f.sizes {
		if !c.keeps(s.seq, c.seq) {
			break
		}
		f.durSize, last = s.size, s.seq
	}
	f.sizes = nil
	return last
}

// applySectors puts those sectors of the record on the medium that c keeps.
func (r *record) applySectors(c *cut) {
	r.ino.logged--
	first := r.off / sectorSize
	keeps := c.sectors(r.seq, (r.off+r.n-1)/sectorSize-first+1)
	for at := int64(0); at < r.n; {
		n := min(r.n-at, sectorSize-(r.off+at)%sectorSize)
		switch {
		case !keeps((r.off+at)/sectorSize - first):
		case r.data == nil:
			r.ino.dur.zero(r.off+at, r.off+at+n)
		default:
			r.ino.dur.write(r.data[at:at+n], r.off+at)
		}
		at += n
	}
}

// restoreTree makes what is durable the visible state, from the root down.
func (w *World) restoreTree() {
	seen := map[*inode]bool{}
	w.restore(w.root, seen)
	w.recount()
}

func (w *World) restore(n *inode, seen map[*inode]bool) {
	if seen[n] {
		return
	}
	seen[n] = true
	n.links = 0
	if n.dir == nil {
		n.size, n.sizes, n.shrink = n.durSize, nil, 0
		n.dur.cut(n.size)
		n.cur.copyOf(&n.dur)
		return
	}
	clear(n.dir.cur)
	for name, m := range n.dir.dur {
		n.dir.cur[name] = m
		w.restore(m, seen)
	}
}

// recount sets the links of every inode that has a name and the space in use, and
// forgets handles and locks of processes that are gone.
func (w *World) recount() {
	for _, v := range w.devices {
		v.used = 0
	}
	w.count(w.root, map[*inode]bool{})
	if w.root.links != 0 {
		invariant.Violated("sim: a name leads to the root")
	}
}

func (w *World) count(n *inode, seen map[*inode]bool) {
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
		w.count(m, seen)
		m.links++
	}
}
