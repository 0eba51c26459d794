package checkpoint

import (
	"encoding/binary"
	"hash/crc32"
)

// Decode reads a checkpoint. It believes nothing that the checksums and the rules
// of the format do not confirm, and sizes nothing by a number that the length of
// data does not bear out. Errors are [*FormatError].
func Decode(data []byte) (*Snapshot, error) {
	s, slots, partitions, err := decodeHeader(data)
	if err != nil {
		return nil, err
	}
	be := binary.BigEndian
	d := decoder{data: data, at: headerBytes, version: be.Uint16(data[hVersion:]), givenUp: be.Uint32(data[hRequired:])&needGivenUp != 0}
	s.Slots = make([]Slot, slots)
	for i := range s.Slots {
		if err := d.slot(&s.Slots[i]); err != nil {
			return nil, err
		}
	}
	s.Partitions = make([]Partition, partitions)
	for i := range s.Partitions {
		if err := d.partition(&s.Partitions[i]); err != nil {
			return nil, err
		}
	}
	if d.at != len(data) {
		return nil, bad(ErrDamaged, "body", int64(d.at), int64(d.at), int64(len(data)))
	}
	return s, nil
}

func decodeHeader(data []byte) (s *Snapshot, slots, partitions int, err error) {
	be := binary.BigEndian
	fail := func(kind error, field string, at, expected, found int64) (*Snapshot, int, int, error) {
		return nil, 0, 0, bad(kind, field, at, expected, found)
	}
	if len(data) < headerBytes {
		return fail(ErrTruncated, "header", int64(len(data)), headerBytes, int64(len(data)))
	}
	b, body := data[:headerBytes], data[headerBytes:]
	if m := be.Uint32(b[hMagic:]); m != headerMagic {
		return fail(ErrDamaged, "magic", hMagic, headerMagic, int64(m))
	}
	if sum, crc := crc32.Checksum(b[:hCRC], castagnoli), be.Uint32(b[hCRC:]); sum != crc {
		return fail(ErrDamaged, "header CRC", hCRC, int64(sum), int64(crc))
	}
	// From here on the header is what somebody wrote.
	if v := be.Uint16(b[hVersion:]); v < 1 || v > checkpointVersion {
		return fail(ErrUnsupported, "version", hVersion, checkpointVersion, int64(v))
	}
	if r := be.Uint32(b[hRequired:]); r&^needGivenUp != 0 {
		return fail(ErrUnsupported, "required features", hRequired, needGivenUp, int64(r))
	}
	if f := Flags(be.Uint32(b[hFlags:])); f&^knownFlags != 0 {
		return fail(ErrUnsupported, "flags", hFlags, int64(knownFlags), int64(f))
	}
	if n := be.Uint64(b[hBodyBytes:]); n != uint64(len(body)) {
		return fail(ErrTruncated, "body bytes", hBodyBytes, int64(n), int64(len(body)))
	}
	if sum, crc := crc32.Checksum(body, castagnoli), be.Uint32(b[hBodyCRC:]); sum != crc {
		return fail(ErrDamaged, "body CRC", hBodyCRC, int64(sum), int64(crc))
	}
	slots, partitions = int(be.Uint32(b[hSlots:])), int(be.Uint32(b[hPartitions:]))
	if need := uint64(slots)*slotBytes + uint64(partitions)*partitionBytes; need > uint64(len(body)) {
		return fail(ErrDamaged, "counts", hSlots, int64(len(body)), int64(need))
	}
	if !allZero(b[hRest:hCRC]) || !allZero(b[hZero:hRequired]) {
		return fail(ErrDamaged, "reserved bytes", hRest, 0, 1)
	}
	s = &Snapshot{Header: Header{
		Node:        [16]byte(b[hNode:]),
		Journal:     [16]byte(b[hJournal:]),
		Shard:       be.Uint16(b[hShard:]),
		Shards:      be.Uint16(b[hShards:]),
		Flags:       Flags(be.Uint32(b[hFlags:])),
		Sequence:    be.Uint64(b[hSequence:]),
		LSN:         be.Uint64(b[hLSN:]),
		Incarnation: be.Uint64(b[hIncarnation:]),
		Wall:        int64(be.Uint64(b[hWall:])),
		AppendTime:  int64(be.Uint64(b[hAppendTime:])),
		Boot:        [16]byte(b[hBoot:]),
		Device:      be.Uint64(b[hDevice:]),
		Mount:       be.Uint64(b[hMount:]),
	}}
	return s, slots, partitions, nil
}

// decoder walks a body whose checksum holds.
type decoder struct {
	data    []byte
	at      int
	version uint16
	givenUp bool // epoch tables may have offsets that were given up
}

// next returns the n bytes at d.at and moves behind them.
func (d *decoder) next(n int) ([]byte, bool) {
	if n > len(d.data)-d.at {
		return nil, false
	}
	b := d.data[d.at : d.at+n]
	d.at += n
	return b, true
}

