package broker

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/broker/catalog"
	"github.com/mqd-broker/mqd/broker/classic"
	"github.com/mqd-broker/mqd/broker/group"
	"github.com/mqd-broker/mqd/broker/groupfile"
	"github.com/mqd-broker/mqd/engine"
	"github.com/mqd-broker/mqd/engine/shard"
)

const (
	// MaxHeartbeatWait is the longest time that the answer to a heartbeat is held back.
	MaxHeartbeatWait = 5 * time.Second
	// coordinatorTick is how often members and waiting heartbeats are looked at.
	coordinatorTick = 250 * time.Millisecond
	// coordinatorRetry is how long after a read error it is tried to read again.
	coordinatorRetry = time.Second
)

// coordinatorStage says what a coordinator can do.
type coordinatorStage uint8

const (
	coordinatorFiles    coordinatorStage = iota // snapshots are read
	coordinatorLog                              // the log behind them is read
	coordinatorServes                           // requests are carried out
	coordinatorDrains                           // an append was refused; what is in flight ends
	coordinatorWaits                            // until it is tried again to read
	coordinatorUnusable                         // until the next start
)

// coordinator keeps the groups of one partition of the internal topic, on the shard that
// owns the partition. A request is carried out when it arrives: the state changes, and
// what it writes is appended at the end of the turn, in one batch for all requests of
// the turn. Answers leave when what was appended before them is durable, in order. If
// an append is refused, because there is no room, those that waited for it are told so,
// and those that came behind it, which may have seen what it changed; then the state is
// read again.
type coordinator struct {
	b       *Shard
	number  uint32
	part    *partition
	stage   coordinatorStage
	why     error // it is unusable
	refusal Code  // why the last append was refused
	broken  bool  // an append in flight was refused, and all before it are answered
	state   *group.State
	image   *catalog.Image // that the state has been told of
	more    bool           // of what a tick looks at is left

	queue  fifo // requests that wait until it serves
	fresh  fifo // carried out in this turn
	parked fifo // heartbeats that wait for a change
	told   fifo // calls of classic that are answered

	classic  *classic.State
	restored bool // what was kept of it

	first, last *groupAppend // in flight
	free        *groupAppend
	commit      group.Commit // scratch
	load        groupLoad
	snapshots   *groupfile.Snapshots
	timer       shard.Timer
}

// groupAppend is a batch of a coordinator on its way into the log.
type groupAppend struct {
	c       *coordinator
	p       Produce
	builder *batch.Builder
	buf     []byte
	answers fifo // leave when it is durable
	done    bool // before others that are not
	next    *groupAppend
}

// coordinator finds or makes the coordinator of a partition of this shard.
func (b *Shard) coordinator(number uint32) *coordinator {
	for _, c := range b.coordinators {
		if c.number == number {
			return c
		}
	}
	p, code := b.partition(GroupsTopic, int32(number))
	if code != OK {
		violated("the internal topic of groups stays")
	}
	c := &coordinator{b: b, number: number, part: p, classic: classic.New(b.node.opts.Classic)}
	c.timer.Owner = c
	c.load.c = c
	c.snapshots = groupfile.NewSnapshots(b.loop, &b.node.opts, b.node.id, number, cutLog{p.Partition, b.store})
	b.coordinators = append(b.coordinators, c)
	c.load.begin()
	return c
}

// cutLog is the log of a coordinator, for its snapshots.
type cutLog struct {
	*engine.Partition
	store *engine.Store
}

// TrimTo implements groupfile.Log.
func (l cutLog) TrimTo(offset int64) { l.store.Trim(l.Partition, offset, nil) }

// admit takes a request.
func (c *coordinator) admit(r *Group) {
	switch {
	case c.stage == coordinatorUnusable:
		r.Code, r.Message = Storage, c.why.Error()
		c.b.answerGroup(r)
	case c.stage == coordinatorWaits:
		r.Code, r.Message = NotReady, c.why.Error()
		c.b.answerGroup(r)
	case c.stage == coordinatorServes:
		c.carryOut(r)
	default:
		r.wait.msg.body = r
		c.queue.push(&r.wait)
	}
}

// serve begins to carry requests out.
func (c *coordinator) serve() {
	c.stage, c.image = coordinatorServes, c.b.Image()
	c.state.Begin(c.b.loop.Now())
	c.occupy()
	c.more = true
	for !c.queue.empty() {
		c.carryOut(c.queue.pop().msg.body.(*Group))
	}
}

