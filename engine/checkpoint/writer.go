package checkpoint

import (
	"encoding/binary"
	"hash/crc32"
	"slices"

	"github.com/mqd-broker/mqd/internal/invariant"
)

// Writer encodes a checkpoint piece by piece, so that a loop can spread the work
// over its turns: Begin, Add for each partition, AddProducer for more of its producers,
// Finish, and Again for the other generation. It keeps its memory from one checkpoint to the
// next; what Finish and Again return is valid until the next of them or Begin.
type Writer struct {
	buf        []byte
	crc        uint32 // of the body up to summed
	summed     int
	last       int    // where the newest partition begins
	producers  uint32 // of it
	slots      int
	partitions int
	required   uint32
	open       bool
}

// Begin starts a checkpoint of a shard that owns slots.
func (w *Writer) Begin(slots []Slot) {
	w.crc, w.summed, w.slots, w.partitions, w.required, w.open = 0, headerBytes, len(slots), 0, 0, true
	b := w.grow(w.buf[:0], headerBytes+len(slots)*slotBytes)[headerBytes:]
	be := binary.BigEndian
	for i := range slots {
		s, b := &slots[i], b[i*slotBytes:]
		checkTerm(s.Term)
		be.PutUint16(b[sSlot:], s.Slot)
		be.PutUint32(b[sTerm:], s.Term)
		be.PutUint64(b[sIndex:], s.Index)
	}
}

// Add appends a partition. Over many checkpoints it does not allocate.
func (w *Writer) Add(p *Partition) {
	if !w.open {
		invariant.Violated("checkpoint: a partition is added between Begin and Finish")
	}
	checkTerm(p.Term)
	w.sum()
	w.last, w.producers = len(w.buf), 0
	if p.Epochs.HasGivenUp() {
		w.required |= needGivenUp
	}
	b := w.grow(w.buf, partitionBytes+len(p.Epochs.list)*epochBytes)
	be := binary.BigEndian
	copy(b[pTopic:], p.Topic[:])
	be.PutUint32(b[pPartition:], p.Partition)
	be.PutUint16(b[pSlot:], p.Slot)
	b[pClass] = p.Class
	be.PutUint32(b[pTerm:], p.Term)
	be.PutUint64(b[pSegmentBase:], uint64(p.SegmentBase))
	be.PutUint64(b[pEnd:], uint64(p.End))
	be.PutUint64(b[pNextOffset:], uint64(p.NextOffset))
	be.PutUint64(b[pLogStart:], uint64(p.LogStart))
	be.PutUint64(b[pReserved:], uint64(p.Reserved))
	be.PutUint64(b[pMaxTimestamp:], uint64(p.MaxTimestamp))
	be.PutUint64(b[pNewestAppend:], uint64(p.NewestAppend))
	be.PutUint32(b[pEpochVersion:], p.Epochs.version)
	be.PutUint32(b[pEpochs:], uint32(len(p.Epochs.list)))
	be.PutUint64(b[pCoarse:], uint64(p.Epochs.coarse))
	for i := range p.Epochs.list {
		e, b := &p.Epochs.list[i], b[partitionBytes+i*epochBytes:]
		be.PutUint32(b[eEpoch:], uint32(e.Epoch))
		b[eReason] = byte(e.Reason)
		be.PutUint64(b[eStart:], uint64(e.Start))
		be.PutUint64(b[eGapFrom:], uint64(e.GapFrom))
	}
	w.partitions++
	for i := range p.Producers {
		w.AddProducer(&p.Producers[i])
	}
}

// sum completes the newest partition and brings the checksum up to date.
func (w *Writer) sum() {
	if w.partitions > 0 {
		binary.BigEndian.PutUint32(w.buf[w.last+pProducers:], w.producers)
	}
	w.crc = crc32.Update(w.crc, castagnoli, w.buf[w.summed:])
	w.summed = len(w.buf)
}

// Finish completes the checkpoint and returns its file.
func (w *Writer) Finish(h *Header) []byte {
	if !w.open {
		invariant.Violated("checkpoint: a checkpoint is finished once, after Begin")
	}
	w.open = false
	w.sum()
	return w.Again(h)
}

// Again returns the file of the checkpoint that Finish has completed, with another header:
// its second generation. What Finish has returned is the same memory.
func (w *Writer) Again(h *Header) []byte {
	if w.open {
		invariant.Violated("checkpoint: a second generation is made of a checkpoint that is finished")
	}
	b := w.buf[:headerBytes]
	be := binary.BigEndian
	be.PutUint32(b[hMagic:], headerMagic)
	be.PutUint16(b[hVersion:], checkpointVersion)
	be.PutUint32(b[hRequired:], w.required)
	copy(b[hNode:], h.Node[:])
	copy(b[hJournal:], h.Journal[:])
	be.PutUint16(b[hShard:], h.Shard)
	be.PutUint16(b[hShards:], h.Shards)
	be.PutUint32(b[hFlags:], uint32(h.Flags))
	be.PutUint64(b[hSequence:], h.Sequence)
	be.PutUint64(b[hLSN:], h.LSN)
	be.PutUint64(b[hIncarnation:], h.Incarnation)
	be.PutUint64(b[hWall:], uint64(h.Wall))
	be.PutUint64(b[hAppendTime:], uint64(h.AppendTime))
	copy(b[hBoot:], h.Boot[:])
	be.PutUint64(b[hDevice:], h.Device)
	be.PutUint64(b[hMount:], h.Mount)
	be.PutUint32(b[hSlots:], uint32(w.slots))
	be.PutUint32(b[hPartitions:], uint32(w.partitions))
	be.PutUint64(b[hBodyBytes:], uint64(len(w.buf)-headerBytes))
	be.PutUint32(b[hBodyCRC:], w.crc)
	be.PutUint32(b[hCRC:], crc32.Checksum(b[:hCRC], castagnoli))
	return w.buf
}

// Len is the size of the checkpoint so far, in bytes.
func (w *Writer) Len() int { return len(w.buf) }

// grow makes dst, which is the writer's, n zero bytes longer and returns those.
func (w *Writer) grow(dst []byte, n int) []byte {
	at := len(dst)
	w.buf = slices.Grow(dst, n)[:at+n]
	clear(w.buf[at:])
	return w.buf[at:]
}

func checkTerm(term uint32) {
	if term > MaxTerm {
		invariant.Violated("checkpoint: a term has 31 bits")
	}
}