// bad is the error of a field of the piece of n bytes that next returned last.
func (d *decoder) bad(n int, field string, pos int, expected, found int64) error {
	return bad(ErrDamaged, field, int64(d.at-n+pos), expected, found)
}

func (d *decoder) slot(s *Slot) error {
	b, ok := d.next(slotBytes)
	if !ok {
		return bad(ErrTruncated, "slot", int64(d.at), slotBytes, int64(len(d.data)-d.at))
	}
	be := binary.BigEndian
	s.Slot, s.Term, s.Index = be.Uint16(b[sSlot:]), be.Uint32(b[sTerm:]), be.Uint64(b[sIndex:])
	if s.Term > MaxTerm {
		return d.bad(slotBytes, "term of a slot", sTerm, MaxTerm, int64(s.Term))
	}
	if !allZero(b[sZero:sTerm]) {
		return d.bad(slotBytes, "reserved bytes", sZero, 0, 1)
	}
	return nil
}

func (d *decoder) partition(p *Partition) error {
	b, ok := d.next(partitionBytes)
	if !ok {
		return bad(ErrTruncated, "partition", int64(d.at), partitionBytes, int64(len(d.data)-d.at))
	}
	be := binary.BigEndian
	i64 := func(pos int) int64 { return int64(be.Uint64(b[pos:])) }
	*p = Partition{
		Topic:        [16]byte(b[pTopic:]),
		Partition:    be.Uint32(b[pPartition:]),
		Slot:         be.Uint16(b[pSlot:]),
		Class:        b[pClass],
		Term:         be.Uint32(b[pTerm:]),
		SegmentBase:  i64(pSegmentBase),
		End:          i64(pEnd),
		NextOffset:   i64(pNextOffset),
		LogStart:     i64(pLogStart),
		Reserved:     i64(pReserved),
		MaxTimestamp: i64(pMaxTimestamp),
		NewestAppend: i64(pNewestAppend),
	}
	for _, rule := range []struct {
		field string
		pos   int
		least int64
		found int64
	}{
		{"segment base", pSegmentBase, 0, p.SegmentBase},
		{"end position", pEnd, 0, p.End},
		{"log start", pLogStart, 0, p.LogStart},
		{"next offset", pNextOffset, max(p.SegmentBase, p.LogStart), p.NextOffset},
		{"reservation", pReserved, 0, p.Reserved},
	} {
		if rule.found < rule.least {
			return d.bad(partitionBytes, rule.field, rule.pos, rule.least, rule.found)
		}
	}
	if p.Term > MaxTerm {
		return d.bad(partitionBytes, "term", pTerm, MaxTerm, int64(p.Term))
	}
	if b[pZero] != 0 || !allZero(b[pRest:]) {
		return d.bad(partitionBytes, "reserved bytes", pRest, 0, 1)
	}
	p.Epochs.version, p.Epochs.coarse = be.Uint32(b[pEpochVersion:]), i64(pCoarse)
	if err := d.epochs(&p.Epochs, be.Uint32(b[pEpochs:])); err != nil || d.version == 1 {
		return err
	}
	if !allZero(b[pZero2:pEpochVersion]) {
		return bad(ErrDamaged, "reserved bytes", int64(d.at), 0, 1)
	}
	return d.producers(p, be.Uint32(b[pProducers:]))
}

func (d *decoder) epochs(t *EpochTable, count uint32) error {
	if count > MaxEpochs {
		return bad(ErrDamaged, "epochs", int64(d.at), MaxEpochs, int64(count))
	}
	n := int(count) * epochBytes
	b, ok := d.next(n)
	if !ok {
		return bad(ErrTruncated, "epochs", int64(d.at), int64(n), int64(len(d.data)-d.at))
	}
	if count > 0 {
		t.list = make([]Epoch, count)
	}
	be := binary.BigEndian
	last := Epoch{Epoch: -1, Start: -1}
	for i := range t.list {
		b := b[i*epochBytes:]
		e := Epoch{
			Epoch:   int32(be.Uint32(b[eEpoch:])),
			Reason:  Reason(b[eReason]),
			Start:   int64(be.Uint64(b[eStart:])),
			GapFrom: int64(be.Uint64(b[eGapFrom:])),
		}
		field, pos, least, found := e.follows(&last)
		switch {
		case field != "":
			return d.bad(n-i*epochBytes, field, pos, least, found)
		case e.Reason == ReasonSalvage && !d.givenUp:
			return d.bad(n-i*epochBytes, "reason", eReason, int64(ReasonCrash), int64(e.Reason))
		case e.Start < e.GapFrom:
			return d.bad(n-i*epochBytes, "start offset", eStart, e.GapFrom, e.Start)
		case !allZero(b[eZero:eStart]):
			return d.bad(n-i*epochBytes, "reserved bytes", eZero, 0, 1)
		}
		t.list[i], last = e, e
	}
	if t.coarse < 0 || t.coarse > 0 && (len(t.list) == 0 || t.coarse > t.list[0].Start) {
		return d.bad(n+partitionBytes, "coarse history", pCoarse, 0, t.coarse)
	}
	return nil
}
