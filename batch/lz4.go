package batch

import (
	"encoding/binary"
	"errors"
	"slices"
	"sync"

	"github.com/pierrec/lz4/v4"
)

// The lz4 frame format, version 1 (lz4_Frame_format.md of the lz4 project), as
// far as a batch needs it. It is read here block by block rather than as a
// stream, so that the output is bounded before each block and goes straight to
// its place. Little-endian, unlike everything else here.
const (
	lz4Magic = 0x184D2204

	// lz4FrameHeader is the frame header that Compress writes, the same that
	// Kafka's Java client does: version 1, independent blocks of at most 64 KiB,
	// no checksums, no content size. The last byte is the second byte of the
	// xxHash-32 of the two before.
	lz4FrameHeader = "\x04\x22\x4d\x18" + "\x60\x40" + "\x82"

	// lz4Block is the block size of that header.
	lz4Block = 64 << 10

	lz4Raw = 1 << 31 // in a block's length: the block is not compressed

	// Bits of the descriptor's first byte, FLG.
	lz4Version         = 0xc0 // two bits, 01
	lz4Independent     = 0x20
	lz4BlockChecksum   = 0x10
	lz4ContentSize     = 0x08
	lz4ContentChecksum = 0x04
	lz4Reserved        = 0x02
	lz4Dictionary      = 0x01

	// lz4History is how far back a block that depends on earlier ones reaches.
	lz4History = 64 << 10

	// lz4MaxRatio bounds output by input: a length byte adds at most 255.
	lz4MaxRatio = 255
)

var (
	errLz4Header   = errors.New("lz4: not a frame of version 1 that needs no dictionary")
	errLz4Short    = errors.New("lz4: the frame ends before its end mark")
	errLz4Block    = errors.New("lz4: a block is larger than the frame's block size")
	errLz4Trailing = errors.New("lz4: bytes after the frame")
	errLz4Size     = errors.New("lz4: the content size is wrong")
)

var lz4Compressors = sync.Pool{New: func() any { return new(lz4.Compressor) }}

func compressLz4(dst, src []byte) []byte {
	c := lz4Compressors.Get().(*lz4.Compressor)
	defer lz4Compressors.Put(c)
	dst = append(dst, lz4FrameHeader...)
	for len(src) > 0 {
		n := min(len(src), lz4Block)
		at := len(dst)
		dst = slices.Grow(dst, 4+lz4.CompressBlockBound(n))
		size, err := c.CompressBlock(src[:n], dst[at+4:at+4+lz4.CompressBlockBound(n)])
		if err == nil && size > 0 && size < n {
			binary.LittleEndian.PutUint32(dst[at:at+4], uint32(size))
			dst = dst[:at+4+size]
		} else {
			binary.LittleEndian.PutUint32(dst[at:at+4], uint32(n)|lz4Raw)
			dst = append(dst[:at+4], src[:n]...)
		}
		src = src[n:]
	}
	return append(dst, 0, 0, 0, 0)
}

// lz4Descriptor is what the frame header says.
type lz4Descriptor struct {
	flags   byte
	block   int   // most bytes a block decompresses to
	content int64 // of the whole frame, or -1
}

// decompressLz4 decodes exactly one frame. Its xxHash checksums are skipped: the
// batch's CRC covers the same bytes.
func decompressLz4(dst, src []byte, limit int) ([]byte, error) {
	d, src, err := lz4Header(src)
	if err != nil {
		return nil, err
	}
	if d.content > int64(limit) {
		return nil, errLimit
	}
	start, end := len(dst), len(dst)+limit
	for {
		if len(src) < 4 {
			return nil, errLz4Short
		}
		size := binary.LittleEndian.Uint32(src)
		src = src[4:]
		if size == 0 {
			break
		}
		n := int(size &^ lz4Raw)
		if n > d.block {
			return nil, errLz4Block
		}
		if n > len(src) {
			return nil, errLz4Short
		}
		if dst, err = d.appendBlock(dst, start, end, src[:n], size&lz4Raw != 0); err != nil {
			return nil, err
		}
		src = src[n:]
		if d.flags&lz4BlockChecksum != 0 {
			if len(src) < 4 {
				return nil, errLz4Short
			}
			src = src[4:]
		}
	}
	if d.flags&lz4ContentChecksum != 0 {
		if len(src) < 4 {
			return nil, errLz4Short
		}
		src = src[4:]
	}
	if len(src) > 0 {
		return nil, errLz4Trailing
	}
	if d.content >= 0 && d.content != int64(len(dst)-start) {
		return nil, errLz4Size
	}
	return dst, nil
}

// lz4Header reads the frame header and returns what follows it.
func lz4Header(src []byte) (lz4Descriptor, []byte, error) {
	if len(src) < len(lz4FrameHeader) {
		return lz4Descriptor{}, nil, errLz4Short
	}
	flags, sizes := src[4], src[5]
	blockID := sizes >> 4 // 4: 64 KiB, 5: 256 KiB, 6: 1 MiB, 7: 4 MiB
	if binary.LittleEndian.Uint32(src) != lz4Magic || flags&lz4Version != 0x40 ||
		flags&(lz4Reserved|lz4Dictionary) != 0 || sizes&0x0f != 0 || blockID < 4 || blockID > 7 {
		return lz4Descriptor{}, nil, errLz4Header
	}
	d := lz4Descriptor{flags: flags, block: 1 << (8 + 2*blockID), content: -1}
	src = src[6:]
	if flags&lz4ContentSize != 0 {
		if len(src) < 8+1 {
			return lz4Descriptor{}, nil, errLz4Short
		}
		n := binary.LittleEndian.Uint64(src)
		d.content = int64(min(n, MaxSize+1))
		src = src[8:]
	}
	return d, src[1:], nil // 1: the header's checksum
}

// appendBlock decodes one block onto dst, whose frame began at start and may
// grow to end.
func (d *lz4Descriptor) appendBlock(dst []byte, start, end int, block []byte, raw bool) ([]byte, error) {
	at := len(dst)
	if raw {
		if len(block) > end-at {
			return nil, errLimit
		}
		return append(dst, block...), nil
	}
	// What the block can decode to, and what it may.
	most := min(d.block, lz4MaxRatio*len(block))
	room := min(most, end-at)
	dst = slices.Grow(dst, room)
	var history []byte
	if d.flags&lz4Independent == 0 {
		history = dst[max(start, at-lz4History):at]
	}
	n, err := lz4.UncompressBlockWithDict(block, dst[at:at+room], history)
	if err != nil {
		if room < most {
			return nil, errLimit
		}
		return nil, err
	}
	return dst[:at+n], nil
}
