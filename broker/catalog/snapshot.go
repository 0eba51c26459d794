package catalog

import (
	"encoding/binary"
	"hash/crc32"
	"strings"
)

// The layout of a snapshot: a header, the topics in order of name, the tombstones
// in order of offset, the next producer id, a checksum. Version 1, which is read, has
// no producer id.
const (
	snapshotMagic   = "MQDK"
	snapshotVersion = 2

	atSnapMagic      = 0  // 4 bytes
	atSnapVersion    = 4  // u16
	atSnapReserved   = 6  // u16, zero
	atSnapFeatures   = 8  // u64, features that a reader must know
	atSnapNode       = 16 // 16 bytes
	atSnapNext       = 32 // i64
	atSnapLength     = 40 // u64, bytes of the whole snapshot
	atSnapTopics     = 48 // u32
	atSnapTombstones = 52 // u32
	atSnapSpare      = 56 // u32, zero
	atSnapHeaderCRC  = 60 // u32, CRC-32C of the header before it
	snapHeaderSize   = 64

	snapCRCSize  = 4
	minTopic     = 16 + 4 + 8 + 8 + 2 + 1 + 2
	minTombstone = 16 + 8 + 2 + 1
	settingSize  = 2 + 8

	// MaxSnapshotBytes bounds a snapshot: 256 MiB.
	MaxSnapshotBytes = 256 << 20
)

