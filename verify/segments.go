package verify

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/segment"
)

// partition is a partition's directory while it is read.
type partition struct {
	*topic
	number uint32
	dir    string
	state  *partState // nil: no checkpoint knows it
	bare   int        // full segments without an index
	list   segment.Listing
}

// readPartition verifies the segments of a partition that a checkpoint knows. What
// begins behind them is in the journals.
func (r *run) readPartition(t *topic, n uint32, state *partState) error {
	p := &partition{topic: t, number: n, dir: filepath.Join(t.dir, segment.PartitionDir(n)), state: state}
	var err error
	if p.list, err = segment.List(r.fs, p.dir); err != nil {
		r.failed(p.dir, err)
		return nil
	}
	r.sum.Partitions++
	for _, name := range p.list.Unknown {
		what := "it is not ours"
		if kind, _ := segment.ParseName(name); kind == segment.KindOrphan {
			what = "mqd salvage has put it aside; remove it when nobody needs it any more"
		}
		r.tell(Note, filepath.Join(p.dir, name), "%s", what)
	}
	if state == nil && !r.blind {
		r.pending(p, p.list.Segments)
		return nil
	}
	known := len(p.list.Segments)
	for known > 0 && state != nil && p.list.Segments[known-1].Base > state.rec.SegmentBase {
		known--
	}
	r.pending(p, p.list.Segments[known:])
	r.lostLogs(p)
	segments := p.list.Segments[:known]
	next := int64(-1) // where the segment that follows should begin
	if state != nil {
		next = state.rec.LogStart
		segments = r.kept(p, segments)
		known = len(segments)
	}
	for i := range segments {
		r.hole(p, next, segments[i].Base)
		if next, err = r.readSegment(p, segments, i); err != nil {
			return err
		}
	}
	if p.bare > 0 {
		r.sum.Unindexed += p.bare
		f := r.blank(Note, p.dir)
		f.Topic, f.Partition = p.name, int64(p.number)
		f.Reason = fmt.Sprintf("full segments without an index: %d; each is made from its log when it is needed", p.bare)
		r.report(f)
	}
	if state != nil && state.rec.End > 0 && (known == 0 || segments[known-1].Base != state.rec.SegmentBase) {
		r.hole(p, state.rec.SegmentBase, state.rec.NextOffset)
	}
	return nil
}

// kept are the segments that do not end at or below the log start. The others are being
// removed, and nothing needs them any more.
func (r *run) kept(p *partition, list []segment.File) []segment.File {
	rec, n := &p.state.rec, 0
	for n < len(list) && list[n].Base < rec.SegmentBase {
		end := rec.SegmentBase
		if n+1 < len(list) {
			end = list[n+1].Base
		}
		if end > rec.LogStart {
			break
		}
		n++
	}
	if n > 0 {
		f := r.blank(Note, p.dir)
		f.Topic, f.Partition, f.Offset, f.EndOffset = p.name, int64(p.number), list[0].Base, rec.LogStart
		f.Reason = "segments below the log start; the broker removes them"
		r.report(f)
	}
	return list[n:]
}

// pending counts segments that no checkpoint knows of.
func (r *run) pending(p *partition, list []segment.File) {
	for _, s := range list {
		r.sum.Pending += s.LogBytes
	}
	if len(list) > 0 {
		f := r.blank(Note, p.dir)
		f.Topic, f.Partition, f.Offset = p.name, int64(p.number), list[0].Base
		f.Reason = "segments from here on are behind the newest checkpoint; the journals have what counts of them"
		r.report(f)
	}
}

// lostLogs reports indexes whose log is gone.
func (r *run) lostLogs(p *partition) {
	for _, s := range p.list.Lost {
		if p.state == nil || s.IndexBytes <= 0 || s.Base >= p.state.rec.SegmentBase || s.Base < p.state.rec.LogStart {
			continue
		}
		f := r.blank(Damage, filepath.Join(p.dir, segment.IndexName(s.Base)))
		f.Topic, f.Partition, f.Offset = p.name, int64(p.number), s.Base
		f.Reason = "there is an index here and the log of it is missing"
		r.report(f)
	}
}

// hole reports that no segment holds the offsets between two.
func (r *run) hole(p *partition, from, to int64) {
	if from < 0 || to <= from || p.state == nil || p.state.rec.Epochs.AllowsGap(from, to) {
		return
	}
	f := r.blank(Damage, p.dir)
	f.Topic, f.Partition, f.Offset, f.EndOffset = p.name, int64(p.number), from, to
	f.Reason = "no segment has these offsets"
	r.report(f)
}

