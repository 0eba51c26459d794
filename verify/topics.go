package verify

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/broker/catalog"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/layout"
	"github.com/mqd-broker/mqd/engine/segment"
)

// errCatalog marks what is wrong with a command of the catalog.
var errCatalog = errors.New("the catalog's log does not apply")

// snapshotNames are the two generations of the catalog's snapshot, as
// docs/format/catalog.md has them.
var snapshotNames = [2]string{"catalog.a", "catalog.b"}

// readCatalog reads the catalog's snapshots and its log, whose segments are verified
// with all others.
func (r *run) readCatalog() error {
	for _, name := range snapshotNames {
		path := r.path(layout.CheckpointsDir, name)
		b, err := aio.ReadFile(r.fs, path, catalog.MaxSnapshotBytes)
		switch {
		case aio.IsNotExist(err):
			continue
		case err != nil:
			r.failed(path, err)
			continue
		}
		r.read(int64(len(b)))
		r.sum.Snapshots++
		s, node, err := catalog.DecodeSnapshot(b)
		switch {
		case err != nil:
			r.decoded(path, err, errors.Is(err, catalog.ErrUnsupported))
		case r.hasNode && node != r.node.ID:
			r.tell(Damage, path, "it belongs to node %x, expected node %x", node, r.node.ID)
		case s.Next() > r.state.Next():
			r.state = s
		}
	}
	r.complete = true
	p := r.parts[layout.Key{Topic: layout.CatalogTopic}]
	if p == nil {
		r.complete = !r.blind
		return nil
	}
	return r.readCommands(p)
}

// readCommands applies the commands of the catalog's log, as far as the checkpoint knows
// it. Each one is decoded, also those that a snapshot has. It stops at damage, which the
// segment's own verification reports.
func (r *run) readCommands(p *partState) error {
	dir := layout.PartitionDir(r.o.Dir, layout.CatalogName, layout.Key{Topic: layout.CatalogTopic})
	l, err := segment.List(r.fs, dir)
	if err != nil {
		r.complete = p.rec.NextOffset == 0
		return nil // reported where directories are looked for
	}
	for _, s := range l.Segments {
		if s.Base > p.rec.SegmentBase {
			break
		}
		end := s.LogBytes
		if s.Base == p.rec.SegmentBase {
			end = min(end, p.rec.End)
		}
		path := filepath.Join(dir, segment.LogName(s.Base))
		err := r.commandsOf(path, s.Base, end, &p.rec.Epochs)
		if errors.Is(err, errCatalog) {
			r.tell(Damage, path, "%v", err)
		}
		if err != nil {
			r.complete = false
			return nil
		}
	}
	return nil
}

// commandsOf reads one segment of the catalog's log.
func (r *run) commandsOf(path string, base, end int64, chain segment.Chain) error {
	f, err := r.fs.Open(path, 0)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // read only
	var buf []byte
	_, err = segment.Scan(f, segment.ScanOptions{Path: path, To: end, Offset: base, Chain: chain}, func(b *segment.Batch) error {
		if int64(cap(buf)) < b.Size {
			buf = make([]byte, b.Size)
		}
		buf = buf[:b.Size]
		if _, err := f.ReadAt(buf, b.Pos); err != nil {
			return err
		}
		if err := r.apply(buf); err != nil {
			return fmt.Errorf("%w: %w", errCatalog, err)
		}
		return nil
	})
	return err
}

// apply decodes the commands of a batch and applies those that the state does not have.
func (r *run) apply(b []byte) error {
	h, err := batch.CheckStored(b)
	if err != nil {
		return err
	}
	if h.Attributes.Codec() != batch.CodecNone {
		return fmt.Errorf("the batch at offset %d is compressed", h.BaseOffset)
	}
	it := h.Records(b[batch.HeaderSize:])
	for it.Next() {
		rec := it.Record()
		if _, err := catalog.Decode(rec.Value); err != nil {
			return fmt.Errorf("command at offset %d: %w", rec.Offset, err)
		}
		r.sum.Commands++
		if rec.Offset >= r.state.Next() {
			if err := r.state.Apply(rec.Offset, rec.Value); err != nil {
				return err
			}
		}
	}
	return it.Err()
}

