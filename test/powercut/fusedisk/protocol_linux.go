package fusedisk

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// The protocol of /dev/fuse as linux/fuse.h has it, version 7.31, in the machine's
// byte order. Sizes are in bytes.
const (
	protocolMajor = 7
	protocolMinor = 31

	inHeaderSize  = 40
	outHeaderSize = 16
	attrSize      = 88
	readInSize    = 40
	writeInSize   = 40

	// maxTransfer is the most that one read or write moves, and maxRequest the
	// largest request there is.
	maxTransfer = 1 << 20
	maxRequest  = maxTransfer + inHeaderSize + writeInSize

	rootNode = 1

	initAsyncRead = 1 << 0
	initBigWrites = 1 << 5
	initAsyncDIO  = 1 << 15
	initMaxPages  = 1 << 22

	// openDirect keeps the kernel from caching: what the loop device writes is on
	// the disk when it is told so.
	openDirect = 1 << 0
)

// opcode is what the kernel asks.
type opcode uint32

// The opcodes that are answered otherwise than with ENOSYS.
const (
	opLookup      opcode = 1
	opForget      opcode = 2
	opGetattr     opcode = 3
	opSetattr     opcode = 4
	opOpen        opcode = 14
	opRead        opcode = 15
	opWrite       opcode = 16
	opRelease     opcode = 18
	opFsync       opcode = 20
	opFlush       opcode = 25
	opInit        opcode = 26
	opInterrupt   opcode = 36
	opDestroy     opcode = 38
	opBatchForget opcode = 42
	opFallocate   opcode = 43
)

var order = binary.NativeEndian

// request is one request of the kernel.
type request struct {
	op     opcode
	unique uint64
	node   uint64
	body   []byte
}

// parseRequest takes what one read from /dev/fuse returned.
func parseRequest(b []byte) (request, error) {
	if len(b) < inHeaderSize || int(order.Uint32(b)) != len(b) {
		return request{}, fmt.Errorf("fusedisk: a request of %d bytes makes no sense", len(b))
	}
	return request{
		op: opcode(order.Uint32(b[4:])), unique: order.Uint64(b[8:]), node: order.Uint64(b[16:]),
		body: b[inHeaderSize:],
	}, nil
}

// transfer is the place and the size that a read or write names.
func (r *request) transfer() (off int64, size int, ok bool) {
	if len(r.body) < readInSize {
		return 0, 0, false
	}
	off, size = int64(order.Uint64(r.body[8:])), int(order.Uint32(r.body[16:]))
	return off, size, size <= maxTransfer && (r.op != opWrite || len(r.body) == writeInSize+size)
}

// appendHeader begins an answer; finish sets its length.
func appendHeader(b []byte, unique uint64, errno unix.Errno) []byte {
	b = order.AppendUint32(b, 0)
	b = order.AppendUint32(b, uint32(-int32(errno)))
	return order.AppendUint64(b, unique)
}

func finish(b []byte) []byte {
	order.PutUint32(b, uint32(len(b)))
	return b
}

// appendInit answers the first request.
func appendInit(b []byte) []byte {
	const flags = initAsyncRead | initBigWrites | initAsyncDIO | initMaxPages
	b = order.AppendUint32(b, protocolMajor)
	b = order.AppendUint32(b, protocolMinor)
	b = order.AppendUint32(b, 0) // read-ahead
	b = order.AppendUint32(b, flags)
	b = order.AppendUint16(b, 64) // requests in the background
	b = order.AppendUint16(b, 48) // congestion
	b = order.AppendUint32(b, maxTransfer)
	b = order.AppendUint32(b, 1) // ns of times
	b = order.AppendUint16(b, maxTransfer/pageSize)
	return append(b, make([]byte, 64-34)...)
}

// appendAttr is a node's attributes: a disk, or the directory if size is negative.
func appendAttr(b []byte, node uint64, size int64) []byte {
	mode, links := uint32(unix.S_IFREG|0o600), uint32(1)
	if size < 0 {
		mode, links, size = unix.S_IFDIR|0o700, 2, 0
	}
	b = order.AppendUint64(b, node)
	b = order.AppendUint64(b, uint64(size))
	b = order.AppendUint64(b, uint64(size/SectorSize))
	b = append(b, make([]byte, 3*8+3*4)...) // times
	b = order.AppendUint32(b, mode)
	b = order.AppendUint32(b, links)
	b = append(b, make([]byte, 3*4)...) // owner root, no device
	b = order.AppendUint32(b, pageSize)
	return order.AppendUint32(b, 0)
}

// appendEntry answers a lookup; the kernel is to ask again each time.
func appendEntry(b []byte, node uint64, size int64) []byte {
	b = order.AppendUint64(b, node)
	b = append(b, make([]byte, 40-8)...) // generation, validity
	return appendAttr(b, node, size)
}

// appendAttrOut answers a question for attributes.
func appendAttrOut(b []byte, node uint64, size int64) []byte {
	return appendAttr(append(b, make([]byte, 16)...), node, size)
}
