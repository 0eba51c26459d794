package verify

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/checkpoint"
	"github.com/mqd-broker/mqd/engine/layout"
)

// Most bytes of a node file and of a checkpoint that are read.
const (
	maxNodeBytes       = 1 << 20
	maxCheckpointBytes = 1 << 30
)

// readOnly reports whether err says that the filesystem cannot be written.
func readOnly(err error) bool { return errors.Is(err, syscall.EROFS) }

// measure adds up the files of the directory, for the progress.
func (r *run) measure() error {
	if r.o.Progress == nil {
		return nil
	}
	r.total = r.sizeOf(r.o.Dir, 5)
	return nil
}

// sizeOf adds up the files in dir and, to a depth, below. What cannot be listed counts
// nothing: it is reported where it is read.
func (r *run) sizeOf(dir string, depth int) int64 {
	entries, err := r.fs.ReadDir(dir)
	if err != nil || depth == 0 {
		return 0
	}
	total := int64(0)
	for _, e := range entries {
		switch {
		case e.Dir:
			total += r.sizeOf(dir+"/"+e.Name, depth-1)
		case e.Name != "ballast":
			total += e.Size
		}
	}
	return total
}

// readNode reads the node file.
func (r *run) readNode() error {
	path := r.path(checkpoint.NodeFile)
	b, err := aio.ReadFile(r.fs, path, maxNodeBytes)
	switch {
	case aio.IsNotExist(err):
		if _, err := r.fs.ReadDir(r.path(layout.JournalsDir)); err != nil {
			return fmt.Errorf("%s: %w: there is no %s in it", r.o.Dir, ErrNoDirectory, checkpoint.NodeFile)
		}
		r.tell(Damage, path, "it is missing, and there are journals")
		return nil
	case err != nil:
		r.failed(path, err)
		return nil
	}
	r.read(int64(len(b)))
	n, err := checkpoint.DecodeNode(b)
	if err != nil {
		r.decoded(path, err, errors.Is(err, checkpoint.ErrUnsupported))
		return nil
	}
	r.node, r.hasNode = n, true
	return nil
}

// writtenByNewer begins the reason for a file that is of a format that is not known yet.
const writtenByNewer = "a newer version of mqd has written it, which alone can verify it: "

// decoded reports a file that does not decode: damage, unless a newer program wrote it.
func (r *run) decoded(path string, err error, newer bool) {
	f := r.blank(Damage, path)
	f.Reason = err.Error()
	if e := (*checkpoint.FormatError)(nil); errors.As(err, &e) {
		f.Position = e.At
		f.Reason = fmt.Sprintf("%v: %s: expected %d, found %d", e.Kind, e.Field, e.Expected, e.Found)
	}
	if newer {
		f.Kind, f.Reason = Unchecked, writtenByNewer+f.Reason
	}
	r.report(f)
}

// readCheckpoints reads both generations of every shard's checkpoint, and takes each
// partition's newest record.
func (r *run) readCheckpoints() error {
	entries, err := r.fs.ReadDir(r.path(layout.CheckpointsDir))
	if err != nil {
		r.tell(Damage, r.path(layout.CheckpointsDir), "cannot be listed: %v", err)
		r.blind = true
		return nil
	}
	newest := map[int]*checkpoint.Snapshot{}
	for _, e := range entries {
		shard, ok := checkpoint.ParseFileName(e.Name)
		if !ok {
			continue
		}
		st := r.shards[int(shard)]
		if st == nil {
			st = &shardState{}
			r.shards[int(shard)] = st
		}
		s := r.readCheckpoint(r.path(layout.CheckpointsDir, e.Name), shard)
		if s == nil {
			st.lost = true
			continue
		}
		if old := newest[int(shard)]; old == nil || s.Sequence > old.Sequence {
			newest[int(shard)] = s
		}
	}
	for shard, st := range r.shards { // in any order: what is taken does not depend on it
		if s := newest[shard]; s != nil {
			r.take(st, s)
		} else {
			r.blind = true
		}
	}
	if len(r.shards) == 0 && r.node.Starts > 1 {
		r.tell(Damage, r.path(layout.CheckpointsDir), "there is no checkpoint, and the node has started %d times", r.node.Starts)
		r.blind = true
	}
	return nil
}

// readCheckpoint reads one file; nil if it is of no use.
func (r *run) readCheckpoint(path string, shard uint16) *checkpoint.Snapshot {
	b, err := aio.ReadFile(r.fs, path, maxCheckpointBytes)
	if err != nil {
		r.failed(path, err)
		return nil
	}
	r.read(int64(len(b)))
	r.sum.Checkpoints++
	s, err := checkpoint.Decode(b)
	if err != nil {
		r.decoded(path, err, errors.Is(err, checkpoint.ErrUnsupported))
		return nil
	}
	if r.hasNode && s.Node != r.node.ID || s.Shard != shard {
		r.tell(Damage, path, "it belongs to node %x, shard %d; expected node %x, shard %d", s.Node, s.Shard, r.node.ID, shard)
		return nil
	}
	return s
}

// take notes what a shard's newest checkpoint says. A partition is in several when it
// moves; the record of the newest term counts, and of one term that of the slot's shard.
func (r *run) take(st *shardState, s *checkpoint.Snapshot) {
	st.header, st.ok, st.slots = s.Header, true, map[uint16]bool{}
	for _, slot := range s.Slots {
		st.slots[slot.Slot] = true
	}
	for i := range s.Partitions {
		rec := &s.Partitions[i]
		k := layout.Key{Topic: rec.Topic, Partition: rec.Partition}
		own := st.slots[rec.Slot]
		old := r.parts[k]
		if old == nil || rec.Term > old.rec.Term || rec.Term == old.rec.Term && own && !old.own {
			r.parts[k] = &partState{rec: *rec, own: own}
		}
	}
}
