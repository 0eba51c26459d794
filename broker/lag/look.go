// Package lag tells how far consumer groups, and readers without one, are behind: in
// records, in bytes and in time.
//
// Time is that of the log: from the first record that a group has not read to the newest
// append of the partition, whatever the clock of the machine shows meanwhile and however
// long ago that was. On a topic with the broker's timestamps it is exact to the
// millisecond. On one with the timestamps of producers the broker's own times decide: the
// index of the log has one for each index interval, 4 KiB unless the topic says otherwise;
// between two of them what the producer says counts as far as it fits.
package lag

import (
	"time"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/broker"
)

const (
	// lookups is how many partitions are looked at at a time.
	lookups = 8
	// perTurn is how many are looked at before the loop goes on with something else.
	perTurn = 64
)

// Row is a partition and what a group has committed for it.
type Row struct {
	Topic     broker.TopicID
	Partition int32
	// Next is the offset that is committed, -1 for none.
	Next int64

	// Code says why a partition is not there, OK for one that is.
	Code broker.Code
	// Start and End are where the log begins and ends, -1 for a partition that is not there.
	Start, End int64
	// Records is the number of offsets from the one committed, or from Start if that is
	// higher, to the end, but for recorded gaps: 0 when retention has removed all that was
	// not read. It is -1 where nothing is committed.
	Records int64
	// Behind is how much older the first unread record is than the newest append; 0
	// without any, -1 where nothing is committed or the time is not known.
	Behind time.Duration
	// Bytes is the size of the log from the batch that holds the first unread record, all of
	// it, to the end, as it is stored; 0 without any, -1 where nothing is committed or the
	// place is not known.
	Bytes int64
}

// Shard is the part of a [broker.Shard] that is asked.
type Shard interface {
	Fetch(r *broker.Fetch)
	Release(r *broker.Fetch)
}

// Host is who wants to know.
type Host interface {
	// Pause has [Look.Go] called in a later turn of the loop.
	Pause(l *Look)
	// Over reports whether nobody wants to know any more.
	Over() bool
	// Looked hears that all rows are filled in, or that one could not be: the code is then
	// that of a failure that may pass.
	Looked(code broker.Code)
}

// Look looks at partitions, some at a time: a fetch of the first unread batch tells the
// place of the log and how old that batch is. It belongs to the loop of a shard. A page of
// the log may have to be read for each row.
type Look struct {
	shard  Shard
	host   Host
	rows   []Row
	next   int
	open   int // lookups under way
	begun  int // since the last turn
	busy   bool
	failed broker.Code
	each   [lookups]lookup
}

// lookup looks at one partition.
type lookup struct {
	f     broker.Fetch
	of    *Look
	row   *Row
	again bool // the log's start is looked at, what was committed lies below it
}

// Begin begins to fill in rows, on the loop of b. The host may hear of the end inside the
// call.
func (l *Look) Begin(b Shard, rows []Row, h Host) {
	*l = Look{shard: b, host: h, rows: rows}
	for i := range l.each {
		l.each[i].of, l.each[i].f.Owner = l, &l.each[i]
	}
	l.step()
}

// Go goes on behind a pause.
func (l *Look) Go() {
	l.begun = 0
	l.step()
}

// step begins as many lookups as it may, and tells the host when all are done.
func (l *Look) step() {
	if l.busy {
		return // a lookup has ended inside the call that began it
	}
	l.busy = true
	for i := 0; i < lookups && !l.over(); i++ {
		for u := &l.each[i]; u.row == nil && l.begun < perTurn && !l.over(); {
			u.begin(&l.rows[l.next])
		}
	}
	l.busy = false
	switch {
	case l.open > 0:
	case !l.over():
		l.host.Pause(l)
	default:
		l.host.Looked(l.failed)
	}
}

// over reports whether no more partitions are looked at.
func (l *Look) over() bool { return l.next >= len(l.rows) || l.host.Over() }

func (u *lookup) begin(r *Row) {
	l := u.of
	l.next++
	l.open++
	u.row, u.again = r, false
	r.Start, r.End, r.Records, r.Behind, r.Bytes = -1, -1, -1, -1, -1
	u.look(r.Next)
}

// look asks for the first batch from an offset on.
func (u *lookup) look(offset int64) {
	u.of.begun++
	u.f.Topic, u.f.Partition, u.f.Offset = u.row.Topic, u.row.Partition, offset
	u.f.MaxBytes, u.f.MaxRecords, u.f.Dated = 1, 1, true
	u.of.shard.Fetch(&u.f)
}

// Fetched notes what the log says.
func (u *lookup) Fetched(f *broker.Fetch) {
	l, r := u.of, u.row
	again := !u.again && f.Code == broker.OffsetOutOfRange && r.Next >= 0 && r.Next < f.LogStart && f.LogStart < f.Durable
	start := f.LogStart
	if f.Code.Retriable() {
		l.failed = f.Code
	}
	r.note(f)
	l.shard.Release(f)
	if again && !l.host.Over() {
		u.again = true
		u.look(start)
		return
	}
	u.row = nil
	l.open--
	l.step()
}

// note fills in a row.
func (r *Row) note(f *broker.Fetch) {
	r.Start, r.End = f.LogStart, f.Durable
	if r.Code = broker.OK; f.LogStart < 0 {
		r.Code = f.Code
	}
	if r.Next < 0 || f.LogStart < 0 {
		return
	}
	r.Records = max(0, f.Durable-max(r.Next, f.LogStart)-f.Missing)
	if r.Behind, r.Bytes = -1, f.Left; r.Records == 0 {
		r.Behind, r.Bytes = 0, 0
		return
	}
	if at, ok := appended(f); ok && f.NewestAppend >= 0 {
		r.Behind = time.Duration(max(0, f.NewestAppend-at))
	}
}

// appended is when the batch of an answer was appended, in Unix nanoseconds.
func appended(f *broker.Fetch) (ns int64, ok bool) {
	var head [batch.HeaderSize]byte
	n := 0
	for _, b := range f.Pieces() {
		n += copy(head[n:], b)
	}
	h, err := batch.ParseHeader(head[:])
	if n < len(head) || err != nil {
		return 0, false
	}
	ms := h.BaseTimestamp
	if h.Attributes.TimestampType() == batch.LogAppendTime {
		ms = h.MaxTimestamp
	}
	const limit = 1 << 43 // milliseconds; more do not fit nanoseconds
	return max(f.AppendedFrom, min(max(-limit, min(ms, limit))*1e6, f.AppendedTo)), true
}
