package ballast

import (
	"path/filepath"
	"sync/atomic"

	"github.com/mqd-broker/mqd/engine/aio"
)

// Name is the file's name in the data directory.
const Name = "ballast"

// The file is a 50th of the filesystem, at most 64 MiB.
const (
	mostBytes = 64 << 20
	part      = 50
)

// unsavedShare is the part of the ballast, one in so many, that may wait in the journals
// for files while the disk is full. What is in a journal alone is what a start has to
// write: it takes whole blocks, directories and files that are new, and checkpoints.
const unsavedShare = 4

// startBytes is what a start writes at most beside what the journals hold: the node
// file, two checkpoints for each shard, the entries of directories.
const startBytes = 4 << 20

// Ballast says whether the file is there. All shards share it; its owner's [Keeper]
// alone changes it.
//
// While it is missing nothing is taken but what makes room: the space that it gave is
// for what has been acknowledged already, and without it a start on a full disk would
// fail. On a full disk only a small part of it may wait in the journals, so that the
// start after a crash finds room for that.
type Ballast struct {
	missing atomic.Bool
	unsaved atomic.Int64
	wanted  atomic.Bool
	wake    func()
}

// Missing reports whether the file is not there. It is false for a nil Ballast.
func (b *Ballast) Missing() bool { return b != nil && b.missing.Load() }

// Spent reports whether n bytes, which a shard has in its journal alone, are as many as
// it may have on a full disk. It is false for a nil Ballast.
func (b *Ballast) Spent(n int64) bool { return b != nil && n >= b.unsaved.Load() }

// Release asks for the file's removal: something that makes room, or keeps what has been
// acknowledged, finds none. Any shard may call it.
func (b *Ballast) Release() {
	if b != nil && !b.missing.Load() && !b.wanted.Swap(true) {
		b.wake()
	}
}

// Size is the size of the file, in bytes, on a filesystem of total bytes.
func Size(total int64) int64 {
	return max(aio.BlockSize, min(mostBytes, total/part)&^(aio.BlockSize-1))
}

// Short reports whether free bytes may be too few for a start whose journals have the
// given size together.
func Short(free, journals int64) bool { return free < journals+startBytes }

// Remove removes the file, and reports whether there was one.
func Remove(fs aio.FS, dir string) (bool, error) {
	path := filepath.Join(dir, Name)
	f, err := fs.Open(path, 0)
	if err != nil {
		if aio.IsNotExist(err) {
			err = nil
		}
		return false, err
	}
	if err := f.Close(); err != nil {
		return false, err
	}
	if err := fs.Remove(path); err != nil {
		return false, err
	}
	return true, fs.SyncDir(dir) // or the blocks would not be free yet
}
