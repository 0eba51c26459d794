package bench

import (
	"fmt"
	"time"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/bench/draw"
	"github.com/mqd-broker/mqd/bench/drive"
	"github.com/mqd-broker/mqd/bench/ledger"
	"github.com/mqd-broker/mqd/internal/invariant"
	"github.com/mqd-broker/mqd/net/wire"
)

// turnBytes is about how much a producer builds before it sends.
const turnBytes = 32 << 10

// lane is what one connection sends to one partition, numbered from 0.
type lane struct {
	ledger.Lane
	id        uint32
	partition int32
}

// request is a frame in flight.
type request struct {
	lane     *lane
	first    uint64 // sequence number of its first message
	count    int64  // messages
	intended int64
	ready    int64 // when the client was done with it
	sent     int64
	turn     uint16 // of the slot: tells a late answer apart
	busy     bool
	held     bool // the client was in time, and the broker took nothing more
}

// producer sends the messages of one connection, in one of two ways. In a closed
// loop it keeps depth frames in flight. In an open loop it sends a group of
// messages when it is due, whatever is in flight, up to depth.
type producer struct {
	turns
	link    *drive.Link
	conn    int // its number among all connections
	lanes   []*lane
	nextTo  int // lane of the next frame
	sizes   *draw.Sizes
	keys    *draw.Keys
	noise   *noise
	builder *batch.Builder
	value   []byte

	requests []request
	free     []uint16
	unsent   []uint16 // built, not handed to the kernel
	over     bool     // what is unanswered has been given up
}

func newProducer(w *worker, l *drive.Link, conn int, lanes []*lane) (*producer, error) {
	c := w.run.load
	sizes, err := c.sizes(conn)
	if err != nil {
		return nil, err
	}
	p := &producer{
		turns: newTurns(w, conn), link: l, conn: conn, lanes: lanes, sizes: sizes, noise: newNoise(c.Seed+uint64(conn), c.Plain), keys: draw.NewKeys(c.Keys, c.KeySkew, c.Seed+uint64(conn)),
		builder: batch.NewBuilder(nil, c.frameBytes()), value: make([]byte, sizes.Max()),
		requests: make([]request, c.Depth), free: make([]uint16, c.Depth), unsent: make([]uint16, 0, c.Depth),
		nextTo: conn % len(lanes),
	}
	for i := range p.free {
		p.free[i] = uint16(c.Depth - 1 - i)
	}
	l.To = p
	return p, nil
}

// idle reports whether everything is answered.
func (p *producer) idle() bool { return len(p.free) == len(p.requests) }

// offer builds what is due at now and hands it over. It returns when there is
// something to build next: far if only an answer can tell.
func (p *producer) offer(now int64) int64 {
	if now < p.w.run.start {
		return p.w.run.start
	}
	next := drive.Far
	for built := 0; p.group < p.groups; {
		intended := now
		if p.due != nil {
			if intended = p.dueAt(); intended > now {
				next = intended
				break
			}
		}
		if intended >= p.w.run.until {
			break
		}
		n := p.build(intended)
		if n == 0 { // an answer, or the end of the send in flight, makes room
			p.hold(now)
			break
		}
		if built += n; built > turnBytes {
			next = now
			break
		}
	}
	p.flush()
	return next
}

// build makes one frame and returns its size in bytes, 0 if there is no room.
func (p *producer) build(intended int64) int {
	run := p.w.run
	dst := p.link.Room(run.frame)
	if dst == nil || len(p.free) == 0 {
		return 0
	}
	ln, key := p.choose()
	slot := p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	r := &p.requests[slot]
	*r = request{lane: ln, first: ln.Sent, count: int64(run.load.BatchMessages), intended: intended, turn: r.turn + 1, busy: true, held: p.passed()}

	start := len(dst)
	req := wire.ProduceRequest{Topic: run.topic.ID, Partition: ln.partition, MinClass: run.load.Class}
	corr := uint32(r.turn)<<16 | uint32(slot)
	dst = p.link.Talk.AppendProduce(dst, corr, &req, 0)
	body := len(dst)
	late := int64(0)
	if run.open && !r.held {
		late = p.w.loop.Clock.Now() - intended
	}
	out := p.fill(dst, ln, key, intended, lateness(late))
	// Now that the batch's size is known, the header is written again.
	p.link.Talk.AppendProduce(out[:start], corr, &req, len(out)-body)
	p.link.Filled(out)
	p.unsent = append(p.unsent, slot)
	return len(out) - start
}

