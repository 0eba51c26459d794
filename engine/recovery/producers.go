package recovery

import (
	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/engine/producers"
)

// maxProducers bounds the idempotent producers of which a start knows, in all partitions.
const maxProducers = producers.MostMax

// restoreProducers takes what the checkpoints say of producers. The batches behind the
// checkpoints are added as they are replayed, one by one and in their order, so that the
// state is that of what is there: neither a batch that has been lost is known, which
// nobody could have back by sending it again, nor is one forgotten that has not.
func (r *recovery) restoreProducers() error {
	for _, p := range r.sorted() {
		r.producers.Restore(&p.producers, p.rec.Producers, 0)
	}
	return nil
}

// noteProducer notes the producer of a batch that has been replayed. A batch without a
// sequence number, such as a marker of a transaction, is none of its sequence.
func (r *recovery) noteProducer(p *replayed, h *batch.Header, appendTime int64) {
	if h.ProducerID != batch.NoProducer && h.BaseSequence >= 0 {
		r.producers.Add(&p.producers, h, appendTime, 0)
	}
}
