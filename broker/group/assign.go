package group

import (
	"cmp"
	"slices"
)

// division is a division of partitions among members under way. Partitions go by their
// number in all, members by theirs in members.
type division struct {
	members []*Member
	count   []int           // partitions of each member
	base    map[TopicID]int // number in topics
	subs    [][]int         // subscribers of each topic, ascending
	all     []Partition     // every partition of every topic, in order
	topic   []int           // of each partition
	first   []int           // partition of each topic
	owner   []int           // of each partition, -1 for none
}

// assign divides the partitions of the subscribed topics among members, which are in
// order of id. Everyone keeps what it has, as long as it subscribes to it; what nobody
// has goes to the one with the fewest; then those with the most give up their last
// ones until no move would make two of them more alike. So a member that joins or
// leaves moves no more partitions than it takes or had. The result depends on nothing
// but the members and their lists, and each list is in order. Of more than most
// partitions the last topics are left out.
func assign(members []*Member, topics Topics, most int) map[*Member][]Partition {
	d := division{members: members, count: make([]int, len(members)), base: map[TopicID]int{}}
	d.subscribe(topics, most)
	d.keep()
	d.fill()
	d.level()
	out := make(map[*Member][]Partition, len(members))
	for i, m := range members {
		if d.count[i] > 0 {
			out[m] = make([]Partition, 0, d.count[i])
		}
	}
	for p, i := range d.owner {
		out[members[i]] = append(out[members[i]], d.all[p])
	}
	return out
}

// subscribe finds out who subscribes to what.
func (d *division) subscribe(topics Topics, most int) {
	type known struct {
		id   TopicID
		n    int32
		subs []int
	}
	byID := map[TopicID]*known{}
	var list []*known
	for i, m := range d.members {
		for _, name := range m.topics {
			id, n, ok := topics.ByName(name)
			if !ok {
				continue
			}
			k := byID[id]
			if k == nil {
				k = &known{id: id, n: n}
				byID[id] = k
				list = append(list, k)
			}
			k.subs = append(k.subs, i)
		}
	}
	slices.SortFunc(list, func(a, b *known) int { return Partition{Topic: a.id}.compare(Partition{Topic: b.id}) })
	for _, k := range list {
		if len(d.all)+int(k.n) > most {
			continue
		}
		t := len(d.subs)
		d.base[k.id] = t
		d.subs = append(d.subs, k.subs)
		d.first = append(d.first, len(d.all))
		for n := range k.n {
			d.all = append(d.all, Partition{Topic: k.id, Number: n})
			d.topic = append(d.topic, t)
			d.owner = append(d.owner, -1)
		}
	}
}

// keep leaves to each member what it has.
func (d *division) keep() {
	for i, m := range d.members {
		for _, g := range m.list {
			t, ok := d.base[g.Topic]
			if !ok {
				continue
			}
			p := d.first[t] + int(g.Number)
			if p >= len(d.all) || d.topic[p] != t {
				continue
			}
			if _, subscribed := slices.BinarySearch(d.subs[t], i); subscribed {
				d.give(p, i)
			}
		}
	}
}

func (d *division) give(p, to int) {
	if from := d.owner[p]; from >= 0 {
		d.count[from]--
	}
	d.owner[p] = to
	d.count[to]++
}

// fewest is the subscriber of a topic with the fewest partitions, the first of them.
func (d *division) fewest(topic int) int {
	best := d.subs[topic][0]
	for _, i := range d.subs[topic] {
		if d.count[i] < d.count[best] {
			best = i
		}
	}
	return best
}

// fill gives away what nobody has.
func (d *division) fill() {
	for p, owner := range d.owner {
		if owner < 0 {
			d.give(p, d.fewest(d.topic[p]))
		}
	}
}

// level moves partitions from those with the most to those with the fewest. Every move
// makes the sum of the squares of the counts smaller, so that it ends.
func (d *division) level() {
	parts := make([][]int, len(d.members))
	for p, i := range d.owner {
		parts[i] = append(parts[i], p)
	}
	order := make([]int, len(d.members))
	for i := range order {
		order[i] = i
	}
	few := make([]int, len(d.subs))
	for d.move(order, few, parts) {
	}
}

// move makes one move, and reports whether there was one.
func (d *division) move(order, few []int, parts [][]int) bool {
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(d.count[b], d.count[a]), cmp.Compare(a, b))
	})
	least := len(d.all)
	for t := range few {
		few[t] = d.fewest(t)
		least = min(least, d.count[few[t]])
	}
	for _, from := range order {
		if d.count[from] < least+2 {
			return false
		}
		for i := len(parts[from]) - 1; i >= 0; i-- {
			p := parts[from][i]
			to := few[d.topic[p]]
			if d.count[from] >= d.count[to]+2 {
				d.give(p, to)
				parts[from] = slices.Delete(parts[from], i, i+1)
				parts[to] = append(parts[to], p)
				return true
			}
		}
	}
	return false
}
