package journal

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// lives holds, per incarnation, the last round that it took over from earlier ones.
type lives []struct{ incarnation, resume uint64 }

func (l *lives) add(incarnation, resume uint64) {
	for _, e := range *l {
		if e.incarnation == incarnation {
			return
		}
	}
	*l = append(*l, struct{ incarnation, resume uint64 }{incarnation, resume})
}

// ghost reports whether a later life has dropped h.
func (l lives) ghost(h *Header) bool {
	for _, e := range l {
		if e.incarnation > h.Incarnation && h.LSN > e.resume {
			return true
		}
	}
	return false
}

// first reports whether h is the first round of its life.
func (h *Header) first() bool { return h.LSN == h.StartLSN }

// search finds the intact headers in the ring behind the break and learns from them. It
// looks as far as rounds can lie, and at each place once a replay.
func (w *walk) search() error {
	from := max(w.walked, w.searched)
	for to := w.reach(); from < to; to = w.reach() {
		if err := w.look(w.ring.after(w.res.Anchor.HeadPos, from), to-from); err != nil {
			return err
		}
		from, w.searched = to, to
	}
	slices.SortStableFunc(w.found, func(a, b Header) int { return cmp.Compare(a.LSN, b.LSN) })
	return nil
}

// reach is the number of bytes from the head on among which there may be rounds: those
// up to the limit of the anchor, or all where there is any doubt that it is the newest.
func (w *walk) reach() int64 {
	a := &w.res.Anchor
	reach := w.ring.distance(a.HeadPos, a.Limit)
	if a.Limit == 0 || w.walked > reach || w.doubtful(reach) {
		return w.ring.size()
	}
	return reach
}

// doubtful reports whether there may have been a newer anchor than the one that counts:
// the other one is damaged, a round knows or shows it, or the device does not read.
func (w *walk) doubtful(reach int64) bool {
	a := &w.res.Anchor
	if w.res.AnchorFlaw != nil || w.win.bad > 0 || w.checkpoint > a.HeadPrevLSN || w.res.incarnation > a.Incarnation {
		return true
	}
	return slices.ContainsFunc(w.found, func(h Header) bool {
		return !w.lives.ghost(&h) && w.ring.distance(a.HeadPos, h.Pos)+int64(h.Total) > reach
	})
}

// look finds the intact headers in the n bytes of the ring from pos on, and learns from
// them.
func (w *walk) look(pos, n int64) error {
	known := len(w.found)
	for left := n; left > 0; left -= BlockSize {
		b, err := w.win.bytes(pos, HeaderSize)
		if err != nil {
			return err
		}
		// Most blocks are bodies or older laps: look twice before verifying.
		if binary.BigEndian.Uint32(b) == roundMagic && binary.BigEndian.Uint64(b[offLSN:]) > w.cur.lsn {
			h, flaw, err := w.header(pos)
			if err != nil {
				return err
			}
			if flaw == nil {
				w.found = append(w.found, h)
			}
		}
		pos = w.ring.wrap(pos + BlockSize)
	}
	for i := range w.found[known:] {
		w.learn(&w.found[known+i])
	}
	return nil
}

// behind returns the found rounds above the end of the chain that no later life has
// dropped.
func (w *walk) behind() []Header {
	w.found = slices.DeleteFunc(w.found, func(h Header) bool {
		return h.LSN <= w.cur.lsn || w.lives.ghost(&h)
	})
	return w.found
}

// resync decides what a break of the chain is, and goes on behind damage. h is what
// stands at the break, with what is wrong with it.
func (w *walk) resync(h *Header, flaw error) (again bool, err error) {
	if err := w.search(); err != nil {
		return false, err
	}
	behind := w.behind()
	if w.proven <= w.cur.lsn {
		w.drop(h, flaw)
		return false, nil
	}
	// Everything up to proven was durable, so the break is damage.
	for _, c := range behind {
		if c.PrevLSN >= w.cur.lsn && c.PrevLSN <= w.proven {
			w.skip(&c, flaw)
			done, err := w.take(&c)
			return !done, err
		}
	}
	w.lost(behind, flaw)
	return false, nil
}

// skip moves the end of the chain over damage to just before c.
func (w *walk) skip(c *Header, flaw error) {
	w.walked += w.ring.distance(w.cur.pos, c.Pos)
	w.missing(c.PrevLSN, c.Pos, flaw)
	w.cur = link{lsn: c.PrevLSN, crc: c.PrevCRC, pos: c.Pos}
}

