package recovery

import (
	"slices"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/engine/journal"
	"github.com/mqd-broker/mqd/engine/layout"
)

const (
	// defaultKeep is the default of Options.Keep.
	defaultKeep = 128 << 20
	// entryCost is what an entry counts beside its body, in bytes.
	entryCost = 256
	// slabBytes is how much memory bodies are given at a time.
	slabBytes = 1 << 20
)

// kept is what the first pass over a journal leaves in memory for the second: what is
// not kept is read again. The first pass needs the bodies for their checksums, and which
// of them a segment lacks is known from the checkpoints by then; but where they go only
// when the catalog is, which is in the journals too.
type kept struct {
	entries []keptEntry
	round   *journal.Header // of the last one
	from    uint64          // the round from which on nothing is kept, 0 for none
}

// keptEntry is one entry of a round.
type keptEntry struct {
	round *journal.Header
	entry journal.Entry
	body  []byte // nil for a batch that the segments have
}

// keep adds an entry of the round h, whole rounds only and as long as there is memory.
func (r *recovery) keep(j *journalFile, h *journal.Header, e *journal.Entry, body []byte) {
	k := &j.kept
	if k.from != 0 {
		return
	}
	if !r.lacks(e, body) {
		body = nil
	}
	if r.kept += int64(entryCost + len(body)); r.kept > r.opts.Keep {
		k.from = h.LSN
		k.entries = slices.DeleteFunc(k.entries, func(x keptEntry) bool { return x.round.LSN == h.LSN })
		return
	}
	if k.round == nil || k.round.LSN != h.LSN {
		round := *h
		k.round = &round
	}
	k.entries = append(k.entries, keptEntry{k.round, *e, r.slab.copy(body)})
}

// lacks reports whether the body of an entry may be missing in the segments.
func (r *recovery) lacks(e *journal.Entry, body []byte) bool {
	p := r.parts[layout.Key{Topic: e.Topic, Partition: e.Partition}]
	if e.Kind != journal.KindBatch || p == nil {
		return true
	}
	h, err := batch.ParseHeader(body)
	return err != nil || h.LastOffset() >= p.rec.NextOffset
}

// visit hands those entries of a journal to f, a second time, that are wanted. A body is
// nil where the segments have it, and f may keep it.
func (r *recovery) visit(j *journalFile, wanted func(e *journal.Entry) bool, f journal.Visitor) error {
	for i := range j.kept.entries {
		x := &j.kept.entries[i]
		if x.round.LSN < j.result.HeadLSN || !wanted(&x.entry) {
			continue // released, as was found out later
		}
		if err := f(x.round, &x.entry, x.body); err != nil {
			return err
		}
	}
	if j.kept.from == 0 {
		return nil
	}
	return r.scanner.RevisitFrom(j.region, j.result, j.kept.from, func(h *journal.Header, e *journal.Entry, body []byte) error {
		if !wanted(e) {
			return nil
		}
		if !r.lacks(e, body) {
			body = nil
		}
		return f(h, e, r.slab.copy(body))
	})
}

// slab is memory for bodies, which live until the last of those beside them is written.
type slab struct{ free []byte }

func (s *slab) copy(b []byte) []byte {
	if len(b) > slabBytes/4 {
		return slices.Clone(b)
	}
	if b == nil {
		return nil
	}
	if len(b) > len(s.free) {
		s.free = make([]byte, slabBytes)
	}
	n := copy(s.free, b)
	b, s.free = s.free[:n:n], s.free[n:]
	return b
}
