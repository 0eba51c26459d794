package broker

// producerBlock is how many producer ids the catalog takes at a time.
const producerBlock = 1000

// producerIDs are ids that have been taken from the catalog and not given out. They come
// from blocks that are durable in the catalog before the first of them is given out; what
// is left of a block when the process ends is never used. So no id is given out twice.
type producerIDs struct{ next, end int64 }

// give gives the next id to r, if there is one.
func (p *producerIDs) give(r *Admin) bool {
	if p.next == p.end {
		return false
	}
	r.Producer = p.next
	p.next++
	return true
}
