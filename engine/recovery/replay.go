package recovery

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/checkpoint"
	"github.com/mqd-broker/mqd/engine/journal"
	"github.com/mqd-broker/mqd/engine/layout"
	"github.com/mqd-broker/mqd/engine/producers"
	"github.com/mqd-broker/mqd/engine/segment"
	"github.com/mqd-broker/mqd/internal/invariant"
)

// replayed is a partition during recovery: its checkpoint record, and what the
// journals add to it.
type replayed struct {
	key   layout.Key
	rec   checkpoint.Partition
	info  TopicInfo
	dir   string
	ok    bool // info and dir are set, the directory has been listed
	state *PartitionState

	shard    int          // whose checkpoint or journal has it
	heard    *journalFile // that holds its newest entry, nil for none
	heardLSN uint64       // of that entry
	jumps    bool         // batches that nobody knows of may be lost
	forsaken bool         // the journal that had its newest batches is lost, which was accepted
	fresh    bool         // its newest segment is not whole: it goes on in one of its own
	told     [2]int64     // the offsets of a segment that is missing, which has been reported

	producers producers.Log

	next      int64          // offset that the next batch must have
	files     []segment.File // logs, as the directory showed them and as they are now
	indexes   []segment.File // indexes without a log
	leftovers []string       // names of files that an earlier life has begun to write or remove
	seg       SegmentState   // the segment that is being appended to
	has       bool           // seg exists
	file      aio.File
	open      bool
	exists    bool // the directory does
	touched   bool

	head    []byte   // content of the partial block before seg.Size, from a tail entry
	pending [][]byte // batches that follow seg.Size
	waiting int64    // their bytes
}

func newReplayed(k layout.Key, rec *checkpoint.Partition) *replayed {
	p := &replayed{key: k, rec: *rec, next: rec.NextOffset}
	if rec.End > 0 || rec.SegmentBase > 0 {
		p.seg, p.has = SegmentState{Base: rec.SegmentBase, Size: rec.End}, true
	}
	return p
}

// journalFile is a journal found in the directory.
type journalFile struct {
	shard   int
	region  *journal.FileRegion
	result  *journal.Result
	terms   []uint32 // terms that occur in it
	catalog bool     // entries of the catalog do
	kept    kept
}

// scanJournals reads every journal once, checks it, and learns which terms it
// holds. Their names are made durable before: an earlier process may have made one in
// place of another and died before it came to that, and then a power cut would bring the
// other one back.
func (r *recovery) scanJournals() error {
	if err := r.fs.SyncDir(r.path(layout.JournalsDir)); err != nil {
		return err
	}
	entries, err := r.fs.ReadDir(r.path(layout.JournalsDir))
	if err != nil {
		return err
	}
	r.out.Journals = make([]*journal.Result, r.opts.Shards)
	for _, e := range entries {
		shard, ok := layout.ParseJournalName(e.Name)
		if !ok {
			continue
		}
		if err := r.scanJournal(shard); err != nil {
			return err
		}
	}
	return nil
}

