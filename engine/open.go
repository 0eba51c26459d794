package engine

import (
	"github.com/mqd-broker/mqd/engine/filepool"
	"github.com/mqd-broker/mqd/engine/layout"
	"github.com/mqd-broker/mqd/engine/recovery"
	"github.com/mqd-broker/mqd/engine/segment"
)

// Open returns partition k, making it if the store does not have it. It does no
// I/O: directory and files are made when the first bytes are written back.
func (s *Store) Open(k Key, topic string, cfg PartitionConfig) *Partition {
	if p := s.parts[k]; p != nil {
		return p
	}
	p := &Partition{
		key: k, slot: SlotOf(k, len(s.opts.Slots)), store: s, cfg: cfg, class: cfg.Class, shown: cfg.Class,
		dir: layout.PartitionDir(s.opts.Dir, topic, k),
	}
	p.dirty.Owner = p
	p.mem.Use(s.chunks)
	s.parts[k] = p
	s.list = append(s.list, p)
	if p.class != ClassFlushed {
		s.wantReservation(p)
	}
	return p
}

// Restore opens a partition with the state that recovery has found.
func (s *Store) Restore(st *recovery.PartitionState, topic string, cfg PartitionConfig) *Partition {
	p := s.Open(st.Key, topic, cfg)
	p.epochs = st.Epochs
	s.producers.Restore(&p.producers, st.Producers, s.loop.Now())
	s.newestTime = max(s.newestTime, st.AppendTime)
	s.wallBase = max(s.wallBase, st.AppendTime-s.loop.Now()) // time goes on, whatever the clock says
	p.next, p.visible = st.NextOffset, st.NextOffset
	p.start.Restore(st.LogStart)
	s.remover.Add(p.dir, st.Below)
	for i, seg := range st.Segments {
		f := &segfile{part: p, base: seg.Base, file: filepool.Closed(true, seg.Allocated), entry: true, found: true}
		f.Size, f.Safe, f.InFile, f.flushed, f.index.TailFrom = seg.Size, seg.Size, seg.Size, seg.Size, seg.Size
		end := st.NextOffset
		if i+1 < len(st.Segments) {
			end = st.Segments[i+1].Base
			f.sealed = true
		}
		f.safeOffset, f.flushedOffset = end, end
		f.index.Tail = segment.NewTailIndex(p.segmentID(seg.Base), int(cfg.IndexInterval), s.entries, f.Size, end)
		f.appendTime, f.maxTimestamp = st.AppendTime, st.MaxTimestamp
		p.linkSegment(f)
		p.entries.Recovered()
	}
	if p.active != nil {
		p.unwritten = p.active
		p.visSeg, p.visPos = p.active, p.active.Size
	}
	return p
}

func (p *Partition) segmentID(base int64) segment.ID {
	return segment.ID{Topic: p.key.Topic, Partition: p.key.Partition, Base: base}
}
