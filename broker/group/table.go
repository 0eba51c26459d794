package group

import "slices"

// Assign writes into the table of mode manual which instance reads the partitions of
// entries; "" takes them from whoever has them. A group that is unknown is made. The
// outcome stands in each entry. However many there are, the partitions are divided once
// and the group is written once.
func (s *State) Assign(now int64, name []byte, entries []Entry, instance string) Code {
	g := s.groups[string(name)]
	code := OK
	switch {
	case !checkInstance(instance):
		code = Invalid
	case g == nil:
		code = s.mayMake(name)
	case g.mode == ModeAuto && len(g.members) > 0 || g.others > 0:
		code = WrongMode
	}
	known := false
	for i := range entries {
		e := &entries[i]
		if e.Code = code; code == OK && !s.topics.Has(e.Partition) {
			e.Code = Invalid
		}
		known = known || e.Code == OK
	}
	if !known {
		return code
	}
	if g == nil {
		g = s.make(string(name))
		g.rest(now)
	}
	t := s.editTable(g)
	for i := range entries {
		if e := &entries[i]; e.Code == OK {
			e.Code = t.put(e.Partition, instance)
		}
	}
	t.end()
	g.mode = ModeManual
	s.divide(g)
	s.keep(g, now)
	return OK
}

// claim gives the partitions that nobody has to an instance.
func (s *State) claim(g *group, parts []Partition, instance string) {
	if len(parts) == 0 {
		return
	}
	t := s.editTable(g)
	for _, p := range parts {
		if s.topics.Has(p) && !t.has(p) {
			t.put(p, instance) // or there is no room, which is seen in the list
		}
	}
	t.end()
}

// tableEdit is a change of many rows of a group's table.
type tableEdit struct {
	g    *group
	rows map[Partition]int // where each one stands
	gone int               // rows without an instance
	size int               // of all rows, in a record
	most int               // rows
	room int               // for rows, in a record
}

func (s *State) editTable(g *group) tableEdit {
	t := tableEdit{g: g, rows: make(map[Partition]int, len(g.table)), most: s.limits.partitions(), room: s.limits.Record / 4}
	for i := range g.table {
		t.rows[g.table[i].Partition] = i
		t.size += g.table[i].recordSize()
	}
	return t
}

// has reports whether somebody has a partition.
func (t *tableEdit) has(p Partition) bool {
	i, ok := t.rows[p]
	return ok && t.g.table[i].instance != ""
}

// put gives a partition to an instance, or to nobody, if there is room in the table.
func (t *tableEdit) put(p Partition, instance string) Code {
	i, ok := t.rows[p]
	had := ok && t.g.table[i].instance != ""
	row := claim{Partition: p, instance: instance}
	size, n := t.size, len(t.rows)-t.gone
	if had {
		size -= t.g.table[i].recordSize()
		n--
	}
	if instance != "" {
		size += row.recordSize()
		n++
		if size > t.room || n > t.most {
			return Limit
		}
	}
	switch {
	case ok:
		t.g.table[i].instance = instance
	case instance != "":
		t.rows[p] = len(t.g.table)
		t.g.table = append(t.g.table, row)
	default:
		return OK
	}
	t.size, t.gone = size, len(t.rows)-n
	return OK
}

// end brings the table into order.
func (t *tableEdit) end() {
	t.g.table = slices.DeleteFunc(t.g.table, func(c claim) bool { return c.instance == "" })
	slices.SortFunc(t.g.table, func(a, b claim) int { return a.compare(b.Partition) })
}

// recordSize is what a row takes of a record, in bytes.
func (c *claim) recordSize() int { return claimSize + len(c.instance) }
