package sim

// random is the SplitMix64 generator: small, seedable, and the same in every
// release of Go, so that a seed names one run for ever.
type random uint64

func (r *random) next() uint64 {
	*r += 0x9e3779b97f4a7c15
	return mix(uint64(*r))
}

// Below returns a number in [0, n); 0 when n <= 0.
func (r *random) Below(n int64) int64 {
	if n <= 0 {
		return 0
	}
	return int64(r.next() % uint64(n))
}

// chance is true in permille of 1000 cases.
func (r *random) chance(permille int64) bool { return r.Below(1000) < permille }

// mix is SplitMix64's finaliser; it also folds the trace.
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