// nameOf is a topic's name, or its id where the catalog does not know it.
func (r *run) nameOf(id layout.TopicID) string {
	if id == layout.CatalogTopic {
		return layout.CatalogName
	}
	if t := r.state.Image().ByID(id); t != nil {
		return t.Name
	}
	return id.String()
}

// topic is a topic's directory.
type topic struct {
	dir  string // its path
	name string
	id   layout.TopicID
	ok   bool // the id is known
}

// readTopics verifies the segments of every partition.
func (r *run) readTopics() error {
	entries, err := r.fs.ReadDir(r.path(layout.TopicsDir))
	if err != nil {
		r.tell(Damage, r.path(layout.TopicsDir), "cannot be listed: %v", err)
		return nil
	}
	ids := r.ids()
	matched := r.o.Topic == "" || r.o.Topic == layout.CatalogName || r.state.Image().ByName(r.o.Topic) != nil
	for _, e := range entries {
		t := topic{dir: r.path(layout.TopicsDir, e.Name)}
		shown, prefix, ok := segment.ParseTopicDir(e.Name)
		switch {
		case segment.IsDeleted(e.Name):
			r.tell(Note, t.dir, "a deleted topic, of which not everything has been removed")
			continue
		case !ok || !e.Dir:
			r.tell(Note, t.dir, "it is not ours")
			continue
		}
		t.name = shown
		for _, id := range ids[hex.EncodeToString(prefix[:])] {
			name := r.nameOf(id)
			if known := name != id.String(); !known || segment.TopicDir(name, id) == e.Name {
				t.id, t.ok = id, true
				if known {
					t.name = name
				}
			}
		}
		matched = matched || t.name == r.o.Topic
		if err := r.readTopic(&t); err != nil {
			return err
		}
	}
	if !matched {
		return fmt.Errorf("%w: %q", ErrUnknownTopic, r.o.Topic)
	}
	r.missingPartitions()
	return nil
}

// ids are the ids of topics that the catalog or a checkpoint knows, by what directories
// show of them.
func (r *run) ids() map[string][]layout.TopicID {
	all := map[layout.TopicID]bool{layout.CatalogTopic: true}
	for k := range r.parts {
		all[k.Topic] = true
	}
	for _, t := range r.state.Image().Topics() {
		all[t.ID] = true
	}
	ids := map[string][]layout.TopicID{}
	for id := range all {
		prefix := hex.EncodeToString(id[:4])
		ids[prefix] = append(ids[prefix], id)
	}
	return ids
}

// wanted reports whether the segments of a topic are to be read.
func (r *run) wanted(name string) bool { return r.o.Topic == "" || r.o.Topic == name }

func (r *run) readTopic(t *topic) error {
	entries, err := r.fs.ReadDir(t.dir)
	if err != nil {
		r.failed(t.dir, err)
		return nil
	}
	for _, e := range entries {
		n, ok := segment.ParsePartitionDir(e.Name)
		if !ok || !e.Dir {
			r.tell(Note, filepath.Join(t.dir, e.Name), "it is not ours")
			continue
		}
		p := r.parts[layout.Key{Topic: t.id, Partition: n}]
		if !t.ok {
			p = nil
		}
		if p != nil {
			p.seen = true
		}
		if r.wanted(t.name) {
			if err := r.readPartition(t, n, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// missingPartitions reports partitions that a checkpoint has bytes of and that have no
// directory, unless their topic has been deleted.
func (r *run) missingPartitions() {
	var gone []*Finding
	for k, p := range r.parts {
		rec := &p.rec
		_, deleted := r.state.Deleted(k.Topic)
		if deleted || p.seen || rec.NextOffset <= rec.LogStart || rec.Epochs.AllowsGap(rec.LogStart, rec.NextOffset) {
			continue
		}
		name := r.nameOf(k.Topic)
		if !r.wanted(name) {
			continue
		}
		f := r.blank(Damage, layout.PartitionDir(r.o.Dir, name, k))
		f.Topic, f.Partition, f.Offset, f.EndOffset = name, int64(k.Partition), rec.LogStart, rec.NextOffset
		f.Reason = "the directory of the partition is missing"
		gone = append(gone, f)
		r.sum.Partitions++
	}
	slices.SortFunc(gone, func(a, b *Finding) int { return cmp.Compare(a.File, b.File) })
	for _, f := range gone {
		r.report(f)
	}
}
