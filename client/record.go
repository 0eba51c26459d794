package client

import (
	"bytes"
	"time"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/net/wire"
)

// Record is a message to produce. It is a plain value: calls copy what they
// need and keep no reference to its memory.
type Record struct {
	// Key decides the partition; nil spreads records over all of them.
	Key []byte
	// Value is the content. nil is "no value", which differs from empty.
	Value []byte
	// Headers travel with the record in this order.
	Headers []Header
	// Time is the record's timestamp, kept to the millisecond. Zero takes the
	// client's clock at the moment when the record's batch is begun.
	Time time.Time
}

// Header is a header of a record: a Key and a Value. A key may come twice.
type Header = batch.RecordHeader

// Codec is the compression of the records of a batch.
type Codec = batch.Codec

// The codecs for [WithCompression].
const (
	CompressNone   = batch.CodecNone
	CompressGzip   = batch.CodecGzip
	CompressSnappy = batch.CodecSnappy
	CompressLZ4    = batch.CodecLz4
	CompressZstd   = batch.CodecZstd
)

// Class is a durability class: what an acknowledgement promises. A greater one
// is stronger. It is a property of a topic.
type Class = wire.Class

// The durability classes.
const (
	// ClassMemory acknowledges at the append; kill -9 may lose the newest
	// records.
	ClassMemory = wire.ClassMemory
	// ClassWritten acknowledges when the journal's write has completed; a power
	// cut may lose the newest records.
	ClassWritten = wire.ClassWritten
	// ClassFlushed acknowledges when the record is on the device: nothing that
	// was acknowledged is lost.
	ClassFlushed = wire.ClassFlushed
)

// Position is a place in a partition.
type Position struct {
	Topic     string
	Partition int32
	Offset    int64
}

// Offsets with a meaning of their own, for [Consumer.Seek] and [FromPositions].
const (
	// OffsetStart is the first offset stored.
	OffsetStart int64 = -2
	// OffsetEnd is the end of what can be read now: only new records follow.
	OffsetEnd int64 = -1
)

// RecordView is a record of a fetched [Batch]. Its slices point into the
// batch's memory and are valid until [Batch.Release]; [RecordView.Clone] copies.
type RecordView struct {
	Offset int64
	Key    []byte
	Value  []byte
	Time   time.Time

	headers batch.HeaderList
}

// Header returns the value of the first header with this key.
func (v RecordView) Header(key string) ([]byte, bool) {
	it := v.headers.All()
	for it.Next() {
		if string(it.Key()) == key {
			return it.Value(), true
		}
	}
	return nil, false
}

// HeaderCount is the number of headers.
func (v RecordView) HeaderCount() int { return v.headers.Len() }

// Clone copies the record out of the batch's memory.
func (v RecordView) Clone() Record {
	r := Record{Key: bytes.Clone(v.Key), Value: bytes.Clone(v.Value), Time: v.Time}
	if n := v.headers.Len(); n > 0 {
		r.Headers = make([]Header, 0, n)
		it := v.headers.All()
		for it.Next() {
			r.Headers = append(r.Headers, Header{Key: string(it.Key()), Value: bytes.Clone(it.Value())})
		}
	}
	return r
}
