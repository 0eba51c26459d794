package salvage

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/checkpoint"
	"github.com/mqd-broker/mqd/engine/layout"
	"github.com/mqd-broker/mqd/engine/segment"
)

// copyBytes is the size of a step of copying a log.
const copyBytes = 64 << 10

// accept changes the files of a shard, in the order that the package comment gives.
func (r *run) accept(s *shardState) error {
	for _, p := range s.parts {
		if p.fresh {
			if err := r.begin(p); err != nil {
				return err
			}
		}
	}
	if s.changed || s.forsake {
		if err := r.writeCheckpoint(s); err != nil {
			return err
		}
	}
	for _, p := range s.parts {
		for i := range p.logs {
			if err := r.replace(p, &p.logs[i]); err != nil {
				return err
			}
		}
		for i := range p.stale {
			if err := r.index(p, &p.stale[i]); err != nil {
				return err
			}
		}
		for _, name := range p.stray {
			if err := r.putAside(p.dir, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// begin makes the segment in which a partition's log goes on.
func (r *run) begin(p *part) error {
	if err := aio.MkdirAll(r.fs, p.dir); err != nil {
		return err
	}
	rec := p.rec
	rec.SegmentBase, rec.End = rec.NextOffset, 0
	if err := r.setAside(p.dir, segment.LogName(rec.SegmentBase)); err != nil {
		return err
	}
	f, err := r.fs.Open(filepath.Join(p.dir, segment.LogName(rec.SegmentBase)), aio.OpenWrite|aio.OpenCreate)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	return r.fs.SyncDir(p.dir)
}

// setAside renames what stands where a segment is to begin behind an orderly end: nothing
// of it was acknowledged. While the journals may speak of it, it stays.
func (r *run) setAside(dir, name string) error {
	entries, err := r.fs.ReadDir(dir)
	if err != nil || !r.clean {
		return err
	}
	for _, e := range entries {
		if e.Name != name || e.Size == 0 {
			continue
		}
		return r.putAside(dir, name)
	}
	return nil
}

// putAside gives a file a name under which nobody uses it.
func (r *run) putAside(dir, name string) error {
	kept, err := r.freeName(dir, name)
	if err != nil {
		return err
	}
	if err := r.fs.Rename(filepath.Join(dir, name), kept); err != nil {
		return err
	}
	return r.fs.SyncDir(dir)
}

// writeCheckpoint writes the next checkpoint of a shard, which differs from the newest in
// what was entered. One that does without the journal is written as both generations: with
// the one before alone there would be no start, and no salvage.
func (r *run) writeCheckpoint(s *shardState) error {
	h, generations := s.snap.Header, 1
	if s.forsake {
		h.Flags |= checkpoint.FlagForsaken
		generations = 2
	}
	for range generations {
		h.Sequence++
		if err := aio.WriteFileAtomic(r.fs, layout.CheckpointPath(r.o.Dir, int(s.shard), h.Sequence), s.snap.Encode(&h)); err != nil {
			return err
		}
	}
	return nil
}

// piece is a part of a log that is whole.
type piece struct{ from, to int64 }

// pieces are the parts that are whole, in order.
func (l *damagedLog) pieces() (list []piece) {
	at := int64(0)
	for _, d := range append(slices.Clone(l.damage), segment.Range{FromPos: l.end, ToPos: l.end}) {
		if d.FromPos > at {
			list = append(list, piece{at, d.FromPos})
		}
		at = max(at, d.ToPos)
	}
	return list
}

// replace puts a copy without the damage in the place of a log. One of which nothing is
// left goes aside as it is.
func (r *run) replace(p *part, l *damagedLog) error {
	path, index := filepath.Join(p.dir, l.id.LogName()), filepath.Join(p.dir, l.id.IndexName())
	pieces := l.pieces()
	if len(pieces) == 0 {
		if err := r.putAside(p.dir, l.id.LogName()); err != nil {
			return err
		}
		if err := r.fs.Remove(index); err != nil {
			return err
		}
		return r.fs.SyncDir(p.dir)
	}
	kept, err := r.freeName(p.dir, l.id.LogName())
	if err != nil {
		return err
	}
	// The copy of what is damaged stays, and comes first: not even a crash may leave
	// less than there was.
	if err := r.copy(path, kept, []piece{{0, l.size}}); err != nil {
		return err
	}
	tmp := path + ".tmp"
	if err := r.copy(path, tmp, pieces); err != nil {
		return err
	}
	if err := r.check(p, l, tmp); err != nil {
		return err
	}
	if err := r.fs.Rename(tmp, path); err != nil {
		return err
	}
	if err := r.fs.SyncDir(p.dir); err != nil {
		return err
	}
	return r.index(p, l)
}

// index makes the index of a log that is whole.
func (r *run) index(p *part, l *damagedLog) error {
	j := segment.RebuildJob{Form: segment.FormSealed, Log: segment.Log{
		Dir: p.dir, ID: l.id, EndOffset: l.endOffset, Chain: &p.rec.Epochs,
		NeighbourAppend: p.rec.NewestAppend, Created: r.d.Clock().Wall(),
	}}
	return j.Run(r.fs)
}

// freeName is the name under which a damaged log is kept.
func (r *run) freeName(dir, name string) (string, error) {
	entries, err := r.fs.ReadDir(dir)
	if err != nil {
		return "", err
	}
	taken := map[string]bool{}
	for _, e := range entries {
		taken[e.Name] = true
	}
	free := segment.Orphan(name)
	for n := 2; taken[free]; n++ {
		free = segment.Orphan(name + "." + strconv.Itoa(n))
	}
	return filepath.Join(dir, free), nil
}

// copy writes pieces of a file, one behind the other, to a new one, and makes that
// durable. Blocks that the device does not read become zeros.
func (r *run) copy(from, to string, pieces []piece) (err error) {
	src, err := r.fs.Open(from, 0)
	if err != nil {
		return err
	}
	defer func() { _ = src.Close() }() // read only
	dst, err := r.fs.Open(to, aio.OpenWrite|aio.OpenCreate)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dst.Close()) }()
	if err := dst.Truncate(0); err != nil {
		return err
	}
	buf, pos := make([]byte, copyBytes), int64(0)
	for _, p := range pieces {
		for at := p.from; at < p.to; {
			b := buf[:min(copyBytes, p.to-at)]
			if err := readAround(src, b, at); err != nil {
				return err
			}
			if _, err := dst.WriteAt(b, pos); err != nil {
				return err
			}
			at, pos = at+int64(len(b)), pos+int64(len(b))
		}
	}
	return dst.Sync()
}

// readAround reads b at a position, with zeros where the device does not read.
func readAround(f io.ReaderAt, b []byte, at int64) error {
	n, err := f.ReadAt(b, at)
	if n == len(b) || err == nil || errors.Is(err, io.EOF) {
		clear(b[n:])
		return nil
	}
	if !aio.IsUnreadable(err) {
		return err
	}
	for len(b) > 0 {
		block := b[:min(int64(len(b)), aio.BlockSize-at%aio.BlockSize)]
		if n, err := f.ReadAt(block, at); n < len(block) {
			if err != nil && !errors.Is(err, io.EOF) && !aio.IsUnreadable(err) {
				return err
			}
			clear(block[n:])
		}
		b, at = b[len(block):], at+int64(len(block))
	}
	return nil
}

// check reads a log that is about to take the place of a damaged one.
func (r *run) check(p *part, l *damagedLog, path string) error {
	f, err := r.fs.Open(path, 0)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // read only
	size, err := f.Size()
	if err != nil {
		return err
	}
	_, err = segment.Scan(f, segment.ScanOptions{
		Path: path, To: size, Offset: l.id.Base, EndOffset: l.endOffset, Chain: &p.rec.Epochs,
	}, func(*segment.Batch) error { return nil })
	if err != nil {
		return fmt.Errorf("the copy without the damage is not whole, the log stays as it is: %w", err)
	}
	return nil
}
