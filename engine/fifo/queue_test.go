package fifo

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestElementsComeOutInTheOrderInWhichTheyWentIn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q Queue[int]
		in, out := 0, 0
		for range rapid.IntRange(1, 60).Draw(t, "rounds") {
			for range rapid.IntRange(0, 90).Draw(t, "pushes") {
				q.Push(in)
				in++
			}
			for range rapid.IntRange(0, in-out).Draw(t, "takes") {
				if f := q.Front(); f == nil || *f != out {
					t.Fatalf("front %v, expected %d", f, out)
				}
				if v := q.Take(); v != out {
					t.Fatalf("took %d, expected %d", v, out)
				}
				out++
			}
			if q.Len() != in-out || (q.Front() == nil) != (in == out) {
				t.Fatalf("%d elements, expected %d", q.Len(), in-out)
			}
		}
	})
}

func TestAQueueThatHasGrownAllocatesNothingAndKeepsNothing(t *testing.T) {
	var q Queue[*int]
	v := new(int)
	if n := testing.AllocsPerRun(100, func() {
		for range 1000 {
			q.Push(v)
		}
		for q.Len() > 0 {
			q.Take()
		}
	}); n != 0 {
		t.Fatalf("%v allocations", n)
	}
	for i := range q.ring {
		if q.ring[i] != nil {
			t.Fatal("an element that was taken is still held")
		}
	}
}

func TestTakingFromAnEmptyQueueIsABug(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Fatal("something was taken from an empty queue")
		}
	}()
	new(Queue[int]).Take()
}

func TestAPassComesToEachElementOnce(t *testing.T) {
	var q Queue[int]
	for i := range 6 {
		q.Push(i)
	}
	var seen []int
	q.Pass(func(v int) bool {
		seen = append(seen, v)
		q.Pass(func(int) bool { t.Fatal("a pass within a pass"); return true })
		if v == 1 {
			q.Push(6) // it waits for the next pass
		}
		return v%2 == 0
	})
	if !slices.Equal(seen, []int{0, 1, 2, 3, 4, 5}) {
		t.Errorf("seen %v", seen)
	}
	seen = nil
	q.Pass(func(v int) bool { seen = append(seen, v); return true })
	if !slices.Equal(seen, []int{6, 1, 3, 5}) || q.Len() != 0 {
		t.Errorf("seen %v in the next pass, %d are left", seen, q.Len())
	}
}
