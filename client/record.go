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

// Position is a place in a partition. [Batch.Position] makes one of a record.
type Position struct {
	Topic     string
	Partition int32
	Offset    int64
	// Epoch is the leader epoch of the record at Offset or of the one before it: which life
	// of the broker has written it, counted from 1. It never falls along a log. 0 is not
	// known, as in what a producer gets, because an acknowledgement does not tell it.
	//
	// [FromPositions] and [Consumer.Seek] hold the log against an Epoch that is known: when
	// the first record that they find is of an earlier one, the log is not the one that the
	// position was taken from, see [ErrDiverged].
	Epoch int32
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
	// Attempt is how often this consumer has delivered the record, this time included: 1
	// for the first. It grows where reading goes back, by [Consumer.Seek] or because a
	// partition of a group came back before the record was committed, and counts the
	// batches in which an iteration of [Batch.Records] has come to the record, so that those
	// behind the one that made the application go back have not been tried. A commit behind
	// the record begins again at 1. What other consumers did with it is not known, and
	// neither is what this process did before it was started again: it is a help to give
	// up on a record, and no proof that nobody has seen it. A consumer remembers the 64
	// places with the highest offsets of each partition that it has gone back to.
	Attempt int32
	// Epoch is the leader epoch in which the record was written, see [Position].
	Epoch int32

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
