package group

import (
	"encoding/binary"

	"github.com/mqd-broker/mqd/internal/fields"
	"github.com/mqd-broker/mqd/internal/invariant"
)

// Kinds of records. Numbers are for life; docs/format/groups.md has those that are
// reserved.
const (
	kindOffsets        = 1
	kindGroup          = 2
	kindOffsetsRemoved = 3
	kindGroupRemoved   = 4
	kindKept           = 5
)

// The layout of a record: a head, then what its kind says.
const (
	recordVersion = 1

	atKind    = 0
	atVersion = 1
	atFlags   = 2
	atBody    = 4

	// flagSkip allows a program that does not know the kind or the version to pass
	// over the record.
	flagSkip = 1

	partitionSize = 16 + 4
	offsetSize    = partitionSize + 8 + 4 + 2
	grantSize     = partitionSize + 4
	claimSize     = partitionSize + 2
	topicSize     = 2
	memberSize    = 16 + 2 + 2 + 8 + 4 + 2 + 4 + 4
)

// Each index is 0, or the layout has a gap or an overlap and this does not compile.
var (
	_ = [1]struct{}{}[atVersion-(atKind+1)]
	_ = [1]struct{}{}[atFlags-(atVersion+1)]
	_ = [1]struct{}{}[atBody-(atFlags+2)]
)

var be = binary.BigEndian

// record is a record as it was decoded. Slices are reused from one to the next.
type record struct {
	kind    uint8
	name    []byte
	time    int64       // of kindOffsets
	offsets []Offset    // of kindOffsets; metadata are bytes of the input
	removed []Partition // of kindOffsetsRemoved
	body    []byte      // of kindGroup and kindKept: what follows the name
	bodyAt  int
}

func appendHead(dst []byte, kind uint8, name string) []byte {
	if !CheckName(name) {
		invariant.Violated("group: a name to encode has been checked")
	}
	dst = append(dst, kind, recordVersion)
	dst = be.AppendUint16(dst, flagsOf(kind))
	return appendString(dst, name)
}

// flagsOf are the flags of a record. Programs from before there was kept anything of
// members pass over it.
func flagsOf(kind uint8) uint16 {
	if kind == kindKept {
		return flagSkip
	}
	return 0
}

// appendKept appends what is kept of a group's members.
func appendKept(dst []byte, g *group) []byte {
	return append(appendHead(dst, kindKept, g.name), g.kept...)
}

func appendString[T string | []byte](dst []byte, s T) []byte {
	if len(s) > 1<<16-1 {
		invariant.Violated("group: a string to encode fits its length field")
	}
	dst = be.AppendUint16(dst, uint16(len(s)))
	return append(dst, s...)
}

func appendPartition(dst []byte, p Partition) []byte {
	dst = append(dst, p.Topic[:]...)
	return be.AppendUint32(dst, uint32(p.Number))
}

// beginOffsets begins a record of offsets, of which endOffsets writes the count.
func beginOffsets(dst []byte, name string, time int64) []byte {
	dst = appendHead(dst, kindOffsets, name)
	dst = be.AppendUint64(dst, uint64(time))
	return append(dst, 0, 0, 0, 0)
}

// offsetsHead is the length of what beginOffsets writes.
func offsetsHead(name string) int { return atBody + 2 + len(name) + 8 + 4 }

func appendOffset(dst []byte, o *Offset) []byte {
	dst = appendPartition(dst, o.Partition)
	dst = be.AppendUint64(dst, uint64(o.Next))
	dst = be.AppendUint32(dst, uint32(o.Epoch))
	return appendString(dst, o.Metadata)
}

// endOffsets ends a record that begins at start.
func endOffsets(dst []byte, start int, name string, count int) {
	be.PutUint32(dst[start+offsetsHead(name)-4:], uint32(count))
}

// recordSize is the part of a member in its group's record, without its lists.
func (m *Member) recordSize() int {
	n := memberSize + len(m.instance) + len(m.client)
	for _, t := range m.topics {
		n += topicSize + len(t)
	}
	return n
}

func appendRemoved(dst []byte, name string, parts []Partition) []byte {
	dst = appendHead(dst, kindOffsetsRemoved, name)
	dst = be.AppendUint32(dst, uint32(len(parts)))
	for _, p := range parts {
		dst = appendPartition(dst, p)
	}
	return dst
}

// appendGroup appends everything of a group but its offsets. idle is how long it has
// been without members, in nanoseconds.
func appendGroup(dst []byte, g *group, idle int64) []byte {
	dst = appendHead(dst, kindGroup, g.name)
	dst = append(dst, byte(g.mode))
	dst = be.AppendUint32(dst, uint32(g.generation))
	dst = be.AppendUint64(dst, uint64(idle))
	dst = be.AppendUint32(dst, uint32(len(g.members)))
	for _, m := range g.members {
		dst = append(dst, m.id[:]...)
		dst = appendString(dst, m.instance)
		dst = appendString(dst, m.client)
		dst = be.AppendUint64(dst, uint64(m.session))
		dst = be.AppendUint32(dst, uint32(m.epoch))
		dst = be.AppendUint16(dst, uint16(len(m.topics)))
		for _, t := range m.topics {
			dst = appendString(dst, t)
		}
		dst = appendGrants(dst, m.list)
		dst = appendGrants(dst, m.leaving)
	}
	dst = be.AppendUint32(dst, uint32(len(g.table)))
	for i := range g.table {
		dst = appendPartition(dst, g.table[i].Partition)
		dst = appendString(dst, g.table[i].instance)
	}
	return dst
}

