package disk

import "fmt"

// Flight is a write that is under way: its bytes may be on their way to the medium.
type Flight struct {
	File *Inode
	Data []byte
	Off  int64
}

// Outcomes are all the disks that the end of a machine, or of its processes, may leave
// at one moment. The end decides about a list of choices, each of which says whether
// one thing survives that is not certain to: a sector of a write, a change of the size
// of a file, a change of names. Choices that make no difference are not among them.
//
// Outcomes are good until the tree changes that they are of.
type Outcomes struct {
	tree    *Tree // with what is in flight, for a power cut
	flight  []Flight
	kill    bool
	choices []string
	devices map[uint64]*chosen // by number; for a power cut
	torn    [][]int            // by flight and sector; for a kill
}

// certain stands in place of the number of a choice where there is none.
const certain = -1

// chosen is a verdict by choices, which it knows by what they are about.
type chosen struct {
	keep    func(choice int) bool
	sizes   map[uint64]int   // by seq
	records map[uint64][]int // by seq, of each sector
	tx      map[uint64]int
}

func (c *chosen) size(seq uint64) bool { return c.keep(c.sizes[seq]) }

func (c *chosen) names(tx uint64) bool { return c.keep(c.tx[tx]) }

func (c *chosen) sectors(seq uint64, _ int64) func(i int64) bool {
	sectors := c.records[seq]
	return func(i int64) bool { return sectors[i] == certain || c.keep(sectors[i]) }
}

// PowerCuts are the outcomes of a power cut, with flight in flight.
func (t *Tree) PowerCuts(flight []Flight) *Outcomes {
	o := &Outcomes{tree: t.clone(), devices: map[uint64]*chosen{}}
	o.tree.fly(t, flight)
	for _, v := range o.tree.devices {
		o.devices[v.id] = o.deviceChoices(v)
	}
	return o
}

// fly puts writes in flight, to files of the tree that t was cloned from, into the logs.
func (t *Tree) fly(from *Tree, flight []Flight) {
	if len(flight) == 0 {
		return
	}
	copies := map[uint64]*Inode{}
	t.each(func(n *Inode) { copies[n.id] = n })
	for _, f := range flight {
		if n := copies[f.File.id]; n != nil {
			n.Fly(f.Data, f.Off)
		}
	}
}

// each calls do for every file that a name, durable or not, or a record leads to.
func (t *Tree) each(do func(n *Inode)) {
	seen := map[*Inode]bool{}
	var walk func(n *Inode)
	walk = func(n *Inode) {
		if n == nil || seen[n] {
			return
		}
		seen[n] = true
		do(n)
		if n.dir == nil {
			return
		}
		for _, m := range n.dir.cur {
			walk(m)
		}
		for _, m := range n.dir.dur {
			walk(m)
		}
	}
	walk(t.root)
	for _, v := range t.devices {
		for i := range v.log {
			walk(v.log[i].ino)
		}
	}
}

func (o *Outcomes) choice(format string, args ...any) int {
	o.choices = append(o.choices, fmt.Sprintf(format, args...))
	return len(o.choices) - 1
}

// place is a sector of a file.
type place struct {
	file   *Inode
	sector int64
}

// deviceChoices lists what a power cut decides about on one device.
func (o *Outcomes) deviceChoices(v *device) *chosen {
	c := &chosen{sizes: map[uint64]int{}, records: map[uint64][]int{}, tx: map[uint64]int{}}
	for _, n := range v.names {
		if _, ok := c.tx[n.tx]; !ok {
			c.tx[n.tx] = o.choice("change %d of names, of %s", n.tx, n.name)
		}
	}
	for _, f := range v.resized {
		for _, s := range f.sizes {
			c.sizes[s.seq] = o.choice("size %d of file %d", s.size, f.id)
		}
	}
	touched := map[place]int{} // by how many records
	for i := range v.log {
		v.log[i].eachSector(func(sector int64, _ []byte) { touched[place{v.log[i].ino, sector}]++ })
	}
	for i := range v.log {
		r := &v.log[i]
		if r.trim || r.durable {
			continue
		}
		var sectors []int
		r.eachSector(func(sector int64, data []byte) {
			n := certain
			if touched[place{r.ino, sector}] > 1 || !r.ino.dur.holds(data, max(r.off, sector*sectorSize)) {
				n = o.choice("sector %d of file %d, write %d", sector, r.ino.id, r.seq)
			}
			sectors = append(sectors, n)
		})
		c.records[r.seq] = sectors
	}
	return c
}

// eachSector calls do for each sector of n bytes at off: its number, and where in the
// range the part of it lies.
func eachSector(off, n int64, do func(sector, from, to int64)) {
	for at := int64(0); at < n; {
		to := at + min(n-at, sectorSize-(off+at)%sectorSize)
		do((off+at)/sectorSize, at, to)
		at = to
	}
}

// eachSector calls do for each sector of the record, with its new bytes.
func (r *record) eachSector(do func(sector int64, data []byte)) {
	eachSector(r.off, r.n, func(sector, from, to int64) {
		p, in := r.page(int((r.off+from)/pageSize)), (r.off+from)%pageSize
		if p == nil {
			do(sector, zeros[:to-from])
		} else {
			do(sector, p.b[in:in+to-from])
		}
	})
}

// eachSector calls do for each sector of the write that lies before the end of its file.
func (f *Flight) eachSector(do func(sector int64, data []byte)) {
	n := min(int64(len(f.Data)), f.File.size-f.Off)
	eachSector(f.Off, n, func(sector, from, to int64) { do(sector, f.Data[from:to]) })
}

// Kills are the outcomes of the death of the machine's processes, with flight in
// flight: what had been completed is seen, and no more durable than it was.
func (t *Tree) Kills(flight []Flight) *Outcomes {
	o := &Outcomes{tree: t, flight: flight, kill: true}
	for _, f := range flight {
		var sectors []int
		f.eachSector(func(sector int64, data []byte) {
			n := certain
			if !f.File.cur.holds(data, max(f.Off, sector*sectorSize)) {
				n = o.choice("sector %d of file %d, in flight", sector, f.File.id)
			}
			sectors = append(sectors, n)
		})
		o.torn = append(o.torn, sectors)
	}
	return o
}

// Choices is the number of choices.
func (o *Outcomes) Choices() int { return len(o.choices) }

// Choice says in words what a choice, from 0 on, is about.
func (o *Outcomes) Choice(i int) string { return o.choices[i] }

// Image is the disk that is left where keep says what survives. It stands alone and
// has no open files.
func (o *Outcomes) Image(keep func(choice int) bool) *Tree {
	t := o.tree.clone()
	if !o.kill {
		t.powerCut(func(v *device) verdict {
			c := *o.devices[v.id]
			c.keep = keep
			return &c
		})
		return t
	}
	copies := map[uint64]*Inode{}
	t.each(func(n *Inode) { copies[n.id] = n })
	for i, f := range o.flight {
		n, sector := copies[f.File.id], 0
		f.eachSector(func(s int64, data []byte) {
			if choice := o.torn[i][sector]; n != nil && choice != certain && keep(choice) {
				n.Write(data, max(f.Off, s*sectorSize), Cached)
			}
			sector++
		})
	}
	t.Restart()
	return t
}
