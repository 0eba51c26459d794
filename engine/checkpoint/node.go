package checkpoint

import (
	"encoding/binary"
	"hash/crc32"
)

// NodeFile is the name of the file that makes a directory a data directory.
const NodeFile = "mqd.node"

// DefaultSlots is the number of slots of a new data directory; MaxSlots bounds it.
const (
	DefaultSlots = 64
	MaxSlots     = 1 << 15
)

// Node is the content of the node file: what is fixed when the data directory is
// created, and how often it has been started.
type Node struct {
	ID      [16]byte // random, for life
	Created int64    // Unix time in nanoseconds
	Slots   uint16   // fixed for life, 1 to MaxSlots
	Shards  uint16   // of the last run, 0 before the first
	// Starts counts the starts; the number is the term of that run.
	Starts uint32
}

// Start counts a start with the given number of shards. The node file must be
// durable before anything of that run is written.
func (n *Node) Start(shards uint16) error {
	if n.Starts >= MaxTerm {
		return ErrTermsUsedUp
	}
	n.Starts++
	n.Shards = shards
	return nil
}

// Term is the term of the present run.
func (n *Node) Term() uint32 { return n.Starts }

// AppendNode appends the node file to dst.
func AppendNode(dst []byte, n *Node) []byte {
	b := make([]byte, nodeBytes)
	be := binary.BigEndian
	be.PutUint32(b[nMagic:], nodeMagic)
	be.PutUint16(b[nVersion:], nodeVersion)
	copy(b[nID:], n.ID[:])
	be.PutUint64(b[nCreated:], uint64(n.Created))
	be.PutUint16(b[nSlots:], n.Slots)
	be.PutUint16(b[nShards:], n.Shards)
	be.PutUint32(b[nStarts:], n.Starts)
	be.PutUint32(b[nCRC:], crc32.Checksum(b[:nCRC], castagnoli))
	return append(dst, b...)
}

// DecodeNode reads a node file. Errors are [*FormatError].
func DecodeNode(b []byte) (Node, error) {
	be := binary.BigEndian
	if len(b) < nodeBytes {
		return Node{}, bad(ErrTruncated, "file", int64(len(b)), nodeBytes, int64(len(b)))
	}
	if m := be.Uint32(b[nMagic:]); m != nodeMagic {
		return Node{}, bad(ErrDamaged, "magic", nMagic, nodeMagic, int64(m))
	}
	if sum, crc := crc32.Checksum(b[:nCRC], castagnoli), be.Uint32(b[nCRC:]); sum != crc {
		return Node{}, bad(ErrDamaged, "CRC", nCRC, int64(sum), int64(crc))
	}
	// From here on the file is what somebody wrote.
	if v := be.Uint16(b[nVersion:]); v != nodeVersion {
		return Node{}, bad(ErrUnsupported, "version", nVersion, nodeVersion, int64(v))
	}
	if r := be.Uint32(b[nRequired:]); r != 0 {
		return Node{}, bad(ErrUnsupported, "required features", nRequired, 0, int64(r))
	}
	n := Node{
		ID:      [16]byte(b[nID:]),
		Created: int64(be.Uint64(b[nCreated:])),
		Slots:   be.Uint16(b[nSlots:]),
		Shards:  be.Uint16(b[nShards:]),
		Starts:  be.Uint32(b[nStarts:]),
	}
	switch {
	case len(b) != nodeBytes:
		return Node{}, bad(ErrDamaged, "file", nodeBytes, nodeBytes, int64(len(b)))
	case n.Slots == 0 || n.Slots > MaxSlots:
		return Node{}, bad(ErrDamaged, "slots", nSlots, DefaultSlots, int64(n.Slots))
	case n.Starts > MaxTerm:
		return Node{}, bad(ErrDamaged, "starts", nStarts, MaxTerm, int64(n.Starts))
	case !allZero(b[nRest:nCRC]) || !allZero(b[nZero:nRequired]):
		return Node{}, bad(ErrDamaged, "reserved bytes", nRest, 0, 1)
	}
	return n, nil
}
