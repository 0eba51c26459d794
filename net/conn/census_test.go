package conn

import "testing"

// So many come at once, and one more each time that its share of a second has passed, to
// the nanosecond; who is refused uses nothing up.
func TestSoManyConnectionsComeInASecond(t *testing.T) {
	for _, n := range []int64{1, 2, 3, 7, 50, 1000} {
		c := NewCensus(CensusLimits{Total: 1 << 20, PerSecond: int(n)})
		each := second / n
		come := func(now int64) bool {
			_, ok := c.enter(now, "10.0.0.1:1")
			return ok
		}
		now := 5 * second
		for i := range n {
			if !come(now) {
				t.Fatalf("%d a second: number %d at once was refused", n, i+1)
			}
		}
		next := now + (n+1)*each - second // when there is time for one more
		for _, at := range []int64{now, now, next - 1} {
			if come(at) {
				t.Errorf("%d a second: one more came after %d ns, expected after %d", n, at-now, next-now)
			}
		}
		for i := range n {
			if at := next + i*each; !come(at) || come(at) || come(at+each-1) {
				t.Errorf("%d a second: not exactly one came %d ns after the first ones", n, at-now)
			}
		}
		later := next + 10*second
		for i := range n {
			if !come(later) {
				t.Errorf("%d a second: behind a pause number %d was refused", n, i+1)
			}
		}
		if come(later) {
			t.Errorf("%d a second: a pause lets more than %d come at once", n, n)
		}
		if got := c.Count(); int64(got) != 3*n {
			t.Errorf("%d a second: %d are counted, %d came", n, got, 3*n)
		}
	}
	c := NewCensus(CensusLimits{Total: 5})
	for i := range 6 {
		if _, ok := c.enter(0, ""); ok != (i < 5) {
			t.Errorf("without a limit in a second number %d of 5: %v", i+1, ok)
		}
	}
}
