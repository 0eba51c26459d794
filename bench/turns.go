package bench

import "github.com/mqd-broker/mqd/bench/pace"

// turns are the groups of messages of a connection, one after the other. The groups of a
// schedule go to the connections in turn.
//
// A message of an open loop is late for one of two reasons. The client came to it
// late: then the run tells of the client. Or the client was there in time and the
// broker took nothing more, because it has not answered what is in flight or not
// read what was sent: that is the broker's latency like any other. So a second
// row of arrivals, known, runs ahead over what was due while the broker held
// things up, and a group counts as late only if it is not behind it.
type turns struct {
	w      *worker
	due    *pace.Arrivals // nil in a closed loop
	known  *pace.Arrivals // those that the client has come to, sent or held
	ahead  int64          // by how many groups known is ahead
	group  int64          // groups built
	groups int64          // groups to build
}

func newTurns(w *worker, conn int) turns {
	c := &w.run.load
	t := turns{w: w, groups: c.groups()}
	if w.run.open {
		t.due = pace.New(c.schedule(), conn, c.Connections, c.Seed)
		t.known = pace.New(c.schedule(), conn, c.Connections, c.Seed)
	}
	return t
}

// dueAt is the intended time of the next group of an open loop.
func (t *turns) dueAt() int64 { return t.w.run.start + t.due.Due() }

// hold notes that what is due now is held up by the broker.
func (t *turns) hold(now int64) {
	if t.known == nil {
		return
	}
	for t.group+t.ahead < t.groups {
		intended := t.w.run.start + t.known.Due()
		if intended > now || intended >= t.w.run.until {
			return
		}
		t.w.came(now-intended, intended, int64(t.w.run.load.BatchMessages))
		t.known.Advance()
		t.ahead++
	}
}

// passed goes on behind a group that is built, and reports whether it was held up.
func (t *turns) passed() (held bool) {
	t.group++
	if t.due == nil {
		return false
	}
	t.due.Advance()
	if t.ahead > 0 {
		t.ahead--
		return true
	}
	t.known.Advance()
	return false
}
