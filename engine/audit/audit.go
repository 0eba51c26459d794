// Package audit finds segments that are gone from between others.
//
// A partition's directory shows where each segment begins and nothing of where it ends.
// That stands in its index, and a start that opened the index of every segment would take
// the longer the more is stored. So a start goes by the names of the files, and an
// [Auditor] opens the indexes while the node serves, a few at a time. Nothing depends on
// what it finds: whoever reads where a segment is missing is answered with an error, before
// and after. It is for the operator, who shall hear of a loss before a reader does.
package audit

import (
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/segment"
)

// Missing is the form of the line that reports missing segments: name of the topic,
// partition, first and last offset.
const Missing = "LOSS DETECTED: topic %s partition %d: no segment for offsets %d to %d"

// pieceSegments is how many indexes are opened in one go of a helper, so that it is free
// for other work soon.
const pieceSegments = 32

// Log is a partition as its directory shows it.
type Log struct {
	Name      string // of the topic
	Topic     [16]byte
	Partition uint32
	Dir       string
	Segments  []segment.File // logs, ascending; LogBytes is where the batches end
	Indexes   []segment.File // indexes without a log, ascending
	Chain     segment.Chain  // the gaps that are recorded
	Told      [2]int64       // offsets, from and up to, that are reported missing already
}

// Auditor goes through logs, one after the other, on the helpers of one driver. It belongs
// to the loop of that driver.
type Auditor struct {
	drv    aio.Driver
	logs   []Log
	report func(format string, args ...any)
	job    piece
	op     aio.JobOp
	losses int
	busy   bool // with a piece
	stop   bool
}

// New makes an auditor of logs, which become its own. Report is called on the loop, with
// one line for each place where segments are missing.
func New(d aio.Driver, logs []Log, report func(format string, args ...any)) *Auditor {
	return &Auditor{drv: d, logs: logs, report: report}
}

// Begin begins.
func (a *Auditor) Begin() { a.next() }

// Stop ends the work with the piece that is under way, which Resting waits for. What has
// not been looked at is left for the next start.
func (a *Auditor) Stop() { a.stop = true }

// Resting reports whether nothing is under way.
func (a *Auditor) Resting() bool { return !a.busy }

// Done reports whether everything has been looked at.
func (a *Auditor) Done() bool { return len(a.logs) == 0 }

// Losses is the number of places where segments are missing, so far.
func (a *Auditor) Losses() int { return a.losses }

// next submits the next piece.
func (a *Auditor) next() {
	a.busy = !a.stop && !a.Done()
	if !a.busy {
		return
	}
	a.job = piece{log: &a.logs[0], from: a.job.to, found: a.job.found[:0]}
	a.op = aio.JobOp{Job: &a.job, Owner: a}
	a.drv.SubmitJob(&a.op)
}

// CompleteJob reports what a piece has found.
func (a *Auditor) CompleteJob(*aio.JobOp) {
	l := a.job.log
	for _, f := range a.job.found {
		a.losses++
		a.report(Missing, l.Name, l.Partition, f.from, f.to-1)
	}
	if a.job.to == len(l.Segments)-1 {
		a.job.to = 0
		a.logs[0] = Log{}
		a.logs = a.logs[1:]
	}
	a.next()
}

// piece is a job that looks behind some segments of a log.
type piece struct {
	log   *Log
	from  int // the first segment
	to    int // the one behind the last
	found []span
}

// span are offsets from from up to to.
type span struct{ from, to int64 }

// Run implements aio.Job. What cannot be read is no finding and no error.
func (p *piece) Run(fs aio.FS) error {
	segs := p.log.Segments
	p.to = min(p.from+pieceSegments, len(segs)-1)
	for i := p.from; i < p.to; i++ {
		end, next := p.log.end(fs, i), segs[i+1].Base
		told := next == p.log.Told[1] && end >= p.log.Told[0]
		if next > end && !told && (p.log.Chain == nil || !p.log.Chain.AllowsGap(end, next)) {
			p.found = append(p.found, span{end, next})
		}
	}
	return nil
}

// end is where segment i ends: as its index says, or where an index begins whose log is
// gone. Without either it is taken for whole, and what is missing shows when it is read.
func (l *Log) end(fs aio.FS, i int) int64 {
	s, next := &l.Segments[i], l.Segments[i+1].Base
	id := segment.ID{Topic: l.Topic, Partition: l.Partition, Base: s.Base}
	if end, ok := segment.SealedEnd(fs, l.Dir, id, s.LogBytes); ok {
		return end
	}
	for _, f := range l.Indexes {
		if f.Base > s.Base && f.Base < next && f.IndexBytes > 0 {
			return f.Base
		}
	}
	return next
}
