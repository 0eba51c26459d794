package layout

import (
	"encoding/binary"
	"encoding/hex"
	"hash/fnv"
)

// TopicID names a topic for life. It is random, except for the catalog's.
type TopicID [16]byte

// CatalogTopic is the topic of internal partition 0, the catalog's log.
var CatalogTopic = TopicID{15: 1}

// CatalogName is the catalog topic's name. No user topic can have it.
const CatalogName = "__catalog"

// CatalogSlot is the slot of the catalog, whatever the hash says.
const CatalogSlot = 0

// String is the id in hexadecimal.
func (id TopicID) String() string { return hex.EncodeToString(id[:]) }

// Key names a partition.
type Key struct {
	Topic     TopicID
	Partition uint32
}

// SlotOf is the slot to which a partition belongs for life: FNV-1a of topic id
// and partition (big-endian), modulo the number of slots of the data directory.
func SlotOf(k Key, slots int) uint16 {
	if k.Topic == CatalogTopic {
		return CatalogSlot
	}
	var b [20]byte
	copy(b[:], k.Topic[:])
	binary.BigEndian.PutUint32(b[16:], k.Partition)
	h := fnv.New64a()
	_, _ = h.Write(b[:])
	return uint16(mix(h.Sum64()) % uint64(slots))
}

// Assignment maps every slot to a shard by rendezvous hashing: a slot belongs to
// the shard with the highest weight, so that another shard count moves only the
// slots it must.
func Assignment(slots, shards int) []uint16 {
	owner := make([]uint16, slots)
	for slot := range owner {
		var best uint64
		for shard := 0; shard < shards; shard++ {
			w := mix(uint64(slot)<<32 | uint64(shard) + 1)
			if shard == 0 || w > best {
				best, owner[slot] = w, uint16(shard)
			}
		}
	}
	return owner
}

// mix is the finalizer of splitmix64: every input bit reaches every output bit.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