// missing reports the rounds from the end of the chain up to last as damage, except
// those that a checkpoint has released. When that is all of them, there is no damage
// and it returns false: a newer anchor, which cannot be read any more, had moved the
// head behind them.
func (w *walk) missing(last uint64, end int64, flaw error) bool {
	if last <= w.checkpoint {
		w.res.AnchorStale = true
		w.walked = 0
		return false
	}
	d := &Damage{Kind: DamageRound, FirstLSN: max(w.cur.lsn, w.checkpoint) + 1, LastLSN: last, Pos: w.cur.pos, End: end, Reason: flaw}
	if d.FirstLSN > d.LastLSN {
		d.FirstLSN, d.LastLSN = 0, 0
	}
	w.res.Damages = append(w.res.Damages, d)
	return true
}

// lost ends the chain with damage behind which nothing can be trusted. The next
// life begins behind the damage, so that it stays for whoever wants to look at
// it: where rounds lie that are dropped, or else, since the size of what was there
// is not known, an eighth of the ring further on, the most that a round takes.
func (w *walk) lost(behind []Header, flaw error) {
	w.res.Ending = EndClean
	if w.missing(w.proven, 0, flaw) {
		w.res.Ending = EndDamaged
	}
	next := w.cur.pos + min(blocks(w.ring.size()/8), (w.ring.size()-w.walked)/2&^(BlockSize-1))
	if len(behind) > 0 {
		next = behind[0].Pos
		w.res.Ending = max(w.res.Ending, EndTorn)
		w.res.Dropped = Drop{FirstLSN: behind[0].LSN, LastLSN: behind[len(behind)-1].LSN, Pos: next, Reason: flaw}
	}
	if next >= w.ring.end {
		next = RingStart
	}
	w.cur = link{lsn: w.proven, pos: next}
}

// drop ends the chain before a torn tail, or before nothing at all: h is what stands
// there.
func (w *walk) drop(h *Header, flaw error) {
	behind := w.behind()
	last := w.cur.lsn
	if w.remains(h) {
		last = max(last+1, h.LSN)
	}
	if len(behind) > 0 {
		last = behind[len(behind)-1].LSN
	}
	if last == w.cur.lsn {
		w.res.Ending = EndClean
		return
	}
	w.res.Ending = EndTorn
	w.res.Dropped = Drop{FirstLSN: w.cur.lsn + 1, LastLSN: last, Pos: w.cur.pos, Reason: flaw}
}

// remains reports whether h, intact or not, is what is left of a round that would
// continue the chain. What is lost in it may have been acknowledged without a flush, so
// a wrong field must not make it nothing at all: of what ties it to its place all but
// one must fit, which nothing of an earlier lap or of another journal does.
func (w *walk) remains(h *Header) bool {
	c, a := &w.cur, &w.res.Anchor
	fits, ours := 0, h.UUID == a.UUID
	for _, ok := range [...]bool{ours, h.PrevLSN == c.lsn, h.PrevCRC == c.crc, h.Pos == c.pos} {
		if ok {
			fits++
		}
	}
	// A ghost's are the numbers of another life. The first rounds of all journals, and
	// blocks of zeros, have nothing before them.
	ghost := w.lives.ghost(h) && (h.StartLSN != a.StartLSN || h.ResumeLSN != a.ResumeLSN)
	return fits >= 3 && !ghost && (ours || c.crc != 0)
}

// moveHead makes up for a stale anchor: the head goes to the oldest round that no
// checkpoint has released, as far as a header knows.
func (w *walk) moveHead() {
	r := w.res
	keep := slices.IndexFunc(r.rounds, func(l live) bool { return l.lsn > w.checkpoint })
	if keep < 0 {
		r.rounds, r.head = nil, live{lsn: w.cur.lsn + 1, pos: w.cur.pos, prevLSN: w.cur.lsn, prevCRC: w.cur.crc}
		return
	}
	r.rounds = r.rounds[keep:]
	r.head = r.rounds[0]
}

// finish fills in the rest of the result.
func (w *walk) finish() {
	r := w.res
	if r.AnchorStale {
		w.moveHead()
	}
	r.HeadLSN, r.LastLSN, r.lastCRC = r.head.lsn, w.cur.lsn, w.cur.crc
	r.NextPos, r.NextLSN = w.cur.pos, max(w.top, w.proven, w.cur.lsn)+1
	r.ProvenLSN = w.proven
	r.Unreadable = w.win.bad
}
