package broker

import (
	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/broker/options"
	"github.com/mqd-broker/mqd/engine/aio"
)

// plainPool is a shard's memory for converting plain batches: buffers of two sizes,
// taken from the driver when they are first needed and never more than the limit.
type plainPool struct {
	drv   aio.Driver
	large int // size of the larger buffers
	left  int // bytes that may still be taken from the driver
	free  [2][][]byte
}

func (p *plainPool) init(drv aio.Driver, o Options) {
	p.drv, p.large, p.left = drv, o.PlainLarge(), o.PlainBytes
}

// get returns a buffer of at least n bytes, n no more than the larger size; nil
// when there is none.
func (p *plainPool) get(n int) []byte {
	class, size := 0, options.PlainSmall
	if n > options.PlainSmall {
		class, size = 1, p.large
	}
	if free := p.free[class]; len(free) > 0 {
		buf := free[len(free)-1]
		p.free[class] = free[:len(free)-1]
		return buf
	}
	// Small buffers leave room for a large one, so that none is ever impossible.
	keep := 0
	if class == 0 && len(p.free[1]) == 0 && p.left < 2*p.large {
		keep = p.large
	}
	if p.left-keep < size {
		return nil
	}
	buf, err := p.drv.Alloc(size)
	if err != nil {
		p.left = 0
		return nil
	}
	p.left -= size
	return buf
}

// put takes a buffer back.
func (p *plainPool) put(buf []byte) {
	class := 0
	if len(buf) > options.PlainSmall {
		class = 1
	}
	p.free[class] = append(p.free[class], buf)
}

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
	buf := b.plain.get(min(batch.PlainBatchBound(h), b.plain.large))
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
