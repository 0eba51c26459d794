package group

import (
	"hash/crc32"
	"slices"

	"github.com/mqd-broker/mqd/internal/fields"
	"github.com/mqd-broker/mqd/internal/invariant"
)

// Blocks is the number of pieces in which a state is written, each to a file of its
// own, so that what stays the same need not be written again.
const Blocks = 64

// block is a piece of a state.
type block struct {
	groups  []*group
	dirty   bool // has changed since its last writing began
	writing bool
}

func (b *block) add(g *group) { b.groups = append(b.groups, g) }

func (b *block) remove(g *group) {
	if i := slices.Index(b.groups, g); i >= 0 {
		b.groups = slices.Delete(b.groups, i, i+1)
	}
}

// hash is the FNV-1a hash of a group's name, 64 bits, stirred as MurmurHash3 ends so that
// all of its bits depend on all of the name.
func hash[T string | []byte](name T) uint64 {
	h := uint64(14695981039346656037)
	for i := 0; i < len(name); i++ {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// blockOf is the block of a group.
func blockOf(name string) int { return int(hash(name) % Blocks) }

// PartitionOf is the partition, of so many of the internal topic, that a group lives
// in for life.
func PartitionOf[T string | []byte](name T, partitions uint32) uint32 {
	return uint32(hash(name) >> 32 % uint64(partitions))
}

// Dirty reports whether a block has changed since its last writing began.
func (s *State) Dirty(block int) bool { return s.blocks[block].dirty }

// The layout of a snapshot of a block: a header, records each behind its length, a
// checksum.
const (
	snapshotMagic   = "MQDG"
	snapshotVersion = 1

	atSnapMagic     = 0  // 4 bytes
	atSnapVersion   = 4  // u16
	atSnapBlock     = 6  // u16
	atSnapFeatures  = 8  // u64, features that a reader must know
	atSnapNode      = 16 // 16 bytes
	atSnapPartition = 32 // u32
	atSnapRecords   = 36 // u32
	atSnapOffset    = 40 // i64
	atSnapLength    = 48 // u64, bytes of the whole snapshot
	atSnapSpare     = 56 // u32, zero
	atSnapHeaderCRC = 60 // u32, CRC-32C of the header before it
	snapHeaderSize  = 64

	snapCRCSize = 4

	// MaxSnapshotBytes bounds the snapshot of a block: 256 MiB.
	MaxSnapshotBytes = 256 << 20
)

// Each index is 0, or the layout has a gap or an overlap and this does not compile.
var (
	_ = [1]struct{}{}[atSnapVersion-(atSnapMagic+len(snapshotMagic))]
	_ = [1]struct{}{}[atSnapBlock-(atSnapVersion+2)]
	_ = [1]struct{}{}[atSnapFeatures-(atSnapBlock+2)]
	_ = [1]struct{}{}[atSnapNode-(atSnapFeatures+8)]
	_ = [1]struct{}{}[atSnapPartition-(atSnapNode+16)]
	_ = [1]struct{}{}[atSnapRecords-(atSnapPartition+4)]
	_ = [1]struct{}{}[atSnapOffset-(atSnapRecords+4)]
	_ = [1]struct{}{}[atSnapLength-(atSnapOffset+8)]
	_ = [1]struct{}{}[atSnapSpare-(atSnapLength+8)]
	_ = [1]struct{}{}[atSnapHeaderCRC-(atSnapSpare+4)]
	_ = [1]struct{}{}[snapHeaderSize-(atSnapHeaderCRC+4)]
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Snapshot says of what a snapshot is.
type Snapshot struct {
	Node      [16]byte
	Partition uint32 // of the internal topic
	Block     int
	// Offset is the end of the log when the writing began: everything that changes the
	// block from there on is in the log.
	Offset int64
}

// Writer writes the snapshot of a block, a bounded amount at a time.
type Writer struct {
	s       *State
	about   Snapshot
	groups  []*group
	g       int // the next group
	at      int // of its offsets the next; the group itself follows them
	records int
	buf     []byte
}

// recordOffsets is how many offsets a record of a snapshot holds.
const recordOffsets = 256

// Write begins to write a block into buf, which is used from its start. A block is
// written once at a time.
func (s *State) Write(about Snapshot, buf []byte) *Writer {
	b := &s.blocks[about.Block]
	if b.writing {
		invariant.Violated("group: a block is written once at a time")
	}
	b.writing, b.dirty = true, false
	return &Writer{s: s, about: about, groups: slices.Clone(b.groups), buf: append(buf[:0], make([]byte, snapHeaderSize)...)}
}

// Step writes some more, at most about as many offsets as budget says, and reports
// whether there is more to write. Now is the loop's clock.
func (w *Writer) Step(budget int, now int64) bool {
	for budget > 0 && w.g < len(w.groups) {
		g := w.groups[w.g]
		switch {
		case g.gone || g.unknown:
			w.g, w.at = w.g+1, 0
		case w.at < len(g.offsets):
			budget -= w.offsets(g)
		default:
			w.record(func(b []byte) []byte { return appendGroup(b, g, g.idleAt(now)) })
			budget -= 1 + len(g.members)
			if len(g.kept) > 0 {
				w.record(func(b []byte) []byte { return appendKept(b, g) })
				budget -= 1 + len(g.kept)/offsetSize
			}
			w.g, w.at = w.g+1, 0
		}
	}
	return w.g < len(w.groups)
}

// record writes a record behind its length.
func (w *Writer) record(f func(b []byte) []byte) {
	at := len(w.buf)
	w.buf = f(append(w.buf, 0, 0, 0, 0))
	be.PutUint32(w.buf[at:], uint32(len(w.buf)-at-4))
	w.records++
}

// offsets writes a record of offsets that were committed at the same time, and returns
// how many it has passed.
func (w *Writer) offsets(g *group) int {
	from := w.at
	for w.at < len(g.offsets) && g.offsets[w.at].dead {
		w.at++
	}
	if w.at == len(g.offsets) {
		return w.at - from
	}
	time := g.offsets[w.at].Time
	w.record(func(b []byte) []byte {
		start, n := len(b), 0
		b = beginOffsets(b, g.name, time)
		for ; w.at < len(g.offsets) && n < recordOffsets; w.at++ {
			o := g.offsets[w.at]
			if o.dead {
				continue
			}
			if o.Time != time {
				break
			}
			b = appendOffset(b, &o.Offset)
			n++
		}
		endOffsets(b, start, g.name, n)
		return b
	})
	return w.at - from
}

// End ends the writing and returns the snapshot.
func (w *Writer) End() []byte {
	h := w.buf[:snapHeaderSize]
	copy(h[atSnapMagic:], snapshotMagic)
	be.PutUint16(h[atSnapVersion:], snapshotVersion)
	be.PutUint16(h[atSnapBlock:], uint16(w.about.Block))
	copy(h[atSnapNode:], w.about.Node[:])
	be.PutUint32(h[atSnapPartition:], w.about.Partition)
	be.PutUint32(h[atSnapRecords:], uint32(w.records))
	be.PutUint64(h[atSnapOffset:], uint64(w.about.Offset))
	be.PutUint64(h[atSnapLength:], uint64(len(w.buf)+snapCRCSize))
	be.PutUint32(h[atSnapHeaderCRC:], crc32.Checksum(h[:atSnapHeaderCRC], castagnoli))
	w.Abandon()
	return be.AppendUint32(w.buf, crc32.Checksum(w.buf, castagnoli))
}

// Abandon ends a writing that comes to nothing, or has.
func (w *Writer) Abandon() {
	b := &w.s.blocks[w.about.Block]
	b.writing = false
	for _, g := range w.groups {
		g.tidy(b)
	}
}

// Redo has a block written again, after its snapshot did not reach its file.
func (s *State) Redo(block int) { s.blocks[block].dirty = true }

// Read checks the header and both checksums of a snapshot, and says of what it is. The
// error is a [FormatError].
func (z *Snapshot) Read(b []byte) error {
	in := fields.Of(b)
	z.header(&in, b)
	return formatError("snapshot", in.Err())
}

// Load reads a snapshot, record by record, into s, and says of what it is. The error is
// a [FormatError]; s may then hold part of it.
func (z *Snapshot) Load(s *State, b []byte) error {
	in := fields.Of(b)
	records := z.header(&in, b)
	for range records {
		at := in.At()
		r := in.Take(int(in.U32("record length")), "record")
		if in.Err() != nil {
			break
		}
		if err := s.Load(r); err != nil {
			if e, ok := err.(*FormatError); ok {
				e.What, e.At = "snapshot", e.At+at+4
			}
			return err
		}
	}
	in.Take(snapCRCSize, "crc")
	return formatError("snapshot", in.End())
}

// header reads the header and checks both checksums. It returns the number of records.
func (z *Snapshot) header(in *fields.Reader, b []byte) int {
	h := in.Take(snapHeaderSize, "header")
	if h == nil {
		return 0
	}
	length, crc := be.Uint64(h[atSnapLength:]), crc32.Checksum(h[:atSnapHeaderCRC], castagnoli)
	switch {
	case string(h[:4]) != snapshotMagic:
		in.Fail("magic", atSnapMagic, int64(be.Uint32([]byte(snapshotMagic))), int64(be.Uint32(h)))
	case be.Uint32(h[atSnapHeaderCRC:]) != crc:
		in.Fail("header crc", atSnapHeaderCRC, int64(crc), int64(be.Uint32(h[atSnapHeaderCRC:])))
	case be.Uint16(h[atSnapVersion:]) != snapshotVersion:
		in.FailNewer("version", atSnapVersion, snapshotVersion, int64(be.Uint16(h[atSnapVersion:])))
	case be.Uint64(h[atSnapFeatures:]) != 0:
		in.FailNewer("features", atSnapFeatures, 0, int64(be.Uint64(h[atSnapFeatures:])))
	case be.Uint32(h[atSnapSpare:]) != 0:
		in.Fail("reserved", atSnapSpare, 0, int64(be.Uint32(h[atSnapSpare:])))
	case length != uint64(len(b)) || length < snapHeaderSize+snapCRCSize:
		in.Fail("length", atSnapLength, int64(length), int64(len(b)))
	case be.Uint16(h[atSnapBlock:]) >= Blocks:
		in.Fail("block", atSnapBlock, Blocks-1, int64(be.Uint16(h[atSnapBlock:])))
	}
	if in.Err() != nil {
		return 0
	}
	end := len(b) - snapCRCSize
	if crc := crc32.Checksum(b[:end], castagnoli); crc != be.Uint32(b[end:]) {
		in.Fail("crc", end, int64(crc), int64(be.Uint32(b[end:])))
		return 0
	}
	copy(z.Node[:], h[atSnapNode:])
	z.Partition, z.Block = be.Uint32(h[atSnapPartition:]), int(be.Uint16(h[atSnapBlock:]))
	z.Offset = int64(be.Uint64(h[atSnapOffset:]))
	return in.Fits(be.Uint32(h[atSnapRecords:]), 4, "records", atSnapRecords)
}
