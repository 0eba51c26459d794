package broker

import (
	"github.com/mqd-broker/mqd/engine"
)

// reading is a fetch on the side of the shard that owns the partition: the read,
// its pins, its results. It is lent to the asking shard together with the pieces.
type reading struct {
	read    engine.Read
	results results
	r       *Fetch
	from    int // shard that asks
	at      *Shard
	stage   readingStage
	bytes   int64  // that count as pinned
	dated   bool   // the answer says when it was appended
	wait    waiter // while held back, of a late answer, or of the release
	next    *reading
}

// readingStage says where a reading is. It is the owning shard's.
type readingStage uint8

const (
	readingIdle   readingStage = iota
	readingHeld                // waits for pinned memory to be released
	readingBegun               // inside Store.Read
	readingParked              // the store answers later
	readingDone                // the answer is known
)

// results are what an answer says beside the pieces.
type results struct {
	code                                       Code
	class                                      Class
	logStart, durable, end, newestAppend, next int64
	appendedFrom, appendedTo, left, missing    int64
	message                                    string
}

func (z *results) copyTo(r *Fetch) {
	r.Code, r.Class, r.Message = z.code, z.class, z.message
	r.LogStart, r.Durable, r.End, r.NewestAppend, r.Next = z.logStart, z.durable, z.end, z.newestAppend, z.next
	r.AppendedFrom, r.AppendedTo, r.Left, r.Missing = z.appendedFrom, z.appendedTo, z.left, z.missing
}

// readingPool keeps readings for reuse. It grows up to its limit.
type readingPool struct {
	free     *reading
	made     int
	out      int // in use
	limit    int
	pinLimit int64
}

func (p *readingPool) get(b *Shard) *reading {
	rd := p.free
	switch {
	case rd != nil:
		p.free, rd.next = rd.next, nil
	case p.made < p.limit:
		rd = &reading{at: b}
		rd.read.Owner = (*readDone)(rd)
		p.made++
	default:
		return nil
	}
	p.out++
	return rd
}

// crowded reports whether no more fetches may wait: a quarter of the readings is kept for
// those that find something, so that nobody who waits keeps others from reading, and
// another for those that are not one of very many.
func (p *readingPool) crowded(many bool) bool {
	if many {
		return p.out >= p.limit/2
	}
	return p.out >= p.limit-p.limit/4
}

// startFetch begins a fetch from a partition of this shard and returns the reply.
// The request is this shard's until the reply.
func (b *Shard) startFetch(r *Fetch, from int) Message {
	p, code := b.partition(r.Topic, r.Partition)
	if code != OK {
		r.unknown(code)
		return Message{kind: msgAnswered, body: r}
	}
	crowded := r.left > 0 && b.readings.crowded(r.Many)
	if crowded && b.pinned >= b.readings.pinLimit {
		return r.turnedAway(p)
	}
	rd := b.readings.get(b)
	if rd == nil {
		return r.turnedAway(p)
	}
	rd.r, rd.from, rd.dated = r, from, r.Dated
	b.fillRead(&rd.read, p, r)
	if crowded {
		rd.read.Until = 0
	}
	if b.pinned >= b.readings.pinLimit {
		b.stats.PinWaits++
		rd.stage = readingHeld
		rd.wait.msg.body = rd
		b.held.push(&rd.wait)
		return Message{kind: msgParked, body: rd}
	}
	rd.stage = readingBegun
	b.store.Read(&rd.read)
	switch {
	case rd.stage == readingBegun:
		rd.stage = readingParked
		return Message{kind: msgParked, body: rd}
	case rd.read.N == 0:
		m := Message{kind: msgAnswered, body: r}
		if crowded && rd.results.code == OK {
			m.kind = msgCrowded
		}
		rd.results.copyTo(r)
		b.recycle(rd)
		return m
	}
	return Message{kind: msgFetched, body: rd}
}

// turnedAway is the reply where no reading is to be had: the places of the log, for which
// none is needed. Who waits waits on elsewhere, or has waited; all others hear Busy.
func (r *Fetch) turnedAway(p *partition) Message {
	r.unknown(OK)
	switch start, end := p.LogStart(), p.End(); {
	case r.Offset < start || r.Offset > end:
		r.Code = OffsetOutOfRange
	case r.until == 0:
		r.Code = Busy
		return Message{kind: msgAnswered, body: r}
	}
	r.Class, r.LogStart, r.Durable, r.End = p.Class(), p.LogStart(), p.Durable(), p.End()
	if at := p.NewestAppendTime(); at != 0 {
		r.NewestAppend = at
	}
	if r.left > 0 && r.Code == OK {
		return Message{kind: msgCrowded, body: r}
	}
	return Message{kind: msgAnswered, body: r}
}