// noKey in place of a key's number: each message has one of its own, or none.
const noKey = -1

// choose says where the next frame goes and, if that depends on it, with which key.
func (p *producer) choose() (ln *lane, key int64) {
	if p.w.run.load.Spread == ByKey {
		n := p.keys.Next()
		// Multiplied, so that neighbours do not go to neighbours.
		return p.lanes[uint64(n*0x9e3779b1)*uint64(len(p.lanes))>>32], int64(n)
	}
	ln = p.lanes[p.nextTo]
	if p.nextTo++; p.nextTo == len(p.lanes) {
		p.nextTo = 0
	}
	return ln, noKey
}

// fill appends a batch of the lane's next messages, to which the client comes late.
func (p *producer) fill(dst []byte, ln *lane, key int64, intended int64, late uint32) []byte {
	run := p.w.run
	p.builder.Reset(dst)
	rec := batch.Record{Timestamp: run.wall + (intended-run.start)/int64(time.Millisecond)}
	for range run.load.BatchMessages {
		rec.Value = p.value[:p.sizes.Next()]
		if key != noKey {
			rec.Key = p.keys.Text(uint32(key))
		} else if p.keys != nil {
			rec.Key = p.keys.Text(p.keys.Next())
		}
		p.noise.write(rec.Value, stamp{run: run.id, lane: ln.id, seq: ln.Sent, time: intended, late: late})
		if p.builder.Append(&rec) != nil {
			invariant.Violated("bench: a batch is within its bound")
		}
		ln.Sent++
	}
	return p.builder.Finish(run.load.Codec)
}

// flush hands what is built to the kernel and notes when.
func (p *producer) flush() {
	if len(p.unsent) == 0 {
		return
	}
	now := p.w.loop.Clock.Now()
	for i := len(p.unsent) - 1; i >= 0 && p.requests[p.unsent[i]].ready == 0; i-- {
		p.requests[p.unsent[i]].ready = now
	}
	if !p.link.Flush() {
		return
	}
	for _, slot := range p.unsent {
		p.requests[slot].sent = now
	}
	p.unsent = p.unsent[:0]
}

// frame takes an answer.
func (p *producer) Frame(_ *drive.Link, h wire.Header, body []byte, now int64) error {
	if p.over {
		return nil
	}
	slot := int(h.Correlation & 0xffff)
	if slot >= len(p.requests) || !p.requests[slot].busy || p.requests[slot].turn != uint16(h.Correlation>>16) {
		return fmt.Errorf("%w: an answer to no request: %s, correlation %#x", ErrBroker, h.Op, h.Correlation)
	}
	r := &p.requests[slot]
	if h.IsError() {
		e, err := wire.DecodeErrorResponse(body)
		if err != nil {
			return err
		}
		return fmt.Errorf("%w: %s: %s %s", ErrBroker, h.Op, e.Code, e.Message)
	}
	a, err := p.link.Talk.Produced(body)
	if err != nil {
		return err
	}
	if a.Code != wire.CodeNone {
		p.refuse(r, a.Code, a.Message)
	} else {
		p.acknowledge(r, &a, now)
	}
	r.busy = false
	p.free = append(p.free, uint16(slot))
	return nil
}

func (p *producer) acknowledge(r *request, a *wire.ProduceResponse, now int64) {
	ln := r.lane
	ln.Acked += r.count
	for i := range r.count {
		ln.Offsets += ledger.Fold(r.first+uint64(i), a.BaseOffset+i)
	}
	p.w.acked(r, now)
}

// refuse notes that a request's messages are not, or perhaps not, in the log.
func (p *producer) refuse(r *request, code wire.Code, message string) {
	r.lane.Refuse(ledger.Span{First: r.first, End: r.first + uint64(r.count)})
	p.w.refused(r.count, code, message)
}

// abandon counts what is still unanswered as refused and sends no more.
func (p *producer) abandon() {
	p.over, p.groups = true, p.group
	for i := range p.requests {
		if r := &p.requests[i]; r.busy {
			p.refuse(r, wire.CodeInternal, "no answer")
		}
	}
}
