package segment

// Chain is what is recorded of a partition's history, for checks that the bytes
// of a log alone do not allow. checkpoint.EpochTable is one. A job calls it on
// its helper, so it must not change meanwhile.
//
// A nil Chain stands for a partition without gaps, whose epochs are not known.
type Chain interface {
	// AllowsGap reports whether offsets may jump from from, which would be
	// next, to to.
	AllowsGap(from, to int64) bool
	// EpochAt is the leader epoch of the batches at offset, if it is recorded.
	EpochAt(offset int64) (epoch int32, ok bool)
}

// Compacted is the chain of a compacted log: offsets may jump anywhere, epochs
// are those of c, which may be nil.
func Compacted(c Chain) Chain { return compacted{c} }

type compacted struct{ Chain }

func (compacted) AllowsGap(_, _ int64) bool { return true }

func (c compacted) EpochAt(offset int64) (int32, bool) {
	if c.Chain == nil {
		return 0, false
	}
	return c.Chain.EpochAt(offset)
}
