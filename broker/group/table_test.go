package group

import (
	"slices"
	"testing"
)

// A request about many partitions divides them once and writes the group once, so that
// it costs what it is long, and not that times the table.
func TestAnAssignmentOfManyPartitionsIsWrittenOnce(t *testing.T) {
	const n = 1000
	r := newRig(t, Limits{})
	r.topics["orders"] = n
	a := r.claim("g", 1, "a")
	r.flush()
	before := len(r.log)
	var entries []Entry
	for i := range int32(n) {
		entries = append(entries, Entry{Partition: part("orders", n-1-i)})
	}
	entries = append(entries, Entry{Partition: part("orders", n)}, Entry{Partition: part("orders", 7)})
	if code := r.s.Assign(r.now, []byte("g"), entries, "a"); code != OK {
		t.Fatal(code)
	}
	for i, e := range entries {
		want := OK
		if i == n {
			want = Invalid
		}
		if e.Code != want {
			t.Fatalf("entry %d: %v, expected %v", i, e.Code, want)
		}
	}
	r.flush()
	if len(r.log) != before+1 || len(a.list) != n {
		t.Fatalf("%d records, %d partitions", len(r.log)-before, len(a.list))
	}
	// What is taken away is gone, also what the same request named before.
	taken := []Entry{{Partition: part("orders", 3)}, {Partition: part("orders", 4)}, {Partition: part("orders", 3)}}
	r.s.Assign(r.now, []byte("g"), taken, "")
	if d, _ := r.s.Describe(r.now, []byte("g")); len(d.Table) != n-2 || !slices.IsSortedFunc(d.Table, func(a, b Claimed) int { return a.compare(b.Partition) }) {
		t.Fatalf("%d rows", len(d.Table))
	}
}

// A table is as full as its limits, however it came to be, and never fuller.
func TestATableIsFilledToItsLimit(t *testing.T) {
	r := newRig(t, Limits{Record: 2048})
	r.topics["orders"] = 100
	fill := func(instance string) (n int) {
		var entries []Entry
		for i := range int32(100) {
			entries = append(entries, Entry{Partition: part("orders", i)})
		}
		r.s.Assign(r.now, []byte("g"), entries, instance)
		for _, e := range entries {
			if e.Code == OK {
				n++
			}
		}
		return n
	}
	most := 2048 / 4 / (claimSize + 1)
	if n := fill("a"); n != most {
		t.Fatalf("%d rows, expected %d", n, most)
	}
	if n := fill("b"); n != most {
		t.Fatalf("%d rows moved, expected %d", n, most)
	}
	// Longer names need more room than is left.
	if n := fill("instance"); n != 0 {
		t.Fatalf("%d rows grew in a full table", n)
	}
	if n := fill(""); n != 100 {
		t.Fatalf("%d rows taken away", n)
	}
	if code := r.s.Assign(r.now, []byte("none"), []Entry{{Partition: part("orders", 100)}}, "a"); code != OK || r.s.Groups() != 1 {
		t.Fatalf("%v, %d groups: one was made of which nothing is written", code, r.s.Groups())
	}
}

// Whether many partitions are asked about or few, what a member owns is left alone.
func TestWhatIsOwnedIsLeftAloneAmongMany(t *testing.T) {
	const n = 3 * fewQuestions
	r := newRig(t, Limits{})
	r.topics["orders"], r.topics["ticks"] = n, n
	r.join("g", 1, "orders")
	var entries []Entry
	var parts []Partition
	for i := range int32(n) {
		for _, topic := range []string{"orders", "ticks"} {
			parts = append(parts, part(topic, i))
			entries = append(entries, Entry{Partition: part(topic, i), Next: 5, Epoch: -1})
		}
	}
	for _, k := range []int{4, 2 * n} {
		if code := r.s.Reset(r.now, 0, []byte("g"), entries[:k]); code != OK {
			t.Fatal(code)
		}
		codes := make([]Code, k)
		if code := r.s.Forget([]byte("g"), parts[:k], codes, nil); code != OK {
			t.Fatal(code)
		}
		for i := range k {
			want := [...]Code{Active, OK}[i%2]
			if entries[i].Code != want || codes[i] != want {
				t.Fatalf("of %d, entry %d: %v and %v, expected %v", k, i, entries[i].Code, codes[i], want)
			}
			entries[i].Code = OK
		}
	}
}
