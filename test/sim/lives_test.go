package sim

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/engine/aio/sim"
	"github.com/mqd-broker/mqd/net/wire"
	"github.com/mqd-broker/mqd/node"
	"github.com/mqd-broker/mqd/test/history"
	"github.com/mqd-broker/mqd/test/rig"
)

// anyKeep draws what a power cut leaves.
func (r *run) anyKeep() sim.Keep {
	return []sim.Keep{sim.KeepNone, sim.KeepAll, sim.KeepRandom, sim.KeepPrefix}[r.rng.IntN(4)]
}

// most is n, or less in a sparse life.
func (r *run) most(n int) int {
	if r.sparse {
		return n / 3
	}
	return n
}

// start starts the node, perhaps after starts that are cut off at some step.
func (r *run) start(p *platform) {
	r.log, r.killed, r.attempts = nil, false, 0
	if !r.first && r.rng.IntN(2) == 0 {
		r.resize()
	}
	for range r.rng.IntN(3) {
		f := sim.Fuse{Steps: r.rng.IntN(1 << (1 + r.rng.IntN(11))), PowerCut: r.rng.IntN(2) == 0, Keep: r.anyKeep()}
		r.w.Light(f)
		r.starts++
		r.attempts++
		r.log = nil
		r.setClock()
		r.note("start with %d shards, to be cut off after %d steps (power cut: %v)", r.cfg.Shards, f.Steps, f.PowerCut)
		n, err := node.StartManual(r.cfg, p)
		switch blown := r.w.Blown(); {
		case err == nil && !blown:
			r.broken = false
			r.started(n)
			return
		case !blown && errors.Is(err, syscall.EROFS) && r.broken:
			continue
		case !blown:
			r.failf("start: %v", err)
		}
		r.cover(sawStartCut)
		r.torn()
		if f.PowerCut && !r.first {
			r.cover(sawKillThenCut)
			r.eachPart((*history.Partition).CutBeforeStart)
		}
		if r.rng.IntN(2) == 0 {
			r.resize()
		}
	}
	r.starts++
	r.attempts++
	r.log = nil
	r.setClock()
	r.note("start with %d shards", r.cfg.Shards)
	n, err := node.StartManual(r.cfg, p)
	if errors.Is(err, syscall.EROFS) && r.broken {
		// A filesystem that has failed is put right by a restart of the machine.
		r.cover(sawReadOnly)
		r.note("start: %v; the machine is restarted", err)
		r.w.Crash(r.anyKeep())
		r.eachPart((*history.Partition).CutBeforeStart)
		n, err = node.StartManual(r.cfg, p)
	}
	if err != nil {
		r.failf("start: %v", err)
	}
	r.broken = false
	r.started(n)
}

// torn notes that a start has found a torn tail, also one that did not get far.
func (r *run) torn() {
	if slices.ContainsFunc(r.log, func(line string) bool { return strings.Contains(line, tornTail) }) {
		r.eachPart((*history.Partition).TornTail)
	}
}

func (r *run) started(n *node.Manual) {
	r.n, r.addr = n, n.Node().Addr()
	if r.tellsOfDamage() && !r.rotten {
		r.failf("reported: %s", strings.Join(r.log, "; "))
	}
	st := n.Node().RecoveryStats()
	for _, s := range []struct {
		n int
		s state
	}{{st.TornTails, sawTorn}, {st.Replayed, sawReplay}, {st.Skipped, sawSkipped}, {st.Gaps, sawGap}} {
		if s.n > 0 {
			r.cover(s.s)
		}
	}
	r.torn()
	// A torn tail stays where it is while nothing is written over it.
	if r.orderly && r.attempts == 1 && (st.Replayed > 0 || st.Gaps > 0 || st.TornTails > r.tails) {
		r.failf("a start behind an orderly end had something to recover: %+v", st)
	}
	r.tails = st.TornTails
	if (st.Damaged > 0 || st.Losses > 0) && !r.rotten {
		r.failf("the start found %d damaged rounds and %d losses", st.Damaged, st.Losses)
	}
}