// Each index is 0, or the layout has a gap or an overlap and this does not compile.
var (
	_ = [1]struct{}{}[atSnapVersion-(atSnapMagic+len(snapshotMagic))]
	_ = [1]struct{}{}[atSnapReserved-(atSnapVersion+2)]
	_ = [1]struct{}{}[atSnapFeatures-(atSnapReserved+2)]
	_ = [1]struct{}{}[atSnapNode-(atSnapFeatures+8)]
	_ = [1]struct{}{}[atSnapNext-(atSnapNode+16)]
	_ = [1]struct{}{}[atSnapLength-(atSnapNext+8)]
	_ = [1]struct{}{}[atSnapTopics-(atSnapLength+8)]
	_ = [1]struct{}{}[atSnapTombstones-(atSnapTopics+4)]
	_ = [1]struct{}{}[atSnapSpare-(atSnapTombstones+4)]
	_ = [1]struct{}{}[atSnapHeaderCRC-(atSnapSpare+4)]
	_ = [1]struct{}{}[snapHeaderSize-(atSnapHeaderCRC+4)]
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Snapshot is a state at one moment. It is immutable, so that another goroutine can
// encode it while the state goes on.
type Snapshot struct {
	image      *Image
	tombstones []Tombstone
	producers  int64
}

// Snapshot takes the state as it is now, without copying.
func (s *State) Snapshot() Snapshot {
	return Snapshot{image: s.image, tombstones: s.tombstones[:len(s.tombstones):len(s.tombstones)], producers: s.producers}
}

// Next is the offset of the first command that the snapshot does not hold.
func (z Snapshot) Next() int64 { return z.image.version }

// Append appends the snapshot of the catalog of a node to dst.
func (z Snapshot) Append(dst []byte, node [16]byte) []byte {
	be := binary.BigEndian
	start := len(dst)
	dst = append(dst, make([]byte, snapHeaderSize)...)
	for _, t := range z.image.topics {
		dst = append(dst, t.ID[:]...)
		dst = be.AppendUint32(dst, t.Partitions)
		dst = be.AppendUint64(dst, uint64(t.Created))
		dst = be.AppendUint64(dst, uint64(t.Version))
		dst = appendName(dst, t.Name)
		settings := t.Config.changes()
		dst = be.AppendUint16(dst, uint16(len(settings)))
		for _, ch := range settings {
			dst = be.AppendUint16(dst, uint16(ch.Key))
			dst = be.AppendUint64(dst, uint64(ch.Value))
		}
	}
	for i := range z.tombstones {
		t := &z.tombstones[i]
		dst = append(dst, t.ID[:]...)
		dst = be.AppendUint64(dst, uint64(t.Offset))
		dst = appendName(dst, t.Name)
	}
	dst = be.AppendUint64(dst, uint64(z.producers))
	h := dst[start:]
	copy(h[atSnapMagic:], snapshotMagic)
	be.PutUint16(h[atSnapVersion:], snapshotVersion)
	copy(h[atSnapNode:], node[:])
	be.PutUint64(h[atSnapNext:], uint64(z.Next()))
	be.PutUint64(h[atSnapLength:], uint64(len(h)+snapCRCSize))
	be.PutUint32(h[atSnapTopics:], uint32(len(z.image.topics)))
	be.PutUint32(h[atSnapTombstones:], uint32(len(z.tombstones)))
	be.PutUint32(h[atSnapHeaderCRC:], crc32.Checksum(h[:atSnapHeaderCRC], castagnoli))
	return be.AppendUint32(dst, crc32.Checksum(h, castagnoli))
}

// DecodeSnapshot reads a snapshot and says of which node's catalog it is. The error
// is a [FormatError].
func DecodeSnapshot(b []byte) (*State, [16]byte, error) {
	c := cursor{what: "snapshot", b: b}
	topics, tombstones, next, node := c.snapshotHeader()
	if c.err != nil {
		return nil, node, c.err
	}
	list := c.snapshotTopics(topics, next)
	if c.err != nil {
		return nil, node, c.err
	}
	s := &State{image: newImage(next, list)}
	s.tombstones = c.snapshotTombstones(tombstones, s.image)
	if at := c.p; binary.BigEndian.Uint16(b[atSnapVersion:]) > 1 {
		if s.producers = c.i64("next producer id"); s.producers < 0 {
			c.fail(ErrDamaged, "next producer id", at, 0, s.producers)
		}
	}
	if err := c.end(); err != nil {
		return nil, node, err
	}
	return s, node, nil
}

// snapshotHeader checks header and checksums and leaves the cursor at the first
// topic, its bytes ending before the checksum.
func (c *cursor) snapshotHeader() (topics, tombstones uint32, next int64, node [16]byte) {
	be := binary.BigEndian
	h := c.take(snapHeaderSize, "header")
	if h == nil {
		return
	}
	if string(h[:len(snapshotMagic)]) != snapshotMagic {
		c.fail(ErrDamaged, "magic", atSnapMagic, int64(be.Uint32([]byte(snapshotMagic))), int64(be.Uint32(h)))
		return
	}
	if sum, stored := crc32.Checksum(h[:atSnapHeaderCRC], castagnoli), be.Uint32(h[atSnapHeaderCRC:]); sum != stored {
		c.fail(ErrDamaged, "header crc", atSnapHeaderCRC, int64(stored), int64(sum))
		return
	}
	if v := be.Uint16(h[atSnapVersion:]); v < 1 || v > snapshotVersion {
		c.fail(ErrUnsupported, "version", atSnapVersion, snapshotVersion, int64(v))
	}
	if f := be.Uint64(h[atSnapFeatures:]); f != 0 {
		c.fail(ErrUnsupported, "features", atSnapFeatures, 0, int64(f))
	}
	if r := be.Uint16(h[atSnapReserved:]); r != 0 {
		c.fail(ErrDamaged, "reserved", atSnapReserved, 0, int64(r))
	}
	if r := be.Uint32(h[atSnapSpare:]); r != 0 {
		c.fail(ErrDamaged, "reserved", atSnapSpare, 0, int64(r))
	}
	if n := be.Uint64(h[atSnapLength:]); n != uint64(len(c.b)) {
		c.fail(ErrDamaged, "length", atSnapLength, int64(n), int64(len(c.b)))
	}
	body := len(c.b) - snapCRCSize
	if c.err != nil || body < snapHeaderSize {
		c.fail(ErrDamaged, "length", atSnapLength, snapHeaderSize+snapCRCSize, int64(len(c.b)))
		return
	}
	if sum, stored := crc32.Checksum(c.b[:body], castagnoli), be.Uint32(c.b[body:]); sum != stored {
		c.fail(ErrDamaged, "crc", body, int64(stored), int64(sum))
		return
	}
	c.b = c.b[:body]
	copy(node[:], h[atSnapNode:])
	if next = int64(be.Uint64(h[atSnapNext:])); next < 0 {
		c.fail(ErrDamaged, "next offset", atSnapNext, 0, next)
	}
	return be.Uint32(h[atSnapTopics:]), be.Uint32(h[atSnapTombstones:]), next, node
}

// snapshotTopics reads the topics, checking what [State.Apply] would have.
func (c *cursor) snapshotTopics(n uint32, next int64) []*Topic {
	list := make([]*Topic, 0, c.count(n, minTopic, "topics"))
	ids := make(map[TopicID]bool, cap(list))
	for range cap(list) {
		at := c.p
		t := &Topic{ID: c.id("topic id"), Partitions: c.u32("partitions"), Created: c.i64("created"), Version: c.i64("version")}
		t.Name = c.name()
		t.Config = c.snapshotConfig()
		switch {
		case t.ID == (TopicID{}) || ids[t.ID]:
			c.fail(ErrDamaged, "topic id", at, 1, 0)
		case t.Partitions < 1 || t.Partitions > MaxPartitions:
			c.fail(ErrDamaged, "partitions", at+16, MaxPartitions, int64(t.Partitions))
		case t.Version < 1 || t.Version > next:
			c.fail(ErrDamaged, "version", at+28, next, t.Version)
		case len(list) > 0 && strings.Compare(list[len(list)-1].Name, t.Name) >= 0:
			c.fail(ErrDamaged, "order of names", at+36, 1, 0)
		}
		if c.err != nil {
			return nil
		}
		ids[t.ID] = true
		list = append(list, t)
	}
	return list
}

func (c *cursor) snapshotConfig() Config {
	n := c.count(uint32(c.u16("settings")), settingSize, "settings")
	var changes []Change
	last := Key(0)
	for range n {
		at := c.p
		ch := Change{Key: Key(c.u16("setting")), Action: Set, Value: c.i64("value")}
		in := ch.Key.info()
		switch {
		case ch.Key <= last:
			c.fail(ErrDamaged, "setting", at, int64(last)+1, int64(ch.Key))
		case in == nil:
			c.fail(ErrUnsupported, "setting", at, int64(lastKey), int64(ch.Key))
		case !in.takes(ch.Value, in.max):
			c.fail(ErrDamaged, "value", at+2, in.max, ch.Value)
		}
		if c.err != nil {
			return Config{}
		}
		last = ch.Key
		changes = append(changes, ch)
	}
	return Config{}.with(changes)
}

func (c *cursor) snapshotTombstones(n uint32, m *Image) []Tombstone {
	list := make([]Tombstone, 0, c.count(n, minTombstone, "tombstones"))
	ids := make(map[TopicID]bool, cap(list))
	for range cap(list) {
		at := c.p
		t := Tombstone{ID: c.id("tombstone id"), Offset: c.i64("tombstone offset")}
		t.Name = c.name()
		last := int64(-1)
		if len(list) > 0 {
			last = list[len(list)-1].Offset
		}
		switch {
		case t.Offset <= last || t.Offset >= m.version:
			c.fail(ErrDamaged, "tombstone offset", at+16, last+1, t.Offset)
		case t.ID == (TopicID{}) || m.ByID(t.ID) != nil || ids[t.ID]:
			c.fail(ErrDamaged, "tombstone id", at, 1, 0)
		}
		if c.err != nil {
			return nil
		}
		ids[t.ID] = true
		list = append(list, t)
	}
	return list
}
