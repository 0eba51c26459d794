package ringbuf

import (
	"math"
	"runtime"
	"testing"
	"unsafe"
)

func TestCapacityMustBeAPowerOfTwoWithinBounds(t *testing.T) {
	for _, n := range []int{MinCapacity, 4, 1024, MaxCapacity} {
		if got := NewSPSC[byte](n).Cap(); got != n {
			t.Errorf("a ring of %d slots says it has %d", n, got)
		}
	}
	for _, n := range []int{math.MinInt, -2, 0, 1, 3, 6, 1000, MaxCapacity + 1, MaxCapacity * 2} {
		mustViolate(t, "ringbuf: a ring's capacity is a power of two within its bounds", func() { NewSPSC[byte](n) })
	}
}

func TestPushedMessagesAppearTogetherAtPublish(t *testing.T) {
	r := NewSPSC[int](4)
	for i := 1; i <= 3; i++ {
		if !r.Push(i) {
			t.Fatalf("push %d refused", i)
		}
		if _, ok := r.Take(); ok || !r.Empty() {
			t.Fatal("a message is visible before Publish")
		}
	}
	r.Publish()
	for i := 1; i <= 3; i++ {
		if v, ok := r.Peek(); !ok || v != i {
			t.Fatalf("peek: %d %v, expected %d", v, ok, i)
		}
		if v, ok := r.Take(); !ok || v != i {
			t.Fatalf("take: %d %v, expected %d", v, ok, i)
		}
	}
	if v, ok := r.Take(); ok || v != 0 {
		t.Fatalf("an empty ring gave %d %v", v, ok)
	}
}

func TestTakenSlotsReturnTogetherAtRelease(t *testing.T) {
	r := NewSPSC[int](2)
	r.Push(1)
	r.Push(2)
	if r.Push(3) {
		t.Fatal("a full ring took a third message")
	}
	r.Publish()
	r.Take()
	r.Take()
	if r.Push(3) || r.Free() != 0 {
		t.Fatal("a slot came back before Release")
	}
	r.Release()
	if r.Free() != 2 || !r.Push(3) || !r.Push(4) || r.Push(5) {
		t.Fatal("Release did not hand back exactly what was taken")
	}
}

func TestPopHandsItsSlotBackAtOnce(t *testing.T) {
	r := NewSPSC[int](2)
	for i := 1; i <= 100; i++ {
		if !r.Push(i) {
			t.Fatalf("push %d refused", i)
		}
		r.Publish()
		if v, ok := r.Pop(); !ok || v != i {
			t.Fatalf("pop: %d %v, expected %d", v, ok, i)
		}
	}
	if _, ok := r.Pop(); ok {
		t.Fatal("an empty ring popped something")
	}
}

func TestPublishAndReleaseWithNothingNewChangeNothing(t *testing.T) {
	r := NewSPSC[int](2)
	r.Publish()
	r.Release()
	r.Push(1)
	r.Publish()
	r.Publish()
	r.Release()
	if v, ok := r.Pop(); !ok || v != 1 {
		t.Fatalf("pop: %d %v", v, ok)
	}
	if !r.Empty() || r.Free() != 2 {
		t.Fatal("the ring is not empty again")
	}
}

func TestConsumedSlotsKeepNoPointerAlive(t *testing.T) {
	r := NewSPSC[*[1 << 16]byte](4)
	gone := make(chan struct{})
	func() {
		p := new([1 << 16]byte)
		runtime.AddCleanup(p, func(done chan struct{}) { close(done) }, gone)
		r.Push(p)
	}()
	r.Publish()
	if _, ok := r.Take(); !ok { // not yet released: Take itself must clear
		t.Fatal("nothing to take")
	}
	for collected := false; !collected; {
		runtime.GC()
		select {
		case <-gone:
			collected = true
		default:
			if occupied(r) != 0 {
				t.Fatal("a consumed slot still holds its pointer")
			}
			runtime.Gosched()
		}
	}
	runtime.KeepAlive(r)
}

func TestACorruptCounterIsAViolation(t *testing.T) {
	r := NewSPSC[int](2)
	r.released.Store(1) // ahead of pushed
	mustViolate(t, "ringbuf: a ring holds no more than its capacity", func() { r.Free() })
	r = NewSPSC[int](2)
	r.published.Store(3)
	mustViolate(t, "ringbuf: a ring publishes no more than its capacity", func() { r.Take() })
}

// Fields that different threads write, or that one thread writes and another
// reads often, must be a whole line apart wherever the allocator puts the ring.
func TestFieldsOfDifferentOwnersAreALineApart(t *testing.T) {
	var r SPSC[int]
	groups := []struct {
		name       string
		start, end uintptr
	}{
		{"shared, cold", unsafe.Offsetof(r.slots), unsafe.Offsetof(r.slots) + unsafe.Sizeof(r.slots)},
		{"producer's own", unsafe.Offsetof(r.pushed), unsafe.Offsetof(r.headSeen) + unsafe.Sizeof(r.headSeen)},
		{"published", unsafe.Offsetof(r.published), unsafe.Offsetof(r.published) + unsafe.Sizeof(r.published)},
		{"consumer's own", unsafe.Offsetof(r.taken), unsafe.Offsetof(r.tailSeen) + unsafe.Sizeof(r.tailSeen)},
		{"released", unsafe.Offsetof(r.released), unsafe.Offsetof(r.released) + unsafe.Sizeof(r.released)},
		{"whatever follows the ring", unsafe.Sizeof(r), unsafe.Sizeof(r)},
	}
	end := uintptr(0) // of whatever precedes the ring
	for _, g := range groups {
		if g.start < end+lineSize {
			t.Errorf("%s starts at %d, less than %d bytes behind what ends at %d", g.name, g.start, lineSize, end)
		}
		end = g.end
	}

	var l link[int]
	if unsafe.Offsetof(l.requestsOut) < lineSize ||
		unsafe.Sizeof(l)-unsafe.Offsetof(l.refused)-unsafe.Sizeof(l.refused) < lineSize {
		t.Error("a link shares a line with its neighbours")
	}
	var s Sleep
	if unsafe.Offsetof(s.asleep) < lineSize || unsafe.Offsetof(s.sources)-unsafe.Offsetof(s.asleep) < lineSize {
		t.Error("the sleeping flag shares a line with other fields")
	}
}

func TestRingOperationsDoNotAllocate(t *testing.T) {
	r := NewSPSC[descriptor](8)
	lost := false
	allocs := testing.AllocsPerRun(1000, func() {
		for range 3 {
			lost = lost || !r.Push(descriptor{})
		}
		r.Publish()
		_, peeked := r.Peek()
		_, popped := r.Pop()
		_, taken := r.Take()
		_, last := r.Take()
		lost = lost || !peeked || !popped || !taken || !last
		r.Release()
	})
	if lost || !r.Empty() {
		t.Fatal("a message got lost")
	}
	if allocs != 0 {
		t.Fatalf("%v allocations", allocs)
	}
}