func (r *recovery) scanJournal(shard int) error {
	path := layout.JournalPath(r.opts.Dir, shard)
	// What the ring of an earlier process still had in flight when it was killed
	// has landed before its lock is gone.
	held, err := lock(r.d, layout.JournalLockPath(r.opts.Dir, shard), "")
	if err != nil {
		return fmt.Errorf("%w: %w", layout.ErrBadDataDir, err)
	}
	if err := aio.CloseFile(r.d, held); err != nil {
		return err
	}
	region, err := journal.OpenFileRegion(r.d, path)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	j := &journalFile{shard: shard, region: region}
	j.result, err = r.scanner.Scan(region, func(h *journal.Header, e *journal.Entry, body []byte) error {
		if !slices.Contains(j.terms, e.Term) {
			j.terms = append(j.terms, e.Term)
		}
		j.catalog = j.catalog || e.Topic == layout.CatalogTopic
		r.keep(j, h, e, body)
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	r.reportScan(path, j.result)
	r.journals = append(r.journals, j)
	if shard < r.opts.Shards {
		r.out.Journals[shard] = j.result
	}
	return nil
}

func (r *recovery) reportScan(path string, res *journal.Result) {
	st := &r.out.Stats
	st.Journals++
	st.Rounds += int(res.Rounds)
	st.Entries += int(res.Entries)
	st.Damaged += len(res.Damages)
	for _, d := range res.Damages {
		r.opts.Report("%s: DAMAGED below the durable mark: %v", path, d)
	}
	// Rounds that are acknowledged when they are written are among what was not flushed.
	// That they are there because the machine has been up since holds only if nothing is
	// seen to be missing; a block that the device does not read may be one of them.
	r.unlost = r.unlost && res.Ending != journal.EndTorn && res.Unreadable == 0
	if res.Ending == journal.EndTorn {
		st.TornTails++
		r.opts.Report("%s: torn tail dropped, nothing of it is known to have been flushed: rounds %d to %d at %d: %v",
			path, res.Dropped.FirstLSN, res.Dropped.LastLSN, res.Dropped.Pos, res.Dropped.Reason)
	}
}

// terms are the terms that occur in any journal, rising. A slot's entries of one
// term are all in one journal, in order; so going term by term through the
// journals meets the entries of every partition in their order.
func (r *recovery) terms() []uint32 {
	var all []uint32
	for _, j := range r.journals {
		for _, t := range j.terms {
			if !slices.Contains(all, t) {
				all = append(all, t)
			}
		}
	}
	slices.Sort(all)
	return all
}

// replayCatalog brings the catalog's log up to date and has the catalog loaded.
func (r *recovery) replayCatalog() error {
	k := layout.Key{Topic: layout.CatalogTopic}
	p := r.partition(k)
	p.info = TopicInfo{Name: layout.CatalogName, Config: r.opts.Catalog}
	if err := r.list(p); err != nil {
		return err
	}
	if err := r.keepCatalog(p); err != nil {
		return err
	}
	if err := r.replay(true); err != nil {
		return err
	}
	if err := r.flushPending(p); err != nil {
		return err
	}
	return r.opts.Topics.Load(func(from int64, each func(b []byte) error) error {
		return r.readLog(p, from, each)
	})
}

// listRest lists the files of every other partition that a checkpoint speaks of.
func (r *recovery) listRest() error {
	var found []*replayed
	for _, p := range r.sorted() {
		if p.ok {
			continue
		}
		switch info, status := r.opts.Topics.Topic(p.key.Topic); status {
		case TopicLive:
			p.info = info
			found = append(found, p)
		case TopicDeleted:
			delete(r.parts, p.key)
		default:
			if err := r.unknown(p.key.Topic, "a checkpoint"); err != nil {
				return err
			}
			delete(r.parts, p.key)
		}
	}
	for group := range slices.Chunk(found, listAtOnce) {
		if err := r.list(group...); err != nil {
			return err
		}
	}
	return nil
}

// replayRest brings every partition but the catalog's up to date.
func (r *recovery) replayRest() error {
	if err := r.replay(false); err != nil {
		return err
	}
	for _, j := range r.journals {
		j.kept = kept{}
	}
	return nil
}

// unknown is the error for a topic of which there is data and no record. There is none
// where the journal was lost that may have had the record, which was accepted.
func (r *recovery) unknown(id layout.TopicID, where string) error {
	if c := r.parts[layout.Key{Topic: layout.CatalogTopic}]; c != nil && (c.forsaken || c.rec.Epochs.HasGivenUp()) {
		if !slices.Contains(r.strange, id) {
			r.strange = append(r.strange, id)
			r.opts.Report("topic %s: %s names it, and what the catalog had of it is lost: it is not served, its files stay", id, where)
		}
		return nil
	}
	return fmt.Errorf("%w: %s names topic %s, which the catalog has never known", layout.ErrBadDataDir, where, id)
}

// replay goes through the journals' entries: those of the catalog, or all others.
func (r *recovery) replay(catalog bool) error {
	for _, term := range r.terms() {
		for _, j := range r.journals {
			if !slices.Contains(j.terms, term) || catalog && !j.catalog {
				continue
			}
			wanted := func(e *journal.Entry) bool { return e.Term == term && catalog == (e.Topic == layout.CatalogTopic) }
			err := r.visit(j, wanted, func(h *journal.Header, e *journal.Entry, body []byte) error {
				return r.apply(j, h, e, body)
			})
			if err != nil {
				return fmt.Errorf("%s: %w", layout.JournalPath(r.opts.Dir, j.shard), err)
			}
		}
	}
	return nil
}

// apply replays one entry.
func (r *recovery) apply(j *journalFile, h *journal.Header, e *journal.Entry, body []byte) error {
	p, err := r.known(e)
	if p == nil || err != nil {
		return err
	}
	switch e.Kind {
	case journal.KindBatch:
		p.shard, p.heard, p.heardLSN = j.shard, j, h.LSN
		if body == nil {
			r.out.Stats.Skipped++
			return nil
		}
		return r.applyBatch(p, h, e, body)
	case journal.KindTail:
		p.applyTail(e, body)
	}
	return nil
}

// known is the partition of an entry, nil if its topic has been deleted.
func (r *recovery) known(e *journal.Entry) (*replayed, error) {
	k := layout.Key{Topic: e.Topic, Partition: e.Partition}
	if p := r.parts[k]; p != nil && p.ok {
		return p, nil
	}
	info, status := r.opts.Topics.Topic(k.Topic)
	switch status {
	case TopicDeleted:
		return nil, nil
	case TopicUnknown:
		return nil, r.unknown(k.Topic, "a journal")
	}
	p := r.partition(k)
	p.info = info
	return p, r.list(p)
}

func (r *recovery) partition(k layout.Key) *replayed {
	p := r.parts[k]
	if p == nil {
		p = &replayed{key: k, rec: checkpoint.Partition{Topic: k.Topic, Partition: k.Partition}}
		r.parts[k] = p
	}
	return p
}

// applyTail keeps the old content of the block at which the partition's appended
// bytes begin: the file's own copy may have been torn by a later rewrite.
func (p *replayed) applyTail(e *journal.Entry, body []byte) {
	if len(body) < layout.TailPosBytes {
		return
	}
	pos := int64(binary.BigEndian.Uint64(body))
	body = body[layout.TailPosBytes:]
	start := p.rec.End
	if !p.has || e.BaseOffset != p.rec.SegmentBase || p.seg.Base != p.rec.SegmentBase ||
		pos != start&^(aio.BlockSize-1) || int64(len(body)) < start-pos || p.seg.Size != start {
		return
	}
	p.head = append(p.head[:0], body[:start-pos]...)
}

// applyBatch appends a batch that the segment does not have.
func (r *recovery) applyBatch(p *replayed, round *journal.Header, e *journal.Entry, body []byte) error {
	h, err := batch.CheckStored(body)
	if err != nil {
		invariant.Violated("engine: the journal's replay hands out batches that check")
	}
	last := h.BaseOffset + int64(h.LastOffsetDelta)
	if last < p.next {
		r.out.Stats.Skipped++
		return nil
	}
	if h.BaseOffset != p.next {
		if h.BaseOffset < p.next {
			return &layout.CorruptError{
				Path: p.dir, Pos: int64(e.Index), Offset: h.BaseOffset,
				Expected: fmt.Sprintf("a batch from offset %d", p.next), Found: fmt.Sprintf("offsets %d to %d", h.BaseOffset, last),
			}
		}
		// The rounds between are damaged: what they held is lost, and said so. A
		// fetch there is answered with an error and the offset to go on at.
		r.lost(p, p.next, h.BaseOffset)
	}
	if err := r.roll(p, &h); err != nil {
		return err
	}
	if last, ok := p.rec.Epochs.Last(); !ok || last.Epoch < h.LeaderEpoch {
		p.rec.Epochs.Begin(h.LeaderEpoch, h.BaseOffset, checkpoint.ReasonStart)
	}
	p.pending = append(p.pending, body)
	p.waiting += int64(len(body))
	p.next = last + 1
	r.noteProducer(p, &h, round.AppendTime)
	p.rec.MaxTimestamp = max(p.rec.MaxTimestamp, h.MaxTimestamp)
	p.rec.NewestAppend = max(p.rec.NewestAppend, round.AppendTime)
	r.out.Stats.Replayed++
	r.out.Stats.ReplayedBytes += int64(len(body))
	if r.pending += int64(len(body)); r.pending >= replayBudget {
		return r.flushAll()
	}
	return nil
}

// roll begins a new segment where the first life did: at a base for which there is
// a file, or where the limit asks for it.
func (r *recovery) roll(p *replayed, h *batch.Header) error {
	size := p.seg.Size + p.waiting
	_, exists := p.find(h.BaseOffset)
	if p.has && !exists && !p.info.Config.MustRoll(p.seg.Base, size, int64(h.Size()), h) {
		return nil
	}
	if p.has && p.seg.Base == h.BaseOffset {
		return nil
	}
	if err := r.flushPending(p); err != nil {
		return err
	}
	if p.has {
		if err := r.closeSegment(p); err != nil {
			return err
		}
	}
	p.seg, p.has, p.head = SegmentState{Base: h.BaseOffset}, true, nil
	return nil
}

// closeSegment truncates a segment to its end. It becomes durable and is closed with the
// other files that are open: one at a time, a start would take as many flushes as the
// journals have segments. Its index is rebuilt when it is needed.
func (r *recovery) closeSegment(p *replayed) error {
	if err := r.openFile(p); err != nil {
		return err
	}
	op := aio.FileOp{Kind: aio.FileTruncate, File: p.file, Len: p.seg.Size}
	if err := aio.DoFile(r.d, &op); err != nil {
		return err
	}
	p.seg.Allocated = p.seg.Size
	p.noteFile()
	p.open = false
	r.complete = append(r.complete, p.file)
	return nil
}

// find is the place of the log that begins at base, and whether there is one.
func (p *replayed) find(base int64) (at int, ok bool) {
	return slices.BinarySearchFunc(p.files, base, func(f segment.File, base int64) int { return cmp.Compare(f.Base, base) })
}

// noteFile enters the file of the segment that is being appended to as it is now, so that
// the directory need not be read again.
func (p *replayed) noteFile() {
	at, ok := p.find(p.seg.Base)
	if !ok {
		p.files = slices.Insert(p.files, at, segment.File{Base: p.seg.Base})
	}
	p.files[at].LogBytes = p.seg.Allocated
}

// listAtOnce bounds the directories that are read at a time.
const listAtOnce = 64

// list reads the directories of partitions, on all helpers at once: the only time that a
// start does.
func (r *recovery) list(parts ...*replayed) error {
	ops := make([]aio.FileOp, len(parts))
	for i, p := range parts {
		p.ok = true
		p.dir = filepath.Join(layout.TopicDir(r.opts.Dir, p.info.Name, p.key.Topic), segment.PartitionDir(p.key.Partition))
		ops[i] = aio.FileOp{Kind: aio.FileReadDir, Path: p.dir}
	}
	if _, err := r.tryAll(ops); err != nil {
		return err
	}
	for i, p := range parts {
		if err := ops[i].Err; err != nil && !aio.IsNotExist(err) {
			return err
		}
		p.exists = ops[i].Err == nil
		l := segment.Classify(ops[i].Entries)
		p.files, p.indexes, p.leftovers = l.Segments, l.Lost, l.Leftovers
		if err := r.leaveNewest(p); err != nil {
			return err
		}
		if err := r.cutTail(p); err != nil {
			return err
		}
	}
	return nil
}

func (r *recovery) openFile(p *replayed) error {
	if p.open {
		return nil
	}
	if r.openFiles >= maxOpenFiles {
		if err := r.closeFiles(); err != nil {
			return err
		}
	}
	if !p.exists {
		if err := aio.DoFile(r.d, &aio.FileOp{Kind: aio.FileMkdirAll, Path: p.dir}); err != nil {
			return err
		}
	}
	p.exists, p.touched = true, true
	path := filepath.Join(p.dir, segment.LogName(p.seg.Base))
	f, size, err := aio.OpenFile(r.d, path, aio.OpenWrite|aio.OpenDirect|aio.OpenCreate)
	if err != nil {
		return err
	}
	if size < p.seg.Size {
		_ = aio.CloseFile(r.d, f)
		return &layout.CorruptError{
			Path: path, Pos: size, Offset: -1,
			Expected: fmt.Sprintf("%d bytes, which were flushed", p.seg.Size), Found: fmt.Sprintf("%d bytes", size),
		}
	}
	p.file, p.open, p.seg.Allocated = f, true, size
	p.noteFile()
	r.openFiles++
	return nil
}
