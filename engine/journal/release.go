package journal

import "github.com/mqd-broker/mqd/engine/aio"

// phase is how far a release has come.
type phase uint8

const (
	releaseNone phase = iota
	releaseWriting
	releaseWritten // waits for a flush, or is being flushed
)

// releaser moves the head and the limit. A new anchor goes to the block that does not hold the
// present one; only when it is durable is the ring before the new head free.
type releaser struct {
	j        *Journal
	op       aio.Op
	buf      []byte
	phase    phase
	block    int64  // where the next anchor goes
	wanted   uint64 // by Release
	asked    uint64 // what the newest anchor was made for
	released uint64 // newest round below the head of a durable anchor
	madeRoom bool   // since the last report
	anchor   Anchor
}

// Complete is called when the anchor's write has ended.
func (r *releaser) Complete(op *aio.Op) { r.j.anchorWrote(op) }

// Release says that a durable checkpoint holds everything in rounds up to lsn, so
// that recovery does not need them. It takes effect when the new anchor is durable;
// then JournalProgress is called. lsn is cut to WrittenLSN.
func (j *Journal) Release(lsn uint64) {
	r := &j.releaser
	r.wanted = max(r.wanted, min(lsn, j.flight.written))
	j.startRelease()
}

// Released is the newest round that has been released.
func (j *Journal) Released() uint64 { return j.releaser.released }

func (j *Journal) startRelease() {
	r := &j.releaser
	if r.phase != releaseNone || r.wanted <= r.asked && !j.limitDue() || j.state == failed {
		return
	}
	r.asked = max(r.asked, r.wanted)
	head := j.head(r.asked)
	r.anchor = j.identity
	a := &r.anchor
	a.Sequence++
	a.HeadLSN, a.HeadPos, a.HeadPrevLSN, a.HeadPrevCRC = head.lsn, head.pos, head.prevLSN, head.prevCRC
	a.FlushedLSN = j.flight.flushed
	a.Limit = j.limit(a.HeadPos)
	a.Encode(r.buf)
	r.phase = releaseWriting
	var how aio.Flags
	if j.opts.Method == MethodDSYNC {
		how = aio.FlagDSYNC
	}
	j.stats.Anchors++
	j.region.Write(&r.op, r.buf, r.block, how)
}

// head is the oldest round above lsn, which has been written. With no such round
// submitted, it is where the next one will be.
func (j *Journal) head(lsn uint64) live {
	if i := j.live.after(lsn); i < j.live.n {
		return *j.live.at(i)
	}
	h := live{lsn: j.lastLSN + 1, pos: j.tail, prevLSN: j.lastLSN, prevCRC: j.lastCRC}
	next := j.closed.peek()
	if next == nil {
		next = j.filling
	}
	if next != nil {
		h.pos = next.pos
		if next.wrapped {
			h.pos = j.wrap.pos
		}
	}
	return h
}

func (j *Journal) anchorWrote(op *aio.Op) {
	r := &j.releaser
	if op.Err != nil {
		j.writeFailed(op, 0, op.Flags&aio.FlagDSYNC != 0)
	}
	if j.state == failed {
		return
	}
	if op.Flags&aio.FlagDSYNC != 0 {
		j.anchorDurable()
	} else {
		r.phase = releaseWritten
		j.startFlush()
	}
	j.report()
}

// anchorDurable frees the ring before the new head.
func (j *Journal) anchorDurable() {
	r := &j.releaser
	r.phase = releaseNone
	r.block = otherBlock(r.block)
	r.released = r.anchor.HeadPrevLSN
	r.madeRoom = true
	j.identity = r.anchor
	j.mark.anchors = r.anchor.FlushedLSN
	j.live.drop(j.live.after(r.released))
	// The tail moves on while the anchor is written, so what is in use is
	// counted from the new head.
	j.used = j.ring.distance(r.anchor.HeadPos, j.tail)
	j.allow(&r.anchor)
	j.startRelease()
}