func appendGrants(dst []byte, list []Grant) []byte {
	dst = be.AppendUint32(dst, uint32(len(list)))
	for _, g := range list {
		dst = appendPartition(dst, g.Partition)
		dst = be.AppendUint32(dst, uint32(g.Since))
	}
	return dst
}

// decode reads a record into r. One that this program may pass over has kind 0. The
// error is a [FormatError].
func (r *record) decode(b []byte) error {
	in := fields.Of(b)
	kind, version, flags := in.U8("kind"), in.U8("version"), in.U16("flags")
	*r = record{offsets: r.offsets[:0], removed: r.removed[:0]}
	if in.Err() == nil && (kind < kindOffsets || kind > kindKept || version != recordVersion) {
		switch {
		case flags&flagSkip != 0:
			return nil
		case kind == 0 || version == 0:
			in.Fail("kind and version", atKind, 1, int64(min(kind, version)))
		case kind > kindKept:
			in.FailNewer("kind", atKind, kindKept, int64(kind))
		default:
			in.FailNewer("version", atVersion, recordVersion, int64(version))
		}
	}
	if want := flagsOf(kind); flags != want {
		in.Fail("flags", atFlags, int64(want), int64(flags))
	}
	r.kind = kind
	at := in.At()
	if r.name = in.Bytes("name"); !CheckName(r.name) {
		in.Fail("name", at, MaxName, int64(len(r.name)))
	}
	switch kind {
	case kindOffsets:
		r.decodeOffsets(&in)
	case kindOffsetsRemoved:
		for range in.Count(partitionSize, "partitions") {
			r.removed = append(r.removed, readPartition(&in))
		}
	case kindGroup, kindKept:
		r.bodyAt = in.At()
		r.body = in.Take(in.Left(), "body")
	}
	return formatError("record", in.End())
}

func (r *record) decodeOffsets(in *fields.Reader) {
	r.time = in.I64("time")
	for range in.Count(offsetSize, "offsets") {
		o := Offset{Partition: readPartition(in), Time: r.time}
		at := in.At()
		o.Next, o.Epoch = in.I64("next offset"), int32(in.U32("epoch"))
		o.Metadata = in.Bytes("metadata")
		if o.Next < 0 {
			in.Fail("next offset", at, 0, o.Next)
		}
		r.offsets = append(r.offsets, o)
	}
}

func readPartition(in *fields.Reader) Partition {
	p := Partition{Topic: in.ID("topic id")}
	at := in.At()
	if p.Number = int32(in.U32("partition")); p.Number < 0 {
		in.Fail("partition", at, 0, int64(p.Number))
	}
	return p
}

// decodeGroup reads what a record says of a group into g, whose offsets stay.
func (r *record) decodeGroup(g *group) error {
	in := fields.Of(r.body)
	g.mode = Mode(in.U8("mode"))
	if g.mode > ModeManual {
		in.FailNewer("mode", 0, int64(ModeManual), int64(g.mode))
	}
	g.generation, g.idle = int32(in.U32("generation")), in.I64("idle")
	g.members, g.table = nil, nil
	for range in.Count(memberSize, "members") {
		g.members = append(g.members, readMember(&in))
	}
	for range in.Count(claimSize, "table") {
		g.table = append(g.table, claim{Partition: readPartition(&in), instance: string(in.Bytes("instance"))})
	}
	err := in.End()
	if err != nil {
		err.At += r.bodyAt
	}
	return formatError("record", err)
}

func readMember(in *fields.Reader) *Member {
	m := &Member{id: in.ID("member"), instance: string(in.Bytes("instance")), client: string(in.Bytes("client"))}
	m.session, m.epoch = in.I64("session"), int32(in.U32("epoch"))
	at := in.At()
	for range in.Fits(uint32(in.U16("topics")), topicSize, "topics", at) {
		m.topics = append(m.topics, string(in.Bytes("topic")))
	}
	m.list, m.leaving = readGrants(in), readGrants(in)
	return m
}

func readGrants(in *fields.Reader) []Grant {
	var list []Grant
	for range in.Count(grantSize, "grants") {
		list = append(list, Grant{Partition: readPartition(in), Since: int32(in.U32("since"))})
	}
	return list
}

func formatError(what string, err *fields.Error) error {
	if err == nil {
		return nil
	}
	kind := ErrDamaged
	if err.Newer {
		kind = ErrUnsupported
	}
	return &FormatError{What: what, Kind: kind, Field: err.Field, At: err.At, Expected: err.Expected, Found: err.Found}
}
