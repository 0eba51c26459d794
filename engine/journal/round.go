package journal

import (
	"encoding/binary"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/internal/invariant"
)

// moveLimit is the size, in bytes, up to which bodies are moved up behind the
// table when a round is closed: that saves a block, and costs less than writing it.
const moveLimit = 16 << 10

// roundSize is the size on disk of a round with the given entries and bytes of
// bodies. Small bodies follow the table directly; others begin with a block of
// their own, which is where they were gathered.
func roundSize(entries, bodies int) int {
	table := HeaderSize + entries*EntrySize
	if bodies <= moveLimit {
		return blocks(table + bodies)
	}
	return blocks(table) + blocks(bodies)
}

// slot is the memory of one round and the operation that writes it.
//
// Bodies are gathered from a fixed place on, reserve; the entry table grows from
// the start of the buffer. When the round is closed, either the bodies are moved
// up behind the table (small rounds) or the table is moved down to the bodies
// (large ones, where the table is the smaller part), so that header, table and
// bodies are one aligned piece of memory. From then until the write completes
// nothing in it changes.
type slot struct {
	j       *Journal
	op      aio.Op
	buf     []byte
	reserve int // bytes before the bodies
	most    int // entries that fit into reserve

	lsn     uint64
	pos     int64
	entries int
	bodies  int // bytes
	need    Need
	send    bool   // goes at the next chance, whatever its entries need
	wrapped bool   // a wrap round goes before it
	data    bool   // holds entries that are not the journal's own
	flight  uint64 // its number in the flight queue
}

func newSlot(j *Journal, d aio.Driver, most, bodies int) (*slot, error) {
	s := &slot{j: j, reserve: blocks(HeaderSize + most*EntrySize)}
	s.most = (s.reserve - HeaderSize) / EntrySize
	var err error
	s.buf, err = d.Alloc(s.reserve + blocks(bodies))
	s.op.Owner = s
	return s, err
}

// begin makes the slot an empty round.
func (s *slot) begin(lsn uint64, pos int64) {
	s.lsn, s.pos = lsn, pos
	s.entries, s.bodies = 0, 0
	s.need, s.send, s.wrapped, s.data = NeedNone, false, false, false
}

// size is the size on disk of what the round holds.
func (s *slot) size() int { return roundSize(s.entries, s.bodies) }

// add appends an entry; body has n bytes in all. There is room for it.
func (s *slot) add(e *Entry, body [][]byte, n int) {
	at := s.reserve + s.bodies
	dst := s.buf[at : at+n]
	for _, part := range body {
		dst = dst[copy(dst, part):]
	}
	v := *e
	v.Length, v.Prefix, v.BodyCRC = uint32(n), [PrefixSize]byte{}, 0
	if v.Index == 0 {
		v.Index = s.lsn
	}
	if v.Kind == KindBatch {
		v.Prefix = [PrefixSize]byte(s.buf[at:])
		checkPrefix(&v)
	} else {
		v.BodyCRC = BodyCRC(s.buf[at : at+n])
	}
	v.Encode(s.buf[HeaderSize+s.entries*EntrySize:])
	s.entries++
	s.bodies += n
	s.data = s.data || !v.Kind.internal()
}

// seal lays the round out as one piece of memory, writes h, of which the part that
// the round itself determines is filled in, and returns the piece.
func (s *slot) seal(h *Header) []byte {
	table := HeaderSize + s.entries*EntrySize
	total := s.size()
	from := 0
	if s.bodies <= moveLimit {
		copy(s.buf[table:], s.buf[s.reserve:s.reserve+s.bodies])
		h.BodiesOffset = uint32(table)
	} else {
		from = s.reserve - blocks(table)
		copy(s.buf[from+HeaderSize:s.reserve], s.buf[HeaderSize:table])
		clear(s.buf[from+table : s.reserve])
		h.BodiesOffset = uint32(blocks(table))
	}
	round := s.buf[from : from+total]
	clear(round[int(h.BodiesOffset)+s.bodies:])
	h.LSN, h.Pos = s.lsn, s.pos
	h.Entries, h.BodyBytes, h.Total = uint32(s.entries), uint32(s.bodies), uint32(total)
	h.Seal(round)
	return round
}

// Complete is called when the round's write has ended.
func (s *slot) Complete(op *aio.Op) { s.j.wrote(s, op) }

// checkPrefix holds a batch against its entry: what replay puts together must fit.
func checkPrefix(e *Entry) {
	if int64(binary.BigEndian.Uint64(e.Prefix[:])) != e.BaseOffset || binary.BigEndian.Uint32(e.Prefix[8:])+12 != e.Length {
		invariant.Violated("journal: a batch has the base offset and the length that its entry names")
	}
}

// checkEntry holds an entry from outside against what the format can express.
func checkEntry(e *Entry, n int) {
	if e.Kind == 0 || e.Kind.internal() || e.Term>>31 != 0 {
		invariant.Violated("journal: an entry has a kind that others may write and a term of 31 bits")
	}
	if e.Kind == KindBatch && n < PrefixSize {
		invariant.Violated("journal: a batch is at least as long as its prefix")
	}
}
