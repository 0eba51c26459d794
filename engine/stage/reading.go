package stage

const (
	// readSamples and readBytes are how many samples, and of how many bytes, one reading
	// of the clock serves: a reading takes longer than all else that a sample does.
	readSamples = 8
	readBytes   = 16 << 10
)

// Reading is the newest reading of a clock within a turn of a loop, for samples that follow
// each other closely. It is at most the time of 8 samples, or of 16 KiB, behind.
type Reading struct {
	clock          interface{ Now() int64 }
	at             int64
	samples, bytes int
}

// NewReading returns one that reads a clock.
func NewReading(clock interface{ Now() int64 }) Reading { return Reading{clock: clock} }

// Now is the time, for something of so many bytes that began at a time. No
// reading is used from before that, or from before the turn began.
func (r *Reading) Now(turn, began int64, bytes int) int64 {
	r.samples++
	r.bytes += bytes
	if r.at < max(turn, began) || r.samples >= readSamples || r.bytes >= readBytes {
		r.at, r.samples, r.bytes = r.clock.Now(), 0, 0
	}
	return r.at
}