// finish ends the life.
func (r *run) finish(last bool) {
	how := r.rng.IntN(5)
	if last || r.fault.until != 0 && r.rng.IntN(2) == 0 {
		how = 0
	}
	switch {
	case r.n == nil: // ended already, in readAll
	case how == 0 && !r.broken:
		r.stop()
	default:
		most := r.most(11)
		if r.rng.IntN(2) == 0 && r.replacing() {
			most = 3
		}
		f := sim.Fuse{Steps: r.rng.IntN(1 << (1 + r.rng.IntN(most))), PowerCut: how >= 3, Keep: r.anyKeep()}
		r.note("the end, after %d steps (power cut: %v)", f.Steps, f.PowerCut)
		r.w.Light(f)
		r.until("the end", func() bool { return false })
		r.died(f.PowerCut)
	}
	r.loading = false
	r.fault.end(r)
}

// died notes an end by force. What had left the machine before still arrives, and is of
// the life that has ended.
func (r *run) died(cut bool) {
	r.orderly = false
	r.loading = false
	for n := 0; r.connected(); n++ {
		if n > maxTurns {
			r.failf("connections outlive their machine")
		}
		r.clients()
	}
	if cut {
		r.cover(sawCut)
		r.eachPart((*history.Partition).PowerCut)
	} else {
		r.cover(sawKill)
		r.eachPart((*history.Partition).Crashed)
	}
	r.gather(r.dead)
	r.n = nil
}

func (r *run) connected() bool {
	for _, l := range r.links {
		if l.stage == greeting || l.stage == ready {
			return true
		}
	}
	return false
}

// stop ends the node in order, while clients go on, and perhaps cuts the power behind
// it: nothing may be lost.
func (r *run) stop() {
	r.note("stop")
	n := r.n
	if r.rng.IntN(2) == 0 {
		n.Quiesce() // with threads, shards go on for a moment before they hear of it
		for range r.rng.IntN(20) {
			r.turn()
		}
	}
	n.Stop()
	r.until("the orderly end", n.Ended)
	r.gather(n)
	err := n.Close()
	r.n = nil
	switch {
	case err == nil:
		r.home(n)
		r.cover(sawStop)
		r.orderly = true
		r.eachPart((*history.Partition).Stopped)
	case r.fault.filled:
		r.cover(sawStopFull)
		r.orderly = false
		r.eachPart((*history.Partition).Crashed)
		return
	default:
		r.failf("orderly end: %v", err)
	}
	if r.rng.IntN(2) == 0 {
		r.cover(sawCutAfterStop)
		r.w.Crash(r.anyKeep())
	}
}

// home checks that a node that has ended in order holds nothing.
func (r *run) home(n *node.Manual) {
	if r.tellsOfDamage() && !r.rotten {
		r.failf("reported behind the start: %s", strings.Join(r.log, "; "))
	}
	for i := range r.cfg.Shards {
		u := n.Store(i).Usage()
		if u.Compacting || u.Replacing || u.PinnedPieces != 0 || u.WaitingReads != 0 || u.PendingAppends != 0 || u.MemoryBytes != 0 {
			r.failf("shard %d: not home after an orderly end: %+v", i, u)
		}
	}
}

// gather notes the states that the counters tell of.
func (r *run) gather(n *node.Manual) {
	for i := range r.cfg.Shards {
		s, j := n.Store(i).Stats(), n.Journal(i).Stats()
		for _, c := range []struct {
			n uint64
			s state
		}{
			{j.Wraps, sawWrap}, {s.BusyJournal, sawRingFull}, {s.BusyMemory, sawMemoryFull}, {s.BusySlow, sawSlowed},
			{s.Checkpoints, sawCheckpoint}, {s.TailEntries, sawTail}, {s.SealedSegments, sawSeal}, {s.ColdReads, sawColdRead}, {s.Duplicates, sawRepeated},
			{s.CompactedSegments, sawCompacted}, {s.CompactionErrors, sawCompactFailed},
			{j.Flushes, sawWriteFlush}, {j.DSYNCs, sawDSYNC}, {j.Marks, sawMark},
		} {
			if c.n > 0 {
				r.cover(c.s)
			}
		}
		if u := n.Store(i).Usage(); u.Replacing {
			r.cover(sawCrashReplacing)
		} else if u.Compacting {
			r.cover(sawCrashCompacting)
		}
		if st := n.Node().ScrubStats(i); st != nil && st.Segments.Load() > 0 {
			r.cover(sawScrub)
		}
	}
}

// readAll reads every partition from its start to its end, or half of them when there
// is a life to come, and looks at the topics.
func (r *run) readAll(last bool) {
	r.loading = false
	r.catalog()
	for _, tp := range r.alive() {
		for _, p := range tp.parts {
			if r.n == nil {
				return
			}
			if last || r.rng.IntN(2) == 0 {
				r.readPart(p)
			}
		}
	}
	r.readGroups()
	r.readKafkaGroups()
	taken := 0
	r.eachPart(func(p *history.Partition) { taken += p.Counts().Taken })
	if taken > 0 {
		r.cover(sawTaken)
	}
}

