package engine

import (
	"bytes"
	"slices"

	"github.com/mqd-broker/mqd/batch"
)

// modelProducer is an idempotent producer of a partition.
type modelProducer struct {
	id      int64
	epoch   int16
	next    int32         // sequence number
	batches []*modelBatch // of the epoch
}

// producer draws the producer of a batch, or none, and sometimes has it begin an epoch.
func (p *modelPart) producer() *modelProducer {
	m := p.run
	i := m.rng.IntN(2 * len(p.producers))
	if i >= len(p.producers) {
		return nil
	}
	if p.producers[i] == nil {
		m.producers++
		p.producers[i] = &modelProducer{id: m.producers, next: []int32{0, 5, 1<<31 - 3}[m.rng.IntN(3)]}
	}
	pr := p.producers[i]
	if m.rng.IntN(40) == 0 {
		pr.begin()
	}
	return pr
}

// begin begins the next epoch.
func (pr *modelProducer) begin() {
	pr.epoch, pr.next, pr.batches = pr.epoch+1, 0, nil
}

// appended notes a batch that has been accepted.
func (pr *modelProducer) appended(b *modelBatch) {
	for _, o := range pr.batches {
		o.newer++
	}
	pr.batches = append(pr.batches, b)
	pr.next = (pr.next + int32(b.last-b.base) + 1) & (1<<31 - 1)
}

// restarted forgets what a start has not found, and goes on behind the rest, as a client
// does that sends again what is missing.
func (pr *modelProducer) restarted() {
	pr.batches = slices.DeleteFunc(pr.batches, func(b *modelBatch) bool { return b.dead })
	if len(pr.batches) == 0 {
		pr.begin()
		return
	}
	last := &pr.batches[len(pr.batches)-1].req.Header
	pr.next = (last.LastSequence() + 1) & (1<<31 - 1)
}

// modelRetry is a batch that is sent again.
type modelRetry struct {
	req Append
	b   *modelBatch
}

// retry sends one of the newest five batches of a producer again. It is there, so it is
// known, whatever has happened since.
func (m *modelRun) retry(p *modelPart) {
	pr := p.producers[m.rng.IntN(len(p.producers))]
	if pr == nil || len(pr.batches) == 0 {
		return
	}
	newest := pr.batches[max(0, len(pr.batches)-5):]
	q := &modelRetry{b: newest[m.rng.IntN(len(newest))]}
	if q.b.newer >= 5 { // there have been others, which are lost
		return
	}
	a := &q.req
	a.Part, a.Owner, a.Batch = p.part, q, bytes.Clone(q.b.bytes)
	var err error
	if a.Header, err = batch.Check(a.Batch, len(a.Batch)); err != nil {
		m.failf("check: %v", err)
	}
	m.note("retry %s: %d to %d", p.name(), q.b.base, q.b.last)
	end := p.part.End()
	m.unacked++
	switch err = p.part.store.Append(a); {
	case err == ErrBusy:
		m.unacked--
	case err != nil || p.part.End() != end:
		m.failf("%s: retry of %d to %d: log end %d, before %d, %v", p.name(), q.b.base, q.b.last, p.part.End(), end, err)
	}
}

// Appended notes what the answer to a retry promises: what an answer to the first one does.
func (q *modelRetry) Appended(a *Append) {
	b := q.b
	r := b.m.run
	r.unacked--
	if a.Err != nil {
		if !r.mayFail {
			r.failf("retry of %d of %s: %v", b.base, b.m.name(), a.Err)
		}
		return
	}
	if a.Base != b.base || a.Class == ClassNone {
		r.failf("%s: retry of the batch at %d answered with %d, %v", b.m.name(), b.base, a.Base, a.Class)
	}
	b.acked = true
	b.kill = b.kill || a.Class >= ClassWritten
	b.cut = b.cut || a.Class == ClassFlushed
	b.m.observe(b)
	if d := b.m.part.Durable(); d <= b.last {
		r.failf("%s: retry acknowledged up to %d, durable %d", b.m.name(), b.last, d)
	}
}
