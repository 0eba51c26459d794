package retention

// Done hears what came of a trim.
type Done interface {
	// Trimmed: the log begins at logStart. With an error it did not get where it was
	// to go.
	Trimmed(logStart int64, err error)
}

// LogStart is where the log of a partition begins, and how far the removal of what is
// below has come. None of its offsets ever goes back.
//
// A checkpoint records the new log start, or as much of the way as is flushed; when both of
// its generations do it is in force, so that a start that has to do with the older one,
// because the newer is damaged, finds what that speaks of. Whoever asked is told when all of
// the way is, and segments below it go. A start does without every segment below the log
// start, whether it is still there or not.
type LogStart struct {
	at     int64 // in force
	wanted int64 // asked for
	asked  int64 // in the newest checkpoint begun
	asking []request
}

type request struct {
	offset int64
	done   Done
}

// Restore sets the log start that a start has found.
func (l *LogStart) Restore(at int64) { *l = LogStart{at: at, wanted: at, asked: at} }

// At is the log start in force.
func (l *LogStart) At() int64 { return l.at }

// Wanted is where the log start is to move.
func (l *LogStart) Wanted() int64 { return l.wanted }

// Ask has the log start moved to offset, which is above it. done may be nil.
func (l *LogStart) Ask(offset int64, done Done) {
	l.wanted = max(l.wanted, offset)
	if done != nil {
		l.asking = append(l.asking, request{offset, done})
	}
}

// Record is what a checkpoint is to say of a log that goes on at next as far as segments
// have it. Less than what is wanted has to be said when that is not flushed.
func (l *LogStart) Record(next int64) int64 {
	l.asked = max(l.at, min(l.wanted, next))
	return l.asked
}

// Recorded notes that both generations of the checkpoint are durable.
func (l *LogStart) Recorded() { l.at = max(l.at, l.asked) }

// Settled reports whether nothing is left to be recorded.
func (l *LogStart) Settled() bool { return l.at == l.wanted }

// Answer tells those who wait for a log start that is in force, and, with an error, all
// others too. Whoever is told may ask for more.
func (l *LogStart) Answer(err error) {
	asking := l.asking
	l.asking = nil
	for _, r := range asking {
		switch {
		case l.at >= r.offset:
			r.done.Trimmed(l.at, nil)
		case err != nil:
			r.done.Trimmed(l.at, err)
		default:
			l.asking = append(l.asking, r)
		}
	}
}
