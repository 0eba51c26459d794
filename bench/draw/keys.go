package draw

import (
	"encoding/hex"
	"math/rand/v2"
)

const (
	// KeySize is the size of a key in bytes.
	KeySize = 8
	// MaxKeys is the largest number of different keys.
	MaxKeys = 1 << 24
	// keyDraws is the length of a table of keys, a power of two.
	keyDraws = 1 << 16
)

// Keys gives the keys of messages, one after another, from a table: a draw costs
// a load and eight bytes of text.
type Keys struct {
	draws []uint32
	next  uint32
	text  [KeySize]byte
}

// NewKeys makes keys out of n: each as likely as another with a skew of 0, by
// Zipf's law with an exponent of 1 + skew otherwise. It is nil without keys.
func NewKeys(n int, skew float64, seed uint64) *Keys {
	if n == 0 {
		return nil
	}
	k := &Keys{draws: make([]uint32, keyDraws)}
	r := rand.New(rand.NewPCG(seed, 1))
	draw := func() uint32 { return uint32(r.IntN(n)) }
	if skew > 0 {
		z := rand.NewZipf(r, 1+skew, 1, uint64(n-1))
		draw = func() uint32 { return uint32(z.Uint64()) }
	}
	for i := range k.draws {
		k.draws[i] = draw()
	}
	return k
}

// Next is the number of the next key.
func (k *Keys) Next() uint32 {
	n := k.draws[k.next&(keyDraws-1)]
	k.next++
	return n
}

// Text is a key, valid until the next call.
func (k *Keys) Text(n uint32) []byte {
	raw := [4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}
	hex.Encode(k.text[:], raw[:])
	return k.text[:]
}