// call sends a request over the reader's connection and turns until it is answered,
// over another connection if that one breaks. The answer is valid until the next call.
func (r *run) call(encode func(dst []byte, corr uint32) []byte) ([]byte, error) {
	for {
		if !r.until("the reader's connection", func() bool { return r.reader.stage == ready }) {
			return nil, errEnded
		}
		var body []byte
		var err error
		done, again := false, false
		r.reader.do(encode, func(h wire.Header, b []byte, lost bool) {
			done = true
			switch {
			case lost:
				again = true
			case h.IsError():
				err = fmt.Errorf("refused: %v", r.refusal(h, b))
			default:
				r.answer = append(r.answer[:0], b...)
				body = r.answer
			}
		})
		if !r.until("an answer to the reader", func() bool { return done }) {
			return nil, errEnded
		}
		if !again {
			return body, err
		}
	}
}

// errEnded: the node has ended meanwhile.
var errEnded = errors.New("the node has ended")

// Fetch implements rig.Fetcher.
func (r *run) Fetch(req wire.FetchRequest) (wire.FetchResponse, error) {
	req.MaxBytes, req.MaxRecords = 256<<10, 0
	body, err := r.call(func(dst []byte, corr uint32) []byte { return wire.AppendFetchRequest(dst, corr, &req) })
	if err != nil {
		return wire.FetchResponse{}, err
	}
	f, err := wire.DecodeFetchResponse(body)
	if err == nil && f.Code == wire.CodeOffsetOutOfRange && req.Offset < f.LogStart {
		err = &trimmedError{f.LogStart}
	}
	return f, err
}

// scan passes what a reading finds on to the history.
type scan struct {
	*history.Scan
	p *part
	r *run
}

func (s scan) Record(offset int64, v *batch.RecordView) {
	s.Scan.Record(offset, s.r.content(s.p, v))
}

func (r *run) readPart(p *part) {
	if err := r.tryRead(p); err != nil {
		r.failf("%v: %v", p, err)
	}
}

// tryRead reads a partition whole and has its history judge it.
func (r *run) tryRead(p *part) error {
	least := p.p.End()
	start, end, err := r.bounds(p)
	if err != nil {
		return err
	}
	s := scan{p.p.Scan(least, start, end), p, r}
	for from := start; ; {
		least := p.p.Start()
		err := rig.ReadAll(r, p.topic.id, p.n, from, end, s)
		var t *trimmedError
		if !errors.As(err, &t) {
			if err != nil {
				return err
			}
			break
		}
		r.cover(sawTrimmedRead)
		r.startsAt(p, least, t.start)
		s.Trimmed(t.start)
		from = s.Next()
	}
	before := p.p.Counts()
	s.DoneAt(r.clockNow())
	if now := p.p.Counts(); now.Compacted > before.Compacted {
		r.cover(sawSuperseded)
	} else if now.Dropped > before.Dropped {
		r.cover(sawTombstone)
	}
	return nil
}

// catalog checks that exactly the topics exist that should.
func (r *run) catalog() {
	body, err := r.call(func(dst []byte, corr uint32) []byte {
		return wire.AppendMetadataRequest(dst, corr, wire.MetadataRequest{All: true})
	})
	if err != nil {
		r.failf("metadata: %v", err)
	}
	m, err := wire.DecodeMetadataResponse(body)
	if err != nil {
		r.failf("metadata: %v", err)
	}
	found := map[wire.TopicID]bool{}
	for _, t := range m.Topics {
		found[t.ID] = true
	}
	known := map[wire.TopicID]bool{}
	for _, tp := range r.topics {
		known[tp.id] = true
		switch {
		case tp.gone && found[tp.id]:
			r.failf("topic %s (%v) was deleted and is there", tp.name, tp.id)
		case !tp.going && !found[tp.id]:
			r.failf("topic %s (%v) is not there", tp.name, tp.id)
		case tp.going && !tp.gone: // the outcome was unknown; now it is not
			tp.gone = !found[tp.id]
		}
	}
	for _, t := range m.Topics {
		if !known[t.ID] && !r.maybe[t.Name] {
			r.failf("topic %s (%v) was not created", t.Name, t.ID)
		}
	}
}