// readSegment verifies a segment and returns where the next one should begin, -1 if
// that is not known.
func (r *run) readSegment(p *partition, list []segment.File, i int) (next int64, err error) {
	s := &list[i]
	id := segment.ID{Topic: p.id, Partition: p.number, Base: s.Base}
	j := &segment.VerifyJob{Log: segment.Log{Dir: p.dir, ID: id, Chain: segment.Compacted(nil)}}
	next = -1
	sealed := i+1 < len(list)
	if p.state != nil {
		rec := &p.state.rec
		j.Chain = &rec.Epochs
		sealed = s.Base < rec.SegmentBase
		switch {
		case !sealed:
			j.LogBytes, j.EndOffset = rec.End, rec.NextOffset
		case i+1 < len(list):
			j.EndOffset = list[i+1].Base
		default:
			j.EndOffset = rec.SegmentBase
		}
		if end, ok := segment.SealedEnd(r.fs, p.dir, id, s.LogBytes); ok && sealed {
			j.EndOffset = end // the hole behind it, if any, is not this segment's
		}
		next = j.EndOffset
		if !sealed && rec.End == 0 {
			r.pending(p, list[i:])
			return -1, nil
		}
	}
	path := filepath.Join(p.dir, segment.LogName(s.Base))
	if err := j.Run(r.fs); err != nil {
		r.failed(path, err)
		return next, nil
	}
	r.read(s.LogBytes)
	r.sum.Segments++
	r.sum.Batches += j.Batches
	r.sum.Records += j.Records
	if s.IndexBytes > 0 {
		r.read(s.IndexBytes)
		r.sum.Indexes++
	}
	r.judgeLog(p, path, j)
	r.judgeIndex(p, j, sealed)
	if p.state != nil && !sealed && s.LogBytes < p.state.rec.End {
		r.tell(Damage, path, "it has %d bytes, and the checkpoint knows of %d", s.LogBytes, p.state.rec.End)
	}
	return next, nil
}

// judgeLog reports what is damaged in a log.
func (r *run) judgeLog(p *partition, path string, j *segment.VerifyJob) {
	for _, d := range j.Damage {
		f := r.blank(Damage, path)
		f.Topic, f.Partition = p.name, int64(p.number)
		f.Position, f.EndPosition, f.Offset, f.EndOffset = d.FromPos, d.ToPos, d.FromOffset, d.ToOffset
		f.Reason = d.Check.String()
		if j.Index != nil {
			known, ok := j.Index.Quarantined(d.FromOffset)
			f.Known = ok && known.ToOffset >= d.ToOffset
		}
		r.report(f)
	}
	if j.Unreadable > 0 {
		f := r.blank(Note, path)
		f.Topic, f.Partition = p.name, int64(p.number)
		f.Reason = "the device does not read all of it"
		r.report(f)
	}
}

// judgeIndex reports what is wrong with an index. The log of an open segment has none,
// or one that was sealed after the checkpoint; that of a sealed one is written a moment
// after the segment is full, and again when it is needed.
func (r *run) judgeIndex(p *partition, j *segment.VerifyJob, sealed bool) {
	err := j.IndexFault
	path := filepath.Join(p.dir, j.ID.IndexName())
	f := r.blank(Damage, path)
	f.Topic, f.Partition = p.name, int64(p.number)
	var fault *segment.IndexError
	switch {
	case err == nil && (j.Index != nil || !sealed),
		!sealed && (errors.Is(err, segment.ErrIndexMissing) || errors.Is(err, segment.ErrIndexStale)):
		return
	case err == nil, errors.Is(err, segment.ErrIndexMissing):
		p.bare++
		return
	case errors.Is(err, segment.ErrUnsupported):
		f.Kind, f.Reason = Unchecked, writtenByNewer+err.Error()
	case errors.Is(err, segment.ErrIndexIdentity) && !p.ok:
		f.Kind, f.Reason = Unchecked, err.Error()
	case errors.As(err, &fault):
		f.Position = fault.At
		f.Reason = fmt.Sprintf("%v: %s: expected %d, found %d", fault.Kind, fault.Field, fault.Expected, fault.Found)
	case aio.IsUnreadable(err):
		f.Reason = err.Error()
	default:
		f.Kind, f.Reason = Unchecked, err.Error()
	}
	r.report(f)
}
