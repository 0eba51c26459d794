package segment

import (
	"cmp"
	"slices"

	"github.com/mqd-broker/mqd/engine/aio"
)

// File is a segment as a directory shows it.
type File struct {
	Base       int64
	LogBytes   int64 // size of the file, space allocated in advance included
	IndexBytes int64 // size of the index file, -1 if there is none
}

// Listing is what a partition's directory holds.
type Listing struct {
	// Segments are the logs, by base offset.
	Segments []File
	// Lost are the bases of indexes without a log, ascending. An empty one was
	// created ahead of its log; any other means that a log is gone.
	Lost []File
	// Leftovers are temporary and deleted files; they may be removed.
	Leftovers []string
	// Unknown are all other names. They are reported and left alone.
	Unknown []string
}

// List reads the partition directory dir. It changes nothing.
func List(fs aio.FS, dir string) (Listing, error) {
	entries, err := fs.ReadDir(dir)
	if err != nil {
		return Listing{}, err
	}
	return Classify(entries), nil
}

// Classify sorts the entries of a partition's directory.
func Classify(entries []aio.DirEntry) Listing {
	var l Listing
	indexes := map[int64]int64{} // base -> size
	for _, e := range entries {
		kind, base := ParseName(e.Name)
		if e.Dir {
			kind = KindUnknown
		}
		switch kind {
		case KindLog:
			l.Segments = append(l.Segments, File{Base: base, LogBytes: e.Size, IndexBytes: -1})
		case KindIndex:
			indexes[base] = e.Size
		case KindTemp, KindDeleted:
			l.Leftovers = append(l.Leftovers, e.Name)
		default:
			l.Unknown = append(l.Unknown, e.Name)
		}
	}
	for i := range l.Segments {
		s := &l.Segments[i]
		if size, ok := indexes[s.Base]; ok {
			s.IndexBytes = size
			delete(indexes, s.Base)
		}
	}
	for base, size := range indexes {
		l.Lost = append(l.Lost, File{Base: base, IndexBytes: size})
	}
	byBase := func(a, b File) int { return cmp.Compare(a.Base, b.Base) }
	slices.SortFunc(l.Segments, byBase)
	slices.SortFunc(l.Lost, byBase)
	slices.Sort(l.Leftovers)
	slices.Sort(l.Unknown)
	return l
}