// fillRead makes a read of a fetch.
func (b *Shard) fillRead(read *engine.Read, p *partition, r *Fetch) {
	o := &b.node.opts
	read.Part, read.Offset = p.Partition, r.Offset
	read.MaxBytes, read.MaxRecords, read.MinBytes = min(r.MaxBytes, o.MaxFetchBytes), r.MaxRecords, r.MinBytes
	if read.MaxBytes <= 0 {
		read.MaxBytes = o.FetchBytes
	}
	if read.MaxRecords <= 0 {
		read.MaxRecords = o.FetchRecords
	}
	read.Until, read.Measure = 0, r.Dated
	if r.left > 0 {
		read.Until = b.loop.Now() + r.left
	}
}

// readDone is a reading as the engine's owner of its read.
type readDone reading

// ReadDone takes the answer over from the engine.
func (o *readDone) ReadDone(*engine.Read) {
	rd := (*reading)(o)
	rd.at.answered(rd)
}

// answered notes the results of a reading and, unless that happened inside the call
// that began it, sends them.
func (b *Shard) answered(rd *reading) {
	z, p := &rd.results, rd.read.Part
	z.code, z.message = codeOf(rd.read.Err), ""
	if z.code != OK && z.code != OffsetOutOfRange {
		z.message = rd.read.Err.Error()
	}
	z.class, z.logStart, z.durable, z.end, z.next = p.Class(), p.LogStart(), p.Durable(), p.End(), rd.read.Next
	if z.newestAppend = p.NewestAppendTime(); z.newestAppend == 0 {
		z.newestAppend = -1
	}
	if z.appendedFrom, z.appendedTo = -1, -1; rd.dated && rd.read.N > 0 {
		z.appendedFrom, z.appendedTo = p.Appended(z.next - 1)
	}
	z.left, z.missing = rd.read.Left, 0
	if rd.dated {
		z.missing = p.Missing(max(rd.read.Offset, z.logStart), z.durable)
	}
	if z.code == UnknownTopic {
		*z = results{code: UnknownTopic, logStart: -1, durable: -1, end: -1, newestAppend: -1, next: rd.read.Offset, appendedFrom: -1, appendedTo: -1, left: -1}
	}
	rd.bytes = int64(rd.read.Bytes)
	b.pinned += rd.bytes
	inside := rd.stage == readingBegun
	rd.stage = readingDone
	if !inside {
		b.answerLate(rd)
	}
}

// answerLate sends the results of a parked reading.
func (b *Shard) answerLate(rd *reading) {
	m := Message{kind: msgFetched, body: rd}
	if rd.from != b.id {
		b.post(rd.from, m, &rd.wait)
		return
	}
	if b.lateFetched(rd).kind == msgReturned {
		b.recycle(rd)
	}
}

// cancelReading ends the wait of a reading that is parked. One that reads from a
// file is answered when that is done.
func (b *Shard) cancelReading(rd *reading) {
	switch rd.stage {
	case readingHeld:
		rd.wait.leave()
	case readingParked:
		if !b.store.CancelRead(&rd.read) {
			return
		}
	default:
		return
	}
	rd.read.N, rd.read.Bytes, rd.read.Err, rd.read.Next, rd.read.Left = 0, 0, nil, rd.read.Offset, -1
	rd.stage = readingParked
	b.answered(rd)
}

// recycle gives the memory of a reading back.
func (b *Shard) recycle(rd *reading) {
	if rd.stage != readingDone {
		violated("a reading is recycled once, after its answer")
	}
	b.store.Release(&rd.read)
	b.pinned -= rd.bytes
	rd.stage, rd.bytes = readingIdle, 0
	rd.r, rd.read.Part, rd.read.Err, rd.results.message = nil, nil, nil, ""
	rd.next, b.readings.free = b.readings.free, rd
	b.readings.out--
}

// canStartHeld reports whether a reading that waited for pinned memory may begin.
func (b *Shard) canStartHeld() bool { return !b.held.empty() && b.pinned < b.readings.pinLimit }

// showHeld tells the node how many readings wait here for memory that answers
// keep.
func (b *Shard) showHeld() {
	n := b.held.n
	if b.store.ColdWaiting() {
		n++
	}
	if n != b.heldShown {
		b.node.held.Add(int64(n - b.heldShown))
		b.heldShown = n
	}
}

// startHeld begins the readings that waited for pinned memory.
func (b *Shard) startHeld() {
	for n := 0; n < heldBudget && b.canStartHeld(); n++ {
		rd := b.held.pop().msg.body.(*reading)
		rd.stage = readingParked
		b.store.Read(&rd.read)
	}
}
