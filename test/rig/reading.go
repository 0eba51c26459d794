package rig

import (
	"fmt"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/net/wire"
)

// Reader is told what a reading finds, in order.
type Reader interface {
	// Record is a record. It is valid during the call.
	Record(offset int64, r *batch.RecordView)
	// Skip says that the broker told: nothing is from offset from up to to.
	Skip(from, to int64)
}

// Compacted is a Reader that tells apart why there is nothing at an offset. Others are told
// of a skip.
type Compacted interface {
	// Gone says that a batch stands for the offsets from from up to to and has no records
	// there.
	Gone(from, to int64)
}

// Fetcher asks a broker for batches, which are valid until the next call.
type Fetcher interface {
	Fetch(wire.FetchRequest) (wire.FetchResponse, error)
}

// ReadAll is [ReadAll] over the connection.
func (c *Conn) ReadAll(topic wire.TopicID, partition int32, from, end int64, to Reader) error {
	return ReadAll(c, topic, partition, from, end, to)
}

// ReadAll reads a partition from offset from, up to end and perhaps beyond.
//
// An offset that is passed over is told of in one way: whoever asks for it gets
// what comes behind it, in place of an error. So where records jump within an
// answer the offset behind the jump is asked for again.
func ReadAll(c Fetcher, topic wire.TopicID, partition int32, from, end int64, to Reader) error {
	r := &reading{c: c, topic: topic, partition: partition, next: from, to: to}
	for r.next < end {
		before := r.next
		if err := r.step(); err != nil {
			return fmt.Errorf("partition %d at offset %d: %w", partition, before, err)
		}
		if r.next == before {
			return fmt.Errorf("partition %d at offset %d: the broker has nothing although the end is %d", partition, before, end)
		}
	}
	return nil
}

type reading struct {
	c         Fetcher
	topic     wire.TopicID
	partition int32
	next      int64
	to        Reader
	plain     []byte // decompressed
}

// fetch asks for what is at an offset.
func (r *reading) fetch(offset int64) (wire.FetchResponse, error) {
	f, err := r.c.Fetch(wire.FetchRequest{Topic: r.topic, Partition: r.partition, Offset: offset, MaxBytes: 4 << 20, MaxRecords: 1 << 20})
	switch {
	case err != nil:
		return f, err
	case f.Code != wire.CodeNone:
		return f, fmt.Errorf("%v (valid %d to %d, next %d)", f.Code, f.LogStart, f.Durable, f.NextOffset)
	case f.LogStart > f.Durable || f.Durable > f.End:
		return f, fmt.Errorf("log start %d, durable %d, end %d are not in order", f.LogStart, f.Durable, f.End)
	case f.NextOffset < offset || f.NextOffset > f.Durable && f.NextOffset > offset:
		return f, fmt.Errorf("next offset %d with durable %d", f.NextOffset, f.Durable)
	}
	return f, nil
}

// step takes one answer.
func (r *reading) step() error {
	f, err := r.fetch(r.next)
	if err != nil {
		return err
	}
	asked := r.next
	for rest := f.Batches; len(rest) > 0; {
		var one []byte
		if one, rest, err = batch.Split(rest); err != nil {
			return err
		}
		jump, err := r.batch(one, asked, f.Durable)
		if err != nil {
			return err
		}
		if jump {
			return nil
		}
	}
	if f.NextOffset > r.next {
		return r.skip(f.NextOffset)
	}
	if f.NextOffset < r.next {
		return fmt.Errorf("next offset %d behind records up to %d", f.NextOffset, r.next-1)
	}
	return nil
}

// batch takes one batch of the answer to a fetch at offset asked. It returns true,
// and takes no more, before a jump that was not at the beginning.
func (r *reading) batch(one []byte, asked, durable int64) (jump bool, err error) {
	h, err := batch.CheckStored(one)
	if err != nil {
		return false, err
	}
	if last := h.BaseOffset + int64(h.LastOffsetDelta); last >= durable {
		return false, fmt.Errorf("offset %d was served, and the durable offset is %d", last, durable)
	}
	body := one[batch.AtRecords:]
	if h.Attributes.Codec() != batch.CodecNone {
		if r.plain, err = batch.Decompress(r.plain[:0], h, body, batch.DefaultDecodeLimit); err != nil {
			return false, err
		}
		body = r.plain
	}
	it := h.Records(body)
	for it.Next() {
		v := it.Record()
		if v.Offset < r.next {
			continue
		}
		r.gone(h.BaseOffset, v.Offset)
		if v.Offset > r.next {
			if r.next != asked {
				return true, nil
			}
			if err := r.told(v.Offset); err != nil {
				return false, err
			}
		}
		r.next = v.Offset + 1
		r.to.Record(v.Offset, &v)
	}
	r.gone(h.BaseOffset, h.NextOffset())
	return false, it.Err()
}

// gone tells of offsets that a batch from base on stands for without a record.
func (r *reading) gone(base, to int64) {
	if c, ok := r.to.(Compacted); ok && base <= r.next && r.next < to {
		c.Gone(r.next, to)
		r.next = to
	}
}

// told notes a gap from the reading's position that an answer began behind.
func (r *reading) told(to int64) error {
	r.to.Skip(r.next, to)
	r.next = to
	return nil
}

// skip notes a gap up to the next offset that an answer named. From its last
// offset on the broker must say the same.
func (r *reading) skip(to int64) error {
	from := r.next
	f, err := r.fetch(to - 1)
	if err != nil {
		return fmt.Errorf("within a gap, at offset %d: %w", to-1, err)
	}
	if len(f.Batches) == 0 && f.NextOffset < to {
		return fmt.Errorf("offset %d follows %d, and at offset %d the next one is %d", to, from, to-1, f.NextOffset)
	}
	return r.told(to)
}
