package compaction

import (
	"crypto/sha256"
	"encoding/binary"
)

// Keys remembers the newest offset of each key, in memory that is bounded. It has no key
// itself but 128 bits of its hash, which nobody can make two keys share.
type Keys struct {
	slots []slot
	used  int
	most  int // keys; a slot in four stays free, so that searches are short
}

type slot struct {
	hash [16]byte
	at   int64 // the offset and one; 0: free
}

// slotBytes is the size of a slot.
const slotBytes = 24

// MinKeyBytes is the least memory that a Keys works with.
const MinKeyBytes = 4 << 10

// NewKeys makes a Keys of so many bytes, at least MinKeyBytes.
func NewKeys(bytes int64) *Keys {
	n := int(max(bytes, MinKeyBytes) / slotBytes)
	return &Keys{slots: make([]slot, n), most: n / 4 * 3}
}

// Put notes that key stands at offset, which is larger than those before. It reports false,
// with nothing changed, when there is no room for a key that is not there.
func (k *Keys) Put(key []byte, offset int64) bool {
	hash := hashOf(key)
	s := k.find(hash)
	if s.at == 0 {
		if k.used == k.most {
			return false
		}
		k.used++
		s.hash = hash
	}
	s.at = offset + 1
	return true
}

// Newest is the newest offset of key.
func (k *Keys) Newest(key []byte) (offset int64, ok bool) {
	s := k.find(hashOf(key))
	return s.at - 1, s.at != 0
}

// Len is the number of keys.
func (k *Keys) Len() int { return k.used }

// find is the slot of a hash, or the free one in which it belongs.
func (k *Keys) find(hash [16]byte) *slot {
	n := uint64(len(k.slots))
	for i := binary.BigEndian.Uint64(hash[:8]) % n; ; i = (i + 1) % n {
		if s := &k.slots[i]; s.at == 0 || s.hash == hash {
			return s
		}
	}
}

func hashOf(key []byte) (hash [16]byte) {
	sum := sha256.Sum256(key)
	copy(hash[:], sum[:])
	return hash
}
