package producers

import "github.com/mqd-broker/mqd/batch"

// Verdict says what is to be done with a batch of an idempotent producer.
type Verdict uint8

const (
	// Fresh: the batch is to be appended.
	Fresh Verdict = iota
	// Duplicate: it has been appended, and is among those that are remembered.
	Duplicate
	// Forgotten: it has been appended, so long ago that its offset is not known.
	Forgotten
	// OutOfOrder: it does not follow the newest one, or is not the batch that was
	// appended under its sequence number.
	OutOfOrder
	// Fenced: the producer's epoch is older than one that has written.
	Fenced
)

// String is the verdict's name.
func (v Verdict) String() string {
	return [...]string{"fresh", "duplicate", "forgotten", "out of order", "fenced"}[v]
}

// Check judges a batch by its header. h has a producer id; of a [Duplicate] the second
// result is the batch as it was appended. Nothing changes but that a producer is
// forgotten which has been silent for too long, and that a place where a producer may
// begin is its own from then on.
//
// The rules are Kafka's. Sequence numbers count records and go from 2^31-1 to 0. A
// producer that is not known may begin anywhere, a new epoch of a known one begins at
// 0, and everything else follows what was there before. Two rules more: behind a loss of
// batches that had been acknowledged a producer goes on where it is; and where one may
// begin anywhere, the first batch that is judged is awaited, if it is not appended then.
func (t *Table) Check(l *Log, h *batch.Header, now int64) (Verdict, Batch) {
	i := t.find(l, h.ProducerID)
	if i == 0 {
		return t.adopt(l, h, now)
	}
	e := t.entry(i)
	switch {
	case now-e.at > t.expiry:
		t.remove(i)
		return t.adopt(l, h, now)
	case h.ProducerEpoch < e.epoch:
		return Fenced, Batch{}
	case h.ProducerEpoch > e.epoch:
		if h.BaseSequence != 0 {
			return OutOfOrder, Batch{}
		}
		return Fresh, Batch{}
	}
	verdict, was := e.follows(h)
	if verdict == Fresh && e.jumps {
		return t.adopt(l, h, now)
	}
	return verdict, was
}

// follows judges a batch of the entry's epoch.
func (e *entry) follows(h *batch.Header) (Verdict, Batch) {
	known := e.batches[:e.n]
	for i := len(known) - 1; i >= 0; i-- {
		if b := &known[i]; b.Sequence == h.BaseSequence && b.Count == h.LastOffsetDelta+1 {
			return Duplicate, *b
		}
	}
	ahead := distance(known[len(known)-1].next(), h.BaseSequence)
	switch {
	case ahead == 0, ahead > 0 && e.jumps:
		return Fresh, Batch{}
	case ahead < 0 && distance(known[0].Sequence, h.BaseSequence) < 0:
		return Forgotten, Batch{}
	}
	return OutOfOrder, Batch{}
}

// distance is how far sequence number to lies ahead of from, negative if it lies behind.
// Of the two ways round the shorter counts.
func distance(from, to int32) int32 {
	d := (to - from) & maxSequence
	if d > maxSequence/2 {
		d = d - maxSequence - 1 // 2^31 itself has no place in 32 bits
	}
	return d
}
