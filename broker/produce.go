package broker

import (
	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/engine"
	"github.com/mqd-broker/mqd/engine/shard"
	"github.com/mqd-broker/mqd/engine/stage"
)

// Produce is one batch on its way into a partition. The caller owns and pools it.
// From [Shard.Produce] until Produced it and Batch belong to the broker; after
// that it may be used again as it is, with the request's fields set anew.
type Produce struct {
	// Request.

	Topic     TopicID
	Partition int32
	// MinClass refuses a topic of a weaker class; ClassNone takes any.
	MinClass Class
	Encoding Encoding
	// Batch is one whole batch, unchecked, in memory that the broker may
	// write: offset and epoch are stamped in place.
	Batch []byte
	// Received is when the last bytes of the request came, by the clock of a loop; 0 if
	// nobody asks how long it took to read them.
	Received int64
	// Stamped is when the kernel or the network card had them, as aio.Op.Stamp says.
	Stamped int64
	Owner   ProduceOwner

	// Result.

	Code Code
	// Class is the class reached, ClassNone with a code. With ClassTooWeak it is
	// the topic's.
	Class Class
	// Base is the offset of the first record, AppendTime the broker's time of
	// the append in Unix nanoseconds; both -1 with a code.
	Base, AppendTime int64
	// Low and High are a valid range that the request missed (BatchTooLarge: 0
	// and the limit in bytes), else -1.
	Low, High int64
	// Message says more for people; mostly empty.
	Message string

	produceState
}

// ProduceOwner is told of a produce's outcome, on the loop of the shard that was
// asked, possibly inside [Shard.Produce].
type ProduceOwner interface {
	Produced(r *Produce)
}

// produceState is the broker's part of a Produce.
type produceState struct {
	op       engine.Append
	origin   int   // shard that was asked
	home     int   // shard that owns the partition
	deadline int64 // loop time until which it may wait, nanoseconds
	limit    int   // largest batch, bytes
	plain    []byte
	wait     waiter

	// While the owning shard has it.
	at   *Shard
	part *partition
}

// Produce appends a batch to a partition. r.Owner hears of the outcome once.
func (b *Shard) Produce(r *Produce) {
	r.Code, r.Class, r.Base, r.AppendTime, r.Low, r.High, r.Message = OK, ClassNone, -1, -1, -1, -1, ""
	b.inFlight++
	if b.node.quiesced.Load() {
		b.refuse(r, ShuttingDown)
		return
	}
	t, code := b.node.lookup(r.Topic, r.Partition)
	if code != OK {
		b.refuse(r, code)
		return
	}
	if t.Internal() {
		r.Message = "the topic is the broker's own"
		b.refuse(r, InvalidTopic)
		return
	}
	r.limit = min(t.Config.MaxMessageBytes(), b.node.opts.MaxBatch)
	if r.Encoding == EncodingRecordBatch {
		if !b.check(r, r.Batch) {
			return
		}
	} else if h, err := batch.ParsePlainHeader(r.Batch, batch.MaxSize); err != nil {
		b.invalid(r, err)
		return
	} else if leastBatch(h) > r.limit {
		b.invalid(r, batch.ErrTooLarge)
		return
	}
	r.origin, r.home = b.id, b.node.ShardOf(r.Topic, r.Partition)
	r.op.Arrived = b.parsed(r)
	r.deadline = b.loop.Now() + int64(b.node.opts.ProduceTimeout)
	r.wait.msg = Message{kind: msgProduce, body: r}
	l := &b.lanes[r.home]
	if !l.produces.empty() || !b.advance(r) {
		l.produces.push(&r.wait)
		b.waiting = b.waiting.With(r.home)
		b.mayExpire()
	}
}

// parsed is when a batch has been checked and is on its way to be appended.
func (b *Shard) parsed(r *Produce) int64 {
	if r.Received == 0 {
		return b.loop.Now()
	}
	now := b.reading.Now(b.loop.Now(), r.Received, len(r.Batch))
	times := b.store.Stages()
	times.Received(r.Stamped, r.Received)
	times.Add(stage.Parse, now-r.Received)
	return now
}

// appendOwn appends a batch of the broker's own, at most limit bytes long, to one of its
// internal partitions, which is this shard's. r.Owner hears of the outcome when it is
// flushed. Urgent ones also go where there is no room for messages.
func (b *Shard) appendOwn(r *Produce, p *partition, data []byte, limit int, urgent bool) {
	k := p.Key()
	*r = Produce{Topic: k.Topic, Partition: int32(k.Partition), MinClass: ClassFlushed, Owner: r.Owner}
	r.limit, r.origin, r.home = limit, b.id, b.id
	r.deadline = b.loop.Now() + int64(b.node.opts.ProduceTimeout)
	r.wait.msg = Message{kind: msgProduce, body: r}
	r.op.Urgent = urgent
	b.inFlight++
	if !b.check(r, data) {
		violated("the broker's own batches check")
	}
	b.admit(p, r)
}

// check checks a record batch and makes it the one to append.
func (b *Shard) check(r *Produce, data []byte) bool {
	h, err := batch.Check(data, r.limit)
	if err != nil {
		b.invalid(r, err)
		return false
	}
	r.op.Batch, r.op.Header = data, h
	return true
}

// advance brings a produce to the shard that owns its partition. It reports false
// when it has to wait for memory or for a credit. A plain batch that turns out to
// be invalid is answered.
func (b *Shard) advance(r *Produce) bool {
	if r.Encoding == EncodingPlain && r.op.Batch == nil {
		switch b.convert(r) {
		case convertWaits:
			return false
		case convertRefused:
			return true
		}
	}
	if r.home == b.id {
		b.take(r)
		return true
	}
	if b.port.Credits(r.home) <= b.lanes[r.home].reserve {
		b.stats.CreditWaits++
		return false
	}
	b.send(r.home, r.wait.msg)
	return true
}

