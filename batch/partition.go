package batch

import (
	"encoding/binary"

	"github.com/mqd-broker/mqd/internal/invariant"
)

// Partition returns the partition, 0 to n-1, that a record with this key goes
// to: Kafka's default, the 32-bit MurmurHash2 of the key, its sign bit cleared,
// modulo n. Producers of both protocols so agree on where a key lives. Records
// without a key have no such place; the producer spreads them. n is at least 1.
func Partition(key []byte, n int32) int32 {
	if n < 1 {
		invariant.Violated("batch: a topic with less than one partition")
	}
	return int32(murmur2(key)&0x7fffffff) % n
}

// murmur2 is Austin Appleby's MurmurHash2 for 32 bits with the seed that Kafka
// has chosen.
func murmur2(b []byte) uint32 {
	const (
		seed  = 0x9747b28c
		mix   = 0x5bd1e995
		shift = 24
	)
	h := uint32(seed) ^ uint32(len(b))
	for len(b) >= 4 {
		k := binary.LittleEndian.Uint32(b) * mix
		k = (k ^ k>>shift) * mix
		h = h*mix ^ k
		b = b[4:]
	}
	if len(b) > 0 {
		var last uint32
		for i, c := range b {
			last |= uint32(c) << (8 * i)
		}
		h = (h ^ last) * mix
	}
	h = (h ^ h>>13) * mix
	return h ^ h>>15
}
