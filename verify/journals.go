package verify

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/journal"
	"github.com/mqd-broker/mqd/engine/layout"
)

// readJournals replays every journal and compares it with its shard's checkpoint. What
// they have of the catalog is applied, so that topics are known by their names.
func (r *run) readJournals() error {
	entries, err := r.fs.ReadDir(r.path(layout.JournalsDir))
	if err != nil {
		r.tell(Damage, r.path(layout.JournalsDir), "cannot be listed: %v", err)
		return nil
	}
	scanner, err := journal.NewScanner(r.d)
	if err != nil {
		return err
	}
	var opened []*openJournal
	defer func() {
		for _, j := range opened {
			_ = j.region.Close() // nothing was written
		}
	}()
	found := map[int]bool{}
	for _, e := range entries {
		shard, ok := layout.ParseJournalName(e.Name)
		if !ok {
			continue
		}
		found[shard] = true
		if e.Dir {
			r.failed(layout.JournalPath(r.o.Dir, shard), syscall.EISDIR)
			continue
		}
		if j := r.readJournal(scanner, shard, e.Size); j != nil {
			opened = append(opened, j)
		}
	}
	for shard, st := range r.shards {
		if h := &st.header; !found[shard] && st.ok && h.NeedsJournal() {
			r.tell(Damage, layout.JournalPath(r.o.Dir, shard), "it is missing, and the checkpoint needs its rounds from %d on", h.LSN)
		}
	}
	if err := r.replayCatalog(scanner, opened); err != nil {
		return err
	}
	for _, j := range opened { // now that the names of topics are known
		r.judge(j.region.Path(), j.shard, j.result)
	}
	return nil
}

// openJournal is a journal that has been replayed.
type openJournal struct {
	shard   int
	region  *journal.FileRegion
	result  *journal.Result
	catalog bool // it has entries of the catalog
}

// readJournal replays one journal; nil if it cannot be opened.
func (r *run) readJournal(scanner *journal.Scanner, shard int, size int64) *openJournal {
	path := layout.JournalPath(r.o.Dir, shard)
	r.sum.Journals++
	region, err := journal.OpenFileRegionReadOnly(r.d, path)
	if err != nil {
		r.failed(path, err)
		return nil
	}
	j := &openJournal{shard: shard, region: region}
	_, flaws := scanner.ReadAnchors(region)
	for i, flaw := range flaws {
		if flaw != nil {
			f := r.blank(Damage, path)
			f.Position, f.EndPosition = int64(i)*journal.BlockSize, int64(i+1)*journal.BlockSize
			f.Reason = fmt.Sprintf("anchor %d: %v", i, flaw)
			if errors.Is(flaw, journal.ErrVersion) {
				f.Kind, f.Reason = Unchecked, writtenByNewer+f.Reason
			}
			r.report(f)
		}
	}
	j.result, err = scanner.Scan(region, func(_ *journal.Header, e *journal.Entry, _ []byte) error {
		j.catalog = j.catalog || e.Topic == layout.CatalogTopic
		return nil
	})
	r.read(size)
	if err != nil {
		if flaws[0] == nil || flaws[1] == nil { // else it has been said
			r.unscanned(path, err)
		}
		_ = region.Close() // nothing was written
		return nil
	}
	return j
}

// unscanned reports a journal that cannot be replayed.
func (r *run) unscanned(path string, err error) {
	if errors.Is(err, journal.ErrVersion) {
		r.tell(Unchecked, path, "%s%v", writtenByNewer, err)
		return
	}
	r.tell(Damage, path, "cannot be replayed: %v", err)
}

// judge reports what a replay has found.
func (r *run) judge(path string, shard int, res *journal.Result) {
	r.sum.Rounds += res.Rounds
	r.sum.Entries += res.Entries
	for _, d := range res.Damages {
		f := r.blank(Damage, path)
		f.Position, f.Reason = d.Pos, d.Error()
		if d.End > d.Pos {
			f.EndPosition = d.End
		}
		if d.Kind == journal.DamageBody && d.Entry.Kind == journal.KindBatch {
			f.Topic, f.Partition, f.Offset = r.nameOf(d.Entry.Topic), int64(d.Entry.Partition), d.Entry.BaseOffset
		}
		r.report(f)
	}
	if res.Ending == journal.EndTorn {
		f := r.blank(Note, path)
		f.Position = res.Dropped.Pos
		f.Reason = fmt.Sprintf("a torn tail, nothing of which is known to have been flushed: rounds %d to %d: %v", res.Dropped.FirstLSN, res.Dropped.LastLSN, res.Dropped.Reason)
		r.report(f)
	}
	if res.AnchorStale {
		r.tell(Note, path, "the anchor that counts is not the newest that was written")
	}
	if err := r.disagrees(shard, &res.Anchor); err != nil {
		r.tell(Damage, path, "%v", err)
	}
}

// disagrees says why a journal and its shard's checkpoint do not belong together.
func (r *run) disagrees(shard int, a *journal.Anchor) error {
	if int(a.Shard) != shard {
		return fmt.Errorf("it is the journal of shard %d, expected shard %d", a.Shard, shard)
	}
	st := r.shards[shard]
	if st == nil {
		return errors.New("there is no checkpoint of its shard")
	}
	h := &st.header
	switch {
	case !st.ok: // said already
	case h.Incarnation == 0 && a.HeadPrevLSN == 0:
	case h.Journal != a.UUID && h.Incarnation > 0:
		return fmt.Errorf("it is journal %x, the checkpoint is of journal %x", a.UUID, h.Journal)
	case h.Journal == a.UUID && a.HeadPrevLSN >= h.LSN:
		return fmt.Errorf("it has given up rounds up to %d, and the newest checkpoint knows of nothing behind round %d", a.HeadPrevLSN, h.LSN-1)
	}
	return nil
}

// replayCatalog applies what the journals have of the catalog. Its slot may have moved
// from shard to shard, so they are gone through until nothing more follows.
func (r *run) replayCatalog(scanner *journal.Scanner, opened []*openJournal) error {
	for more := r.complete; more; {
		more = false
		for _, j := range opened {
			if !j.catalog {
				continue
			}
			err := scanner.Revisit(j.region, j.result, func(_ *journal.Header, e *journal.Entry, body []byte) error {
				if e.Kind != journal.KindBatch || e.Topic != layout.CatalogTopic || e.BaseOffset != r.state.Next() {
					return nil
				}
				if err := r.apply(body); err != nil {
					r.complete = false
					return fmt.Errorf("%w: %w", errCatalog, err)
				}
				more = true
				return nil
			})
			switch {
			case errors.Is(err, errCatalog):
				r.tell(Damage, j.region.Path(), "%v", err)
				return nil
			case err != nil && !aio.IsUnreadable(err):
				return err
			}
		}
	}
	return nil
}