// carryOut changes the state as a request asks for.
func (c *coordinator) carryOut(r *Group) {
	s, now := c.state, c.b.loop.Now()
	if c.crowded(r) {
		c.answerLater(r)
		return
	}
	switch r.Kind {
	case GroupCommit:
		c.commit = group.Commit{Group: r.Name, Member: r.Member, Generation: r.Generation, Entries: r.Entries}
		r.Outcome = s.Commit(now, c.wall(), &c.commit)
		c.commit = group.Commit{}
	case GroupClassic:
		c.callClassic(r)
		return
	case GroupReset:
		r.Outcome = s.Reset(now, c.wall(), r.Name, r.Entries)
	case GroupOffsets:
		c.offsets(r, now)
	case GroupJoin:
		c.join(r, now)
	case GroupHeartbeat:
		if c.heartbeat(r, now) {
			return
		}
	case GroupLeave:
		r.Outcome = s.Leave(now, r.Name, r.Member)
	case GroupAssign:
		r.Outcome = s.Assign(now, r.Name, r.Entries, r.Instance)
	case GroupForget:
		c.forget(r)
	case GroupDelete:
		r.Outcome = s.Remove(r.Name)
	case GroupDescribe:
		c.describe(r, now)
	case GroupList:
		if c.list(r) {
			return
		}
	default:
		violated("a group's request has a kind")
	}
	c.answerLater(r)
	c.wakeChanged()
}

func (c *coordinator) wall() int64 { return c.b.drv.Clock().Wall() }

func (c *coordinator) forget(r *Group) {
	parts, codes := make([]group.Partition, len(r.Entries)), make([]group.Code, len(r.Entries))
	for i := range r.Entries {
		parts[i] = r.Entries[i].Partition
	}
	r.Outcome = c.state.Forget(r.Name, parts, codes, c.readers(string(r.Name)))
	for i := range r.Entries {
		r.Entries[i].Code = codes[i]
	}
}

func (c *coordinator) join(r *Group, now int64) {
	j := &r.Join
	j.Group = r.Name
	for j.ID == (group.MemberID{}) {
		binary.BigEndian.PutUint64(j.ID[:8], c.b.drv.Rand())
		binary.BigEndian.PutUint64(j.ID[8:], c.b.drv.Rand())
	}
	m, a, code := c.state.Join(now, j)
	r.Outcome = code
	if code == group.OK {
		r.Member = m.ID()
		r.assigned(a)
	}
	j.ID = group.MemberID{}
}

// heartbeat reports whether the answer waits for a change of the member's list.
func (c *coordinator) heartbeat(r *Group, now int64) bool {
	m, a, changed, code := c.state.Heartbeat(now, r.Name, r.Member, r.Generation)
	r.Outcome = code
	if code != group.OK {
		return false
	}
	if old, ok := m.Waiter.(*Group); ok && old != nil {
		c.unpark(old) // of a connection that is gone
		c.answerLater(old)
	}
	if changed || r.Wait <= 0 || c.b.node.quiesced.Load() {
		r.assigned(a)
		return false
	}
	r.member, r.until = m, now+min(r.Wait, int64(MaxHeartbeatWait))
	m.Waiter = r
	r.wait.msg.body = r
	c.parked.push(&r.wait)
	c.wakeChanged() // its own confirmation may have been what another waits for
	return true
}

// unpark takes a heartbeat out of waiting and fills in its answer.
func (c *coordinator) unpark(r *Group) {
	m := r.member
	r.wait.leave()
	r.member, m.Waiter = nil, nil
	if m.Gone() {
		r.Outcome = c.state.Stranger(r.Name, r.Member)
		return
	}
	r.assigned(m.Assignment())
}

// wakeChanged answers the heartbeats of members whose lists have changed.
func (c *coordinator) wakeChanged() {
	for _, m := range c.state.Changed() {
		if r, ok := m.Waiter.(*Group); ok && r != nil {
			c.unpark(r)
			c.answerLater(r)
		}
	}
}

// answerLater has a request answered when everything appended so far is durable.
func (c *coordinator) answerLater(r *Group) {
	r.wait.msg.body = r
	c.fresh.push(&r.wait)
}

// turn does what does not hang on an event, and returns whether there was any.
func (c *coordinator) turn() int {
	if c.b.node.quiesced.Load() {
		c.closeClassic()
	}
	if c.load.step() {
		return 1
	}
	if c.stage != coordinatorServes {
		return 0
	}
	now, n := c.b.loop.Now(), 0
	if i := c.b.Image(); i != c.image {
		c.image = i
		c.state.TopicsChanged()
		c.more = true
	}
	if c.snapshots.Step() {
		n = 1
	}
	if c.more {
		c.more = c.state.Tick(now)
		c.wakeChanged()
		n = 1
	}
	if c.b.node.quiesced.Load() {
		for !c.parked.empty() {
			r := c.parked.first.msg.body.(*Group)
			c.unpark(r)
			c.answerLater(r)
			n = 1
		}
	}
	next := now + int64(c.interval())
	if due := c.turnClassic(); due >= 0 {
		next = max(now, min(next, due))
	}
	c.b.loop.ArmBy(&c.timer, next) // sooner than it was, if members have come
	return n
}

// interval is how long nobody need look at anything: without members only the time that
// groups are kept passes.
func (c *coordinator) interval() time.Duration {
	if c.state.Members() > 0 {
		return coordinatorTick
	}
	return 40 * coordinatorTick
}

// Fire looks at members and waiting heartbeats.
func (c *coordinator) Fire(_ *shard.Timer, now int64) {
	if c.stage == coordinatorWaits {
		c.load.begin()
	}
	if c.stage != coordinatorServes {
		return
	}
	c.more = true
	for w := c.parked.first; w != nil; {
		r := w.msg.body.(*Group)
		w = w.next
		if now >= r.until {
			c.unpark(r)
			c.answerLater(r)
		}
	}
}

