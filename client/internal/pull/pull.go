// Package pull decides how much a consumer asks for at a time, and how much it lets wait.
//
// Near the end of a partition a fetch asks for little, so that what comes is handed on
// soon. An answer tells where the end is, so the next fetch knows what there is to get:
// it asks for that much, up to a bound of its own, and more answers may wait, of all
// partitions together as much as such a fetch brings. (As much for each of eight was
// measured to be slower than no more than two answers: what waits leaves the CPU's
// caches.) So the fetches of a consumer that is behind are as large as its lag, and small
// again when it has caught up; nothing has to be guessed and nothing is remembered but the
// last answer.
package pull

const (
	// minAsk is what a fetch may ask for whatever the budget has left, in bytes.
	minAsk = 64 << 10

	// minWaiting is how many answers of a partition may wait whatever their size. With one
	// being worked on, one more keeps the partition busy.
	minWaiting = 2

	// spare is by how much more records a fetch asks for than there were, in parts of 8:
	// producers go on while the answer is under way.
	spare = 1
)

// Size is how much one answer may be.
type Size struct{ Bytes, Records int }

// Policy is what the partitions of a consumer have in common.
type Policy struct {
	// Near is what a fetch asks for at the end of a partition, Far the most that it asks
	// for when there is more to get. Each is at least 1, and Far at least Near.
	Near, Far Size
	// Least is what the broker waits for, in bytes: a fetch asks for no less.
	Least int
	// Budget is the number of bytes that may be asked for and wait, over all partitions,
	// Feeds the number of those.
	Budget, Feeds int

	used    int // bytes
	waiting int // of them, in answers
}

// Feed is what has been asked for and what waits of one partition.
type Feed struct {
	lag     int // records behind the last answer
	size    int // bytes of a record in the last answer with any, 0: unknown
	asked   int // bytes of the fetch that is under way
	answers int // that wait
}

// Next is how much the next fetch of f asks for: nothing when enough waits already.
func (p *Policy) Next(f *Feed) (Size, bool) {
	ask := p.want(f)
	switch {
	case f.answers < minWaiting:
	case ask.Records <= p.Near.Records:
		return Size{}, false // near the end
	case p.waiting >= p.Far.Bytes || p.used+ask.Bytes > p.Budget:
		return Size{}, false
	}
	// A quarter of the budget is for what is asked for at the ends of all partitions; of
	// the rest a fetch takes half, because others may be behind as well.
	share := max(p.Budget/(4*max(p.Feeds, 1)), minAsk, p.Least)
	if ask.Records > p.Near.Records {
		share = max(share, (p.Budget-p.used)/2)
	}
	ask.Bytes = min(ask.Bytes, share)
	return ask, true
}

// want is what there is to get for f, within the bounds.
func (p *Policy) want(f *Feed) Size {
	records := f.lag + f.lag*spare/8
	ask := Size{Records: min(max(records, p.Near.Records), p.Far.Records), Bytes: p.Near.Bytes}
	if f.size > 0 && ask.Records > p.Near.Records {
		ask.Bytes = min(max(ask.Records*f.size, p.Near.Bytes), p.Far.Bytes)
	}
	return ask
}

// Commit is how many records of f are done with before their offset is worth a commit:
// as many as a fetch asks for, and at least so many.
func (p *Policy) Commit(f *Feed, least int) int {
	if least == 0 || f.lag <= p.Near.Records {
		return least
	}
	return max(least, p.want(f).Records)
}

// Ask notes that a fetch for f goes out.
func (p *Policy) Ask(f *Feed, s Size) {
	f.asked = s.Bytes
	p.used += f.asked
}

// Unask notes that no answer to the last fetch will be taken.
func (p *Policy) Unask(f *Feed) {
	p.used -= f.asked
	f.asked = 0
}

// Answered takes the place of Unask for a fetch with an answer: n bytes with so many
// records wait now, 0 if nothing does, and lag more follow in the log.
func (p *Policy) Answered(f *Feed, n, records int, lag int64) {
	p.Unask(f)
	f.lag = int(min(max(lag, 0), 1<<31))
	if n == 0 {
		return
	}
	f.answers++
	p.waiting += n
	p.used += n
	if records > 0 {
		f.size = n/records + 1
	}
}

// Taken notes that an answer of n bytes does not wait any more.
func (p *Policy) Taken(f *Feed, n int) {
	f.answers--
	p.waiting -= n
	p.used -= n
}

// Dropped forgets the lag: reading goes on somewhere else.
func (f *Feed) Dropped() { f.lag = 0 }