// take appends a produce to its partition, which is this shard's, or lets it wait
// behind those that came before it.
func (b *Shard) take(r *Produce) {
	p, code := b.partition(r.Topic, r.Partition)
	if code != OK {
		r.Code = code
		b.settle(r)
		return
	}
	b.admit(p, r)
}

func (b *Shard) admit(p *partition, r *Produce) {
	r.at, r.part = b, p
	if !p.waiting.empty() || !b.tryAppend(r) {
		b.stats.RoomWaits++
		p.waiting.push(&r.wait)
		b.busy.push(p)
		b.mayExpire()
	}
}

// tryAppend appends a produce; false when there is no room.
func (b *Shard) tryAppend(r *Produce) bool {
	a := &r.op
	a.Part, a.MinClass, a.Owner = r.part.Partition, r.MinClass, (*appended)(r)
	switch err := b.store.Append(a); err {
	case nil:
	case engine.ErrBusy:
		return false
	case engine.ErrDiskFull:
		r.Code, r.Message = Busy, helpDiskFull
		b.settle(r)
	default:
		r.fail(err)
		b.settle(r)
	}
	return true
}

// appended is a Produce as the engine's owner of its append.
type appended Produce

// Appended takes the outcome over from the engine.
func (o *appended) Appended(a *engine.Append) {
	r := (*Produce)(o)
	if a.Err != nil {
		r.fail(a.Err)
	} else {
		r.Class, r.Base, r.AppendTime = a.Class, a.Base, a.AppendTime
	}
	r.at.settle(r)
}

// fail sets the result to an error of the engine.
func (r *Produce) fail(err error) {
	r.Code = codeOf(err)
	switch r.Code {
	case ClassTooWeak:
		r.Class = r.part.Class()
	case BatchTooLarge:
		r.Low, r.High = 0, int64(r.limit)
	case Storage, Internal:
		r.Message = err.Error()
	}
}

// settle sends a produce whose outcome is known back to the shard that was asked.
func (b *Shard) settle(r *Produce) {
	r.at, r.part = nil, nil
	if r.origin == b.id {
		b.finish(r)
		return
	}
	b.port.Reply(r.origin, Message{kind: msgProduce, body: r})
}

// invalid answers a produce whose batch does not check.
func (b *Shard) invalid(r *Produce, err error) {
	code := batchCode(err)
	if code == BatchTooLarge {
		r.Low, r.High = 0, int64(r.limit)
	}
	r.Message = err.Error()
	b.refuse(r, code)
}

func (b *Shard) refuse(r *Produce, code Code) {
	r.Code = code
	b.finish(r)
}

// finish tells the owner, on the shard that was asked.
func (b *Shard) finish(r *Produce) {
	if r.plain != nil {
		b.plain.Put(r.plain)
		r.plain = nil
	}
	if r.Code == OK {
		b.stats.Produced++
		b.stats.ProducedBytes += uint64(len(r.op.Batch))
	} else {
		b.stats.Refused++
	}
	r.op.Batch = nil
	b.inFlight--
	r.Owner.Produced(r)
}

// canRetry reports whether produces that wait for room are worth another try.
func (b *Shard) canRetry() bool { return b.busy.Len() > 0 && !b.store.Starved() }

// retry tries produces that wait for room, one of each partition in turn, until
// there is none again.
func (b *Shard) retry() {
	for n := 0; n < retryBudget && b.canRetry(); n++ {
		p := b.busy.First().Owner
		b.busy.remove(p)
		w := p.waiting.pop()
		if !b.tryAppend(w.msg.body.(*Produce)) {
			p.waiting.pushFront(w)
		}
		if !p.waiting.empty() {
			b.busy.push(p)
		}
	}
}

// expiry ends the waiting of produces that have waited too long.
type expiry Shard

// expirySteps is how often within a produce timeout it is looked.
const expirySteps = 8

// mayExpire makes sure that somebody looks.
func (b *Shard) mayExpire() {
	if !b.expiry.Armed() {
		b.loop.Arm(&b.expiry, b.loop.Now()+int64(b.node.opts.ProduceTimeout)/expirySteps)
	}
}

// Fire answers the produces whose time is over. Those that wait in one fifo came in
// order of their deadlines.
func (e *expiry) Fire(_ *shard.Timer, now int64) {
	b := (*Shard)(e)
	for s := b.waiting; !s.Empty(); {
		to, rest := s.Next()
		s = rest
		b.expireIn(&b.lanes[to].produces, now)
	}
	for at, n := b.busy.First(), b.busy.Len(); at != nil && n > 0; n-- { // not those that come meanwhile
		p := at.Owner
		at = at.Next()
		b.expireIn(&p.waiting, now)
		if p.waiting.empty() {
			b.busy.remove(p)
		}
	}
	if !b.waiting.Empty() || b.busy.Len() > 0 {
		b.mayExpire()
	}
}

// helpDiskFull is what clients hear when there is no room for that reason.
const helpDiskFull = "the broker's disk is full; make room or delete topics"

// expireIn answers those whose time is over. On a full disk that is at once: there
// will be no room soon, and clients that know why need not wait.
func (b *Shard) expireIn(q *fifo, now int64) {
	full := b.store.DiskFull()
	for !q.empty() {
		r := q.first.msg.body.(*Produce)
		if r.deadline > now && !full {
			return
		}
		q.pop()
		b.stats.Expired++
		r.Code = Busy
		if full {
			r.Message = helpDiskFull
		}
		b.settle(r)
	}
}