// finish appends what the turn has written, and answers what waits for nothing. It is
// for the end of a turn.
func (c *coordinator) finish() {
	if c.stage != coordinatorServes || c.fresh.empty() && c.state.Out.Len() == 0 {
		return
	}
	if !c.fits() {
		// What was written under a larger limit is too large for this one.
		c.stage, c.refusal = coordinatorDrains, Busy
		if c.first == nil {
			c.again()
		}
		return
	}
	for i := 0; i < c.state.Out.Len(); {
		i = c.append(i)
	}
	c.state.Out.Clear()
	if c.last != nil {
		c.last.answers.take(&c.fresh)
		return
	}
	for !c.fresh.empty() {
		c.b.answerGroup(c.fresh.pop().msg.body.(*Group))
	}
}

// batchBytes is the largest batch that the coordinator appends. It may be smaller than
// in an earlier life.
func (c *coordinator) batchBytes() int { return min(groupBatchBytes, c.b.node.opts.MaxBatch) }

// recordBytes is the largest record that fits into such a batch, with its own head.
func (c *coordinator) recordBytes() int { return c.batchBytes() - batch.HeaderSize - 64 }

// fits reports whether each record of the turn fits into a batch.
func (c *coordinator) fits() bool {
	for i := range c.state.Out.Len() {
		if len(c.state.Out.At(i)) > c.recordBytes() {
			return false
		}
	}
	return true
}

// append appends records from i on, as many as a batch holds, and returns which is the
// next.
func (c *coordinator) append(i int) int {
	a, limit := c.newAppend(), c.batchBytes()
	if a.builder == nil {
		a.builder = batch.NewBuilder(a.buf[:0], limit)
	} else {
		a.builder.Reset(a.buf[:0])
	}
	now := c.wall() / 1e6
	for ; i < c.state.Out.Len(); i++ {
		err := a.builder.Append(&batch.Record{Timestamp: now, Value: c.state.Out.At(i)})
		if errors.Is(err, batch.ErrFull) && a.builder.Count() > 0 {
			break
		}
		if err != nil {
			violated("a group's record fits into a batch")
		}
	}
	data := a.builder.Finish(batch.CodecNone)
	c.snapshots.Grew(len(data))
	a.buf = data
	if c.last != nil {
		c.last.next = a
	} else {
		c.first = a
	}
	c.last = a
	a.p.Owner = a
	c.b.appendOwn(&a.p, c.part, data, limit, true) // places are kept where there is no room for more messages
	return i
}

func (c *coordinator) newAppend() *groupAppend {
	a := c.free
	if a == nil {
		return &groupAppend{c: c}
	}
	c.free, a.next = a.next, nil
	return a
}

// Produced answers what has waited for a batch, and for those before it: one that waits
// for room may be refused before they are durable.
func (a *groupAppend) Produced(p *Produce) {
	c := a.c
	a.done = true
	if p.Code != OK {
		c.stage, c.refusal = coordinatorDrains, p.Code
	}
	for c.first != nil && c.first.done {
		a := c.first
		if c.first = a.next; c.first == nil {
			c.last = nil
		}
		c.broken = c.broken || a.p.Code != OK
		for !a.answers.empty() {
			r := a.answers.pop().msg.body.(*Group)
			if c.broken {
				r.Code, r.Message = c.refusal, a.p.Message
			}
			c.b.answerGroup(r)
		}
		a.done, a.next, c.free = false, c.free, a
	}
	if c.stage == coordinatorDrains && c.first == nil {
		c.again()
	}
}

// again reads the state again after an append was refused. If the log has failed there
// is no use.
func (c *coordinator) again() {
	c.snapshots.Abandon()
	c.broken = false
	for !c.parked.empty() {
		r := c.parked.first.msg.body.(*Group)
		r.wait.leave()
		r.member.Waiter, r.member = nil, nil
		c.fresh.push(&r.wait)
	}
	for !c.fresh.empty() {
		r := c.fresh.pop().msg.body.(*Group)
		if r.Code = c.refusal; !c.fits() {
			r.Message = "a group is larger than topic.max_message_bytes allows now: raise it"
		}
		c.b.answerGroup(r)
	}
	c.state.Out.Clear()
	if c.refusal == Storage {
		c.fail(errors.New("the log has failed"))
		return
	}
	c.load.begin()
}

// wait has it tried again to read what could not be read: the error may pass.
func (c *coordinator) wait(why error) {
	c.stage, c.why = coordinatorWaits, why
	c.b.loop.Arm(&c.timer, c.b.loop.Now()+int64(coordinatorRetry))
	for !c.queue.empty() {
		c.admit(c.queue.pop().msg.body.(*Group))
	}
}

// fail ends the coordinator until the next start.
func (c *coordinator) fail(why error) {
	c.snapshots.Abandon()
	c.stage, c.why = coordinatorUnusable, why
	c.closeClassic()
	for !c.queue.empty() {
		c.admit(c.queue.pop().msg.body.(*Group))
	}
}
