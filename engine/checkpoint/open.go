package checkpoint

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/mqd-broker/mqd/engine/aio"
)

// maxFileBytes bounds a checkpoint that is read: 1 GiB, some millions of
// partitions.
const maxFileBytes = 1 << 30

// Load reads a shard's checkpoint from dir, whichever generation is newer and can
// be used. One that cannot be read because of something else than itself or the
// medium may be the one that counts: that is an error. It blocks. A writer replaces
// the file [FileName] by aio's atomic write; nothing else is needed.
func Load(fs aio.FS, dir string, id Identity) (Choice, error) {
	var files [2]generation
	for i := range files {
		b, err := aio.ReadFile(fs, filepath.Join(dir, FileName(id.Shard, uint64(1-i))), maxFileBytes)
		switch {
		case err == nil:
			files[i].data = append([]byte{}, b...) // not nil: an empty file is there
		case aio.IsUnreadable(err), errors.Is(err, aio.ErrTooBig):
			files[i].err = err
		case !aio.IsNotExist(err):
			return Choice{}, err
		}
	}
	return choose(id, files)
}

// LoadNode reads the node file of the data directory dir. It blocks. ErrNone: dir
// is no data directory yet.
func LoadNode(fs aio.FS, dir string) (Node, error) {
	path := filepath.Join(dir, NodeFile)
	b, err := aio.ReadFile(fs, path, 1<<20)
	if aio.IsNotExist(err) {
		return Node{}, fmt.Errorf("%s: %w", path, ErrNone)
	}
	if err != nil {
		return Node{}, err
	}
	n, err := DecodeNode(b)
	if err != nil {
		return Node{}, in(path, err)
	}
	return n, nil
}

// SaveNode replaces the node file of dir, so that a crash leaves the old one or
// the new one. It blocks.
func SaveNode(fs aio.FS, dir string, n *Node) error {
	return aio.WriteFileAtomic(fs, filepath.Join(dir, NodeFile), AppendNode(nil, n))
}
