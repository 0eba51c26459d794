package batch

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/klauspost/compress/snappy"
)

// Kafka's Java client writes snappy through the snappy-java library, which
// frames raw snappy blocks: a 16-byte header, then for each block its length as
// a big-endian i32 and the block. Other clients write one raw block. Both are
// read.
const (
	snappyMagic       = "\x82SNAPPY\x00"
	snappyFrameHeader = snappyMagic +
		"\x00\x00\x00\x01" + // version
		"\x00\x00\x00\x01" // lowest version that can read it

	// snappyBlock is how much of the input goes into one block.
	snappyBlock = 32 << 10

	// snappyMaxRatio bounds output by input: the longest copy makes 64 bytes of
	// 3.
	snappyMaxRatio = 22
)

var (
	errSnappyFrame  = errors.New("snappy: a block's length exceeds the input")
	errSnappyLength = errors.New("snappy: a block claims more than snappy can make of it")
)

func compressSnappy(dst, src []byte) []byte {
	dst = append(dst, snappyFrameHeader...)
	for len(src) > 0 {
		n := min(len(src), snappyBlock)
		at := len(dst)
		dst = slices.Grow(dst, 4+snappy.MaxEncodedLen(n))
		room := dst[at+4 : at+4+snappy.MaxEncodedLen(n)]
		block := snappy.Encode(room, src[:n])
		dst = dst[:at+4+len(block)]
		binary.BigEndian.PutUint32(dst[at:], uint32(len(block)))
		src = src[n:]
	}
	return dst
}

func decompressSnappy(dst, src []byte, limit int) ([]byte, error) {
	if len(src) < len(snappyFrameHeader) || string(src[:len(snappyMagic)]) != snappyMagic {
		return decompressSnappyBlock(dst, src, limit)
	}
	end := len(dst) + limit
	src = src[len(snappyFrameHeader):]
	for len(src) > 0 {
		if len(src) < 4 {
			return nil, errSnappyFrame
		}
		n := binary.BigEndian.Uint32(src)
		src = src[4:]
		if uint64(n) > uint64(len(src)) {
			return nil, errSnappyFrame
		}
		var err error
		if dst, err = decompressSnappyBlock(dst, src[:n], end-len(dst)); err != nil {
			return nil, err
		}
		src = src[n:]
	}
	return dst, nil
}

// decompressSnappyBlock decodes one raw block.
func decompressSnappyBlock(dst, src []byte, limit int) ([]byte, error) {
	n, err := snappy.DecodedLen(src)
	if errors.Is(err, snappy.ErrTooLarge) || n > limit {
		return nil, errLimit // ErrTooLarge: a claim beyond the platform's int
	}
	if err != nil {
		return nil, err
	}
	if n > snappyMaxRatio*len(src) {
		return nil, errSnappyLength
	}
	at := len(dst)
	dst = slices.Grow(dst, n)
	out, err := snappy.Decode(dst[at:at:at+n], src)
	if err != nil {
		return nil, err
	}
	return dst[:at+len(out)], nil
}
