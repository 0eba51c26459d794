package broker

import (
	"github.com/mqd-broker/mqd/batch"
)

// converted says what came of a conversion.
type converted uint8

const (
	convertDone    converted = iota
	convertWaits             // for memory
	convertRefused           // the batch is invalid and has been answered
)

// convert makes a record batch of a plain batch.
func (b *Shard) convert(r *Produce) converted {
	h, err := batch.ParsePlainHeader(r.Batch, batch.MaxSize)
	if err != nil {
		b.invalid(r, err)
		return convertRefused
	}
	buf := b.plain.Get(min(batch.PlainBatchBound(h), b.plain.Large()))
	if buf == nil {
		b.stats.PlainWaits++
		return convertWaits
	}
	r.plain = buf
	now := b.drv.Clock().Wall() / 1e6
	data, err := batch.PlainToBatch(buf[:0], r.Batch, now)
	if err != nil {
		b.invalid(r, err)
		return convertRefused
	}
	if !b.check(r, data) {
		return convertRefused
	}
	return convertDone
}

// leastBatch is the size of the smallest record batch that a plain batch can become.
func leastBatch(h batch.PlainHeader) int {
	return batch.HeaderSize + int(h.Body) + batch.MinRecordSize*int(h.Count)
}
