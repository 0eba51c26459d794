package checkpoint

import (
	"encoding/binary"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/engine/producers"
	"github.com/mqd-broker/mqd/internal/invariant"
)

const (
	producerBytes      = 16
	producerBatchBytes = 24

	// producerJumps is the flag of a producer that need not follow its newest batch.
	producerJumps = 1
)

// Positions in a producer.
const (
	rID    = 0  // i64
	rEpoch = 8  // i16
	rFlags = 10 // u8
	rCount = 11 // u8
	rZero  = 12 // 4 bytes
)

// Positions in a batch of a producer.
const (
	bBase       = 0  // i64
	bAppendTime = 8  // i64
	bSequence   = 16 // i32
	bCount      = 20 // i32
)

// Each index is 0, or a layout above has a gap or an overlap and this does not
// compile.
var (
	_ = [1]struct{}{}[rEpoch-(rID+8)]
	_ = [1]struct{}{}[rFlags-(rEpoch+2)]
	_ = [1]struct{}{}[rCount-(rFlags+1)]
	_ = [1]struct{}{}[rZero-(rCount+1)]
	_ = [1]struct{}{}[producerBytes-(rZero+4)]

	_ = [1]struct{}{}[bAppendTime-(bBase+8)]
	_ = [1]struct{}{}[bSequence-(bAppendTime+8)]
	_ = [1]struct{}{}[bCount-(bSequence+4)]
	_ = [1]struct{}{}[producerBatchBytes-(bCount+4)]
)

// AddProducer appends a producer to the partition that was added last.
func (w *Writer) AddProducer(st *producers.State) {
	if !w.open || w.partitions == 0 || st.N < 1 || st.N > producers.Window {
		invariant.Violated("checkpoint: a producer with batches is added behind its partition")
	}
	b := w.grow(w.buf, producerBytes+st.N*producerBatchBytes)
	be := binary.BigEndian
	be.PutUint64(b[rID:], uint64(st.ID))
	be.PutUint16(b[rEpoch:], uint16(st.Epoch))
	if st.Jumps {
		b[rFlags] = producerJumps
	}
	b[rCount] = byte(st.N)
	for i := range st.N {
		e, b := &st.Batches[i], b[producerBytes+i*producerBatchBytes:]
		be.PutUint64(b[bBase:], uint64(e.Base))
		be.PutUint64(b[bAppendTime:], uint64(e.AppendTime))
		be.PutUint32(b[bSequence:], uint32(e.Sequence))
		be.PutUint32(b[bCount:], uint32(e.Count))
	}
	w.producers++
}

// producers reads the producers of a partition.
func (d *decoder) producers(p *Partition, count uint32) error {
	if least := uint64(count) * (producerBytes + producerBatchBytes); least > uint64(len(d.data)-d.at) {
		return bad(ErrTruncated, "producers", int64(d.at), int64(least), int64(len(d.data)-d.at))
	}
	if count == 0 {
		return nil
	}
	p.Producers = make([]producers.State, count)
	known := make(map[int64]bool, count)
	for i := range p.Producers {
		st := &p.Producers[i]
		if err := d.producer(st, p.NextOffset); err != nil {
			return err
		}
		if known[st.ID] {
			return d.bad(producerBytes, "producer id", rID, -1, st.ID)
		}
		known[st.ID] = true
	}
	return nil
}

func (d *decoder) producer(st *producers.State, end int64) error {
	b, ok := d.next(producerBytes)
	if !ok {
		return bad(ErrTruncated, "producer", int64(d.at), producerBytes, int64(len(d.data)-d.at))
	}
	be := binary.BigEndian
	*st = producers.State{
		ID: int64(be.Uint64(b[rID:])), Epoch: int16(be.Uint16(b[rEpoch:])), Jumps: b[rFlags] == producerJumps, N: int(b[rCount]),
	}
	switch {
	case st.ID < 0:
		return d.bad(producerBytes, "producer id", rID, 0, st.ID)
	case st.Epoch < 0:
		return d.bad(producerBytes, "producer epoch", rEpoch, 0, int64(st.Epoch))
	case b[rFlags] > producerJumps:
		return d.bad(producerBytes, "producer flags", rFlags, producerJumps, int64(b[rFlags]))
	case st.N < 1 || st.N > producers.Window:
		return d.bad(producerBytes, "batches", rCount, producers.Window, int64(st.N))
	case !allZero(b[rZero:]):
		return d.bad(producerBytes, "reserved bytes", rZero, 0, 1)
	}
	at := int64(0)
	for i := range st.N {
		b, ok := d.next(producerBatchBytes)
		if !ok {
			return bad(ErrTruncated, "batch", int64(d.at), producerBatchBytes, int64(len(d.data)-d.at))
		}
		e := producers.Batch{
			Base: int64(be.Uint64(b[bBase:])), AppendTime: int64(be.Uint64(b[bAppendTime:])),
			Sequence: int32(be.Uint32(b[bSequence:])), Count: int32(be.Uint32(b[bCount:])),
		}
		switch {
		case e.Base < at || e.Base > end:
			return d.bad(producerBatchBytes, "base offset", bBase, at, e.Base)
		case e.Sequence < 0:
			return d.bad(producerBatchBytes, "sequence", bSequence, 0, int64(e.Sequence))
		case e.Count < 1 || e.Count > batch.MaxRecords || int64(e.Count) > end-e.Base:
			return d.bad(producerBatchBytes, "records", bCount, end-e.Base, int64(e.Count))
		}
		st.Batches[i], at = e, e.End()
	}
	return nil
}
