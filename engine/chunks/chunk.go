// Package chunks keeps the newest bytes of partitions in memory, exactly as they stand or
// will stand in the files of their segments.
package chunks

import (
	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/engine/order"
	"github.com/mqd-broker/mqd/engine/slab"
	"github.com/mqd-broker/mqd/internal/invariant"
)

// NoBatch is the FirstPos of a chunk in which no batch begins.
const NoBatch = -1

// Segment is a segment as far as its bytes are in memory. Whoever has the segment embeds
// it. Positions are in bytes, each no larger than the one before.
type Segment struct {
	Size   int64 // end of what has been appended
	Safe   int64 // end of what the journal has written
	InFile int64 // end of what the file holds
}

// Chunk is a piece of registered memory that holds a partition's newest bytes: Mem[0] is
// at position Pos of the file. Chunks of a partition form a list in log order.
type Chunk struct {
	Mem   []byte
	piece slab.Piece // that Mem is

	list *List
	Seg  *Segment
	Pos  int64 // file position of Mem[0], a multiple of 4 KiB
	From int   // first valid byte; bytes before it are only in the file
	To   int   // end of the valid bytes
	Pins int32 // reads in flight that refer to Mem

	// The first batch that begins in this chunk, NoBatch if none does, and the
	// end of the last batch with bytes in it. A chunk is evicted only when all
	// of that batch is in the file, so that a batch is found whole either in
	// memory or in the file.
	FirstPos, FirstOffset int64
	spill                 int64

	next, prev *Chunk             // of the partition, newer and older
	age        order.Node[*Chunk] // in the pool's list of clean chunks
	clean      bool
}

// Next is the chunk behind c in its list, or nil.
func (c *Chunk) Next() *Chunk { return c.next }

// End is the file position behind the chunk's valid bytes.
func (c *Chunk) End() int64 { return c.Pos + int64(c.To) }

// Start is the file position of the chunk's first valid byte.
func (c *Chunk) Start() int64 { return c.Pos + int64(c.From) }

// Full reports whether the journal has all that the chunk can hold.
func (c *Chunk) Full() bool { return c.Seg.Safe >= c.Pos+int64(len(c.Mem)) }

// Clean reports whether all of the chunk is in the file.
func (c *Chunk) Clean() bool { return c.clean }

// holding is the first chunk from c on that holds the byte of seg at pos, or nil.
func (c *Chunk) holding(seg *Segment, pos int64) *Chunk {
	for ; c != nil; c = c.next {
		if c.Seg == seg && pos >= c.Start() && pos < c.End() {
			return c
		}
	}
	return nil
}

// HeaderAt reads the header of the batch at pos, which begins in c. A header may
// lie in two chunks; then it is put together in scratch, which holds one.
func (c *Chunk) HeaderAt(pos int64, scratch []byte) batch.Header {
	b := c.Mem[int(pos-c.Pos):c.To]
	if len(b) < batch.HeaderSize {
		n := copy(scratch, b)
		copy(scratch[n:], c.next.Mem[:c.next.To])
		b = scratch
	}
	h, err := batch.ParseHeader(b[:batch.HeaderSize])
	if err != nil {
		invariant.Violated("chunks: memory holds whole batches in log order")
	}
	return h
}
