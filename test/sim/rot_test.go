package sim

import (
	"errors"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
	"github.com/mqd-broker/mqd/engine/journal"
	"github.com/mqd-broker/mqd/engine/layout"
	"github.com/mqd-broker/mqd/node"
	"github.com/mqd-broker/mqd/test/history"
)

// rot damages a byte of what is durable, between two lives, and holds the next one to
// telling of it: in the report of its start, by refusing to start, or in the answers to
// fetches. Nothing may be missing, or changed, in silence. It is the end of a run.
func (r *run) rot(p *platform) {
	// In silence all that has been flushed is proven to be. That is not everything: what
	// is acknowledged without a flush gets one within a second.
	r.loading = false
	r.fault.end(r)
	for end := r.w.Now() + int64(300*time.Millisecond); r.w.Now() < end; {
		if r.turn(); r.n == nil {
			r.failf("the node ended by itself")
		}
	}
	r.note("killed in silence")
	r.dead = r.n
	r.w.Kill()
	r.died(false)
	file, off := r.anyByte()
	if i := r.rng.IntN(r.cfg.Shards); *rotten || r.seed/3%3 == 0 {
		file, off = r.liveByte(i)
	}
	r.note("rot: %s at %d", file, off)
	r.unproven = r.isUnproven(file, off)
	if err := r.w.Corrupt(file, off, byte(1<<r.rng.IntN(8))); err != nil {
		r.failf("rot: %v", err)
	}
	r.cover(sawRot)
	r.rotten, r.log = true, nil
	r.starts++
	r.lives++
	r.setClock()
	n, err := node.StartManual(r.cfg, p)
	if err != nil {
		r.note("the start refuses: %v", err)
		r.cover(sawRotRefused)
		return
	}
	r.started(n)
	r.told = r.told || r.tellsOfDamage()
	r.catalog()
	for _, tp := range r.alive() {
		for _, p := range tp.parts {
			r.readRotten(p)
		}
	}
	if r.told {
		r.cover(sawRotTold)
	}
	r.w.Crash(sim.KeepAll)
	r.n = nil
}

// scrubAlarm is in the lines by which a scrubber tells of damage.
const scrubAlarm = "found by scrubbing"

// tornTail is in the line by which a start tells that it has dropped one.
const tornTail = "torn tail dropped"

func (r *run) tellsOfDamage() bool {
	for _, line := range r.log {
		if r.broken && strings.Contains(line, scrubAlarm) {
			continue // what cannot be read for a while looks like that
		}
		if r.unproven && strings.Contains(line, tornTail) {
			return true // a tail of a crash is all that it can be taken for
		}
		if strings.Contains(line, "DAMAGED") || strings.Contains(line, "LOSS") || strings.Contains(line, "cannot be used") {
			return true
		}
	}
	return false
}

// anyByte picks a byte of a journal, a segment or another file of the data directory.
func (r *run) anyByte() (file string, off int64) {
	var files []string
	var walk func(dir string)
	walk = func(dir string) {
		list, err := r.w.FS().ReadDir(dir)
		if err != nil {
			r.failf("%v", err)
		}
		for _, e := range list {
			switch name := path.Join(dir, e.Name); {
			case e.Dir:
				walk(name)
			case e.Size > 0:
				files = append(files, name)
			}
		}
	}
	walk(dataDir)
	// There are few journals, and fewer others that are neither segments nor indexes.
	var some []string
	for _, f := range files {
		isJournal, isSegment := strings.Contains(f, "/journal"), strings.Contains(f, "/topics/")
		if kind := r.seed / 3 % 3; kind == 0 && isJournal || kind == 1 && !isJournal && !isSegment || kind == 2 {
			some = append(some, f)
		}
	}
	files = some
	file = files[r.rng.IntN(len(files))]
	f, err := r.w.FS().Open(file, 0)
	if err != nil {
		r.failf("%v", err)
	}
	size, err := f.Size()
	if err = errors.Join(err, f.Close()); err != nil {
		r.failf("%v", err)
	}
	return file, r.rng.Int64N(size)
}

// liveByte picks a byte of a round in a shard's journal that is durable and needed.
func (r *run) liveByte(shard int) (file string, off int64) {
	file = layout.JournalPath(dataDir, shard)
	j := r.dead.Journal(shard)
	live := slices.DeleteFunc(r.rounds(shard), func(h journal.Header) bool {
		return h.LSN <= j.Released() || h.LSN > j.FlushedLSN()
	})
	if len(live) == 0 {
		return file, journal.RingStart
	}
	h := live[r.rng.IntN(len(live))]
	return file, h.Pos + r.rng.Int64N(int64(h.Total))
}

// isUnproven reports whether a byte lies in a round that was written and not flushed.
func (r *run) isUnproven(file string, off int64) bool {
	for i := range r.cfg.Shards {
		if file != layout.JournalPath(dataDir, i) {
			continue
		}
		j := r.dead.Journal(i)
		return slices.ContainsFunc(r.rounds(i), func(h journal.Header) bool {
			return h.Incarnation == j.Incarnation() && h.LSN > j.FlushedLSN() && h.Pos <= off && off < h.Pos+int64(h.Total)
		})
	}
	return false
}

// rounds are the headers in a shard's journal, those of earlier laps too.
func (r *run) rounds(shard int) (list []journal.Header) {
	f, err := r.w.FS().Open(layout.JournalPath(dataDir, shard), 0)
	if err != nil {
		r.failf("%v", err)
	}
	j := r.dead.Journal(shard)
	block := make([]byte, aio.BlockSize)
	for pos := int64(journal.RingStart); ; pos += aio.BlockSize {
		if n, _ := f.ReadAt(block, pos); n < len(block) {
			break
		}
		h, err := journal.DecodeHeader(block)
		if err == nil && h.UUID == j.UUID() && h.Pos == pos {
			list = append(list, h)
		}
	}
	if err := f.Close(); err != nil {
		r.failf("%v", err)
	}
	return list
}

// readRotten reads a partition whole. What is missing must have been told of.
func (r *run) readRotten(p *part) {
	if err := r.tryRead(p); err != nil {
		// An error of the broker for this place is an answer; a partition that ends too
		// early is none.
		r.note("%v: %v", p, err)
		if !strings.Contains(err.Error(), "Corrupt") && !r.told {
			r.failf("%v: %v, and nothing was told", p, err)
		}
		r.told = true
		p.shown = len(p.p.Violations())
		return
	}
	for _, v := range p.p.Violations()[p.shown:] {
		switch v.Kind {
		case history.Changed, history.Invented, history.TwoContents, history.WentBack:
			r.failf("%v (%v): %v, told: %v", p, p.topic.class, v, r.told)
		}
		if !r.told {
			r.failf("%v (%v): %v, told: %v", p, p.topic.class, v, r.told)
		}
	}
	p.shown = len(p.p.Violations())
}
