package journal

import "math"

// unlimited is the allowance where everything up to the head may be written.
const unlimited = math.MaxInt64

// A replay has to look for rounds behind the last one that it can read, because they
// may prove that what it cannot read was durable. So that this does not mean the whole
// ring, a journal promises where there are none: each anchor names a limit, a little
// further on than the newest round (Options.Reach), and nothing is written behind it
// before an anchor with a further one is durable. That one is written when half of the
// way is used up, so that nobody waits for it.

// largest is the size of the largest round with these options, and what may be skipped
// at the end of the ring before it.
func (o *Options) largest() int64 {
	return 2 * int64(max(o.RoundBytes, roundSize(1, o.MaxBody)))
}

// limit is the place up to which the journal may write, behind its tail, with an anchor
// that makes head the head: 0 where that is everything. It is never nearer than the
// limit of the anchor before, or the head of one that had none: a crash may leave either.
func (j *Journal) limit(head int64) int64 {
	free := j.ring.size()
	if head != j.tail {
		free = j.ring.distance(j.tail, head)
	}
	if j.opts.Reach >= free {
		return 0
	}
	return j.ring.after(j.tail, j.opts.Reach)
}

// allow sets what may be written when a is the durable anchor.
func (j *Journal) allow(a *Anchor) {
	j.left = unlimited
	if a.Limit != 0 {
		j.left = j.ring.distance(j.tail, a.Limit)
	}
}

// limitDue reports whether it is time for an anchor with a further limit.
func (j *Journal) limitDue() bool { return j.left < j.opts.Reach/2 }
