package ringbuf

import "math/bits"

// MaxShards is how many shards a mesh can join. Rings grow with the square of
// the shards and slots (64 by default) are what shards share out, so more
// threads than this have nothing of their own to do.
const MaxShards = 64

// ShardSet is a set of shard numbers from 0 to [MaxShards]−1, held in one word:
// a value, copied freely, that never allocates. The zero value is empty.
//
// To visit its members in rising order:
//
//	for s := set; !s.Empty(); {
//		shard, rest := s.Next()
//		s = rest
//		...
//	}
type ShardSet struct{ bits uint64 }

// The set is one 64-bit word.
const _ = uint(64 - MaxShards)

// Empty reports that the set has no member.
func (s ShardSet) Empty() bool { return s.bits == 0 }

// Len returns the number of members.
func (s ShardSet) Len() int { return bits.OnesCount64(s.bits) }

// Has reports whether shard is a member.
func (s ShardSet) Has(shard int) bool { return s.bits&(1<<uint(shard)) != 0 }

// With returns the set with shard added.
func (s ShardSet) With(shard int) ShardSet { return ShardSet{s.bits | 1<<uint(shard)} }

// Next returns the lowest member and the set without it. Of an empty set it
// returns −1 and the empty set.
func (s ShardSet) Next() (shard int, rest ShardSet) {
	if s.bits == 0 {
		return -1, s
	}
	return bits.TrailingZeros64(s.bits), ShardSet{s.bits & (s.bits - 1)}
}

// union returns the members of either set.
func (s ShardSet) union(t ShardSet) ShardSet { return ShardSet{s.bits | t.bits} }
