package journal

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/mqd-broker/mqd/engine/aio"
)

// Identity is what a new journal is told of itself.
type Identity struct {
	// UUID tells the journal's rounds from everything else that may lie in the
	// region. Zero: a random one.
	UUID  [16]byte
	Shard uint32
	// Created is the present time, Unix nanoseconds.
	Created int64
}

// Create makes a region a journal: it writes both anchors and flushes them. What
// was in it before is given up. A crash leaves no journal, or this one. It blocks,
// for start-up.
func Create(d aio.Driver, r Region, id Identity) error {
	if err := checkRegion(r); err != nil {
		return err
	}
	a := Anchor{
		UUID: id.UUID, Shard: id.Shard, Created: id.Created, Size: r.Size() &^ (BlockSize - 1),
		HeadLSN: 1, HeadPos: RingStart, StartLSN: 1,
	}
	if zero(a.UUID[:]) {
		binary.BigEndian.PutUint64(a.UUID[:], d.Rand())
		binary.BigEndian.PutUint64(a.UUID[8:], d.Rand())
	}
	buf, err := d.Alloc(BlockSize)
	if err != nil {
		return fmt.Errorf("journal: create: %w", err)
	}
	clear(buf)
	// An anchor of what was here before must not outlive the first new one.
	for block := int64(0); block < anchorCount; block++ {
		if err := writeRegion(d, r, buf, block*BlockSize, 0); err != nil {
			return err
		}
	}
	if err := flushRegion(d, r); err != nil {
		return err
	}
	return writeAnchors(d, r, buf, &a, 0)
}

// writeAnchors writes a into both blocks, each flushed before the next, so that at
// every moment one is intact, and so that no single damaged block brings back an
// earlier life. block is the one to begin with.
func writeAnchors(d aio.Driver, r Region, buf []byte, a *Anchor, block int64) error {
	for range anchorCount {
		a.Sequence++
		a.Encode(buf)
		if err := writeRegion(d, r, buf, block, 0); err != nil {
			return err
		}
		if err := flushRegion(d, r); err != nil {
			return err
		}
		block = otherBlock(block)
	}
	return nil
}

// otherBlock is the block of the other anchor.
func otherBlock(block int64) int64 { return BlockSize - block }

// checkRegion holds a region against what the format can use.
func checkRegion(r Region) error {
	if r.Size() < MinRegion {
		return fmt.Errorf("journal: expected at least %d bytes, found %d: %w", MinRegion, r.Size(), ErrRegion)
	}
	if b := r.BlockSize(); b <= 0 || BlockSize%b != 0 {
		return fmt.Errorf("journal: expected a block size that divides %d, found %d: %w", BlockSize, b, ErrRegion)
	}
	return nil
}

// Open begins a new life of a journal that has been replayed. What replay found is
// made durable, then the new incarnation is, in both anchors; the first round gets
// an LSN above all that were seen. A crash on the way leaves a journal that
// replays as this one did. It blocks, for start-up; nothing else may use the
// region, and res must be what a Scan found after the last write to it.
func Open(d aio.Driver, r Region, res *Result, o Options) (*Journal, error) {
	rg := ring{end: res.Anchor.Size}
	o = o.withDefaults(rg)
	if !o.valid(rg) {
		return nil, fmt.Errorf("journal: options %+v do not fit a region of %d bytes: %w", o, rg.end, ErrRegion)
	}
	j := &Journal{
		region: r, ring: rg, opts: o,
		nextLSN: res.NextLSN, tail: res.NextPos, lastLSN: res.LastLSN, lastCRC: res.lastCRC,
		appendTime: res.AppendTime, live: newLiveQueue(rg),
	}
	if err := j.allocate(d); err != nil {
		return nil, fmt.Errorf("journal: open: %w", err)
	}
	// What completed writes of an earlier process left in the device's cache
	// must not vanish after it has been built upon.
	if err := flushRegion(d, r); err != nil {
		return nil, o.openFailed(err)
	}
	j.adopt(res)
	if err := writeAnchors(d, r, j.releaser.buf, &j.identity, res.otherBlock); err != nil {
		return nil, o.openFailed(err)
	}
	j.releaser.anchor = j.identity
	return j, nil
}

// openFailed notes a failed flush.
func (o *Options) openFailed(err error) error {
	if errors.Is(err, ErrDeviceFailed) {
		o.DeviceFailed.Store(true)
	}
	return err
}

// allocate takes the journal's memory from the driver.
func (j *Journal) allocate(d aio.Driver) error {
	o := &j.opts
	most := min(o.RoundBytes/4, MaxTable) / EntrySize
	j.free = make([]*slot, 0, o.Rounds)
	for range o.Rounds {
		s, err := newSlot(j, d, most, o.RoundBytes)
		if err != nil {
			return err
		}
		j.free = append(j.free, s)
	}
	var err error
	if j.wrap, err = newSlot(j, d, 1, 0); err != nil {
		return err
	}
	if roundSize(1, o.MaxBody) > o.RoundBytes {
		if j.big, err = newSlot(j, d, 1, o.MaxBody); err != nil {
			return err
		}
	}
	if j.releaser.buf, err = d.Alloc(BlockSize); err != nil {
		return err
	}
	j.closed.ring = make([]*slot, o.Rounds+1)
	j.flight.ring = make([]flying, 2*maxInFlight+2)
	j.flush.j, j.flush.op.Owner = j, &j.flush
	j.releaser.j, j.releaser.op.Owner = j, &j.releaser
	return nil
}

// adopt takes over what replay found.
func (j *Journal) adopt(res *Result) {
	j.identity = res.Anchor
	a := &j.identity
	a.Incarnation = res.incarnation + 1
	a.HeadLSN, a.HeadPos, a.HeadPrevLSN, a.HeadPrevCRC = res.head.lsn, res.head.pos, res.head.prevLSN, res.head.prevCRC
	a.FlushedLSN, a.ResumeLSN, a.StartLSN = res.LastLSN, res.LastLSN, res.NextLSN
	for _, l := range res.rounds {
		j.live.push(l)
	}
	j.used = j.ring.distance(a.HeadPos, j.tail)
	a.Limit = j.limit(a.HeadPos)
	j.allow(a)
	j.flight.written, j.flight.flushed = res.LastLSN, res.LastLSN
	j.reportedWritten, j.reportedFlushed = res.LastLSN, res.LastLSN
	r := &j.releaser
	r.released, r.asked, r.wanted = a.HeadPrevLSN, a.HeadPrevLSN, a.HeadPrevLSN
	// Both anchors are written, so the next one goes where the first of them
	// went.
	r.block = res.otherBlock
}
