package checkpoint

import (
	"errors"
	"fmt"
	"strconv"
)

// Identity is whose checkpoint is wanted.
type Identity struct {
	Node  [16]byte
	Shard uint16
}

// FileName is the name of the file that a shard's checkpoint with a sequence
// number goes to: "checkpoint-<shard>.a" for odd numbers, ".b" for even ones, so
// that the last one is never overwritten.
func FileName(shard uint16, sequence uint64) string {
	suffix := ".b"
	if sequence%2 == 1 {
		suffix = ".a"
	}
	return "checkpoint-" + strconv.FormatUint(uint64(shard), 10) + suffix
}

// ParseFileName returns the shard whose checkpoint a file holds by its name.
func ParseFileName(name string) (shard uint16, ok bool) {
	const prefix = "checkpoint-"
	if len(name) <= len(prefix)+2 || name[:len(prefix)] != prefix {
		return 0, false
	}
	n, err := strconv.ParseUint(name[len(prefix):len(name)-2], 10, 16)
	if err != nil || name != FileName(uint16(n), 0) && name != FileName(uint16(n), 1) {
		return 0, false
	}
	return uint16(n), true
}

// Choice is the newer of the two generations of a checkpoint that can be used.
type Choice struct {
	*Snapshot
	// Lost says why the other generation cannot be used, nil if it can, or if
	// there is none. What was lost may have been the newer, and have reserved
	// more offsets. If the journal has given up rounds that this one needs, the
	// files are not of the same time. Recovery must look.
	Lost error
}

// generation is a file that has been read, or could not be; neither if it is not
// there.
type generation struct {
	data []byte
	err  error
}

// choose decodes the two generations and takes the one with the higher sequence. It
// returns ErrNone if there is neither, ErrUnsupported if either is of a newer version,
// and the failures of both, joined, if none can be used.
func choose(id Identity, files [2]generation) (Choice, error) {
	var found [2]*Snapshot
	var failed [2]error
	for i, f := range files {
		switch {
		case f.err != nil:
			failed[i] = f.err
			continue
		case f.data == nil:
			continue
		}
		s, err := Decode(f.data)
		if err == nil {
			err = id.check(s)
		}
		if err != nil {
			failed[i] = in(FileName(id.Shard, uint64(1-i)), err)
			continue
		}
		found[i] = s
	}
	a, b := found[0], found[1]
	switch {
	case errors.Is(failed[0], ErrUnsupported), errors.Is(failed[1], ErrUnsupported):
		return Choice{}, errors.Join(failed[0], failed[1])
	case a == nil && b == nil && failed == [2]error{}:
		return Choice{}, fmt.Errorf("checkpoint of shard %d: %w", id.Shard, ErrNone)
	case a == nil && b == nil:
		return Choice{}, errors.Join(failed[0], failed[1])
	case b == nil || a != nil && a.Sequence >= b.Sequence:
		return Choice{Snapshot: a, Lost: failed[1]}, nil
	}
	return Choice{Snapshot: b, Lost: failed[0]}, nil
}

func (id Identity) check(s *Snapshot) error {
	if s.Node != id.Node {
		return bad(ErrIdentity, "node id", hNode, int64(id.Node[0]), int64(s.Node[0]))
	}
	if s.Shard != id.Shard {
		return bad(ErrIdentity, "shard", hShard, int64(id.Shard), int64(s.Shard))
	}
	return nil
}
