package producers

import (
	"cmp"
	"slices"
)

// enterAge enters an entry as the youngest.
func (t *Table) enterAge(i uint32) {
	e := t.entry(i)
	e.older, e.younger = t.youngest, 0
	if t.youngest != 0 {
		t.entry(t.youngest).younger = i
	} else {
		t.oldest = i
	}
	t.youngest = i
}

// leaveAge takes an entry out of the list by age.
func (t *Table) leaveAge(i uint32) {
	e := t.entry(i)
	if e.older != 0 {
		t.entry(e.older).younger = e.younger
	} else {
		t.oldest = e.younger
	}
	if e.younger != 0 {
		t.entry(e.younger).older = e.older
	} else {
		t.youngest = e.older
	}
}

// sort puts restored entries, which came partition by partition, in the order of their
// newest batches. It happens once, when one may have to go.
func (t *Table) sort() {
	if !t.unsorted {
		return
	}
	t.unsorted = false
	all := make([]uint32, 0, t.n)
	for i := t.oldest; i != 0; i = t.entry(i).younger {
		all = append(all, i)
	}
	slices.SortStableFunc(all, func(a, b uint32) int {
		x, y := t.entry(a), t.entry(b)
		return cmp.Compare(x.batches[x.n-1].AppendTime, y.batches[y.n-1].AppendTime)
	})
	t.oldest, t.youngest = 0, 0
	for _, i := range all {
		t.enterAge(i)
	}
}

// Expire forgets at most n producers that have been silent for the expiry at time now,
// and returns how many it has forgotten.
func (t *Table) Expire(now int64, n int) int {
	t.sort()
	gone := 0
	for gone < n && t.oldest != 0 && now-t.entry(t.oldest).at > t.expiry {
		t.remove(t.oldest)
		gone++
	}
	return gone
}
