package journal

import (
	"errors"
	"fmt"

	"github.com/mqd-broker/mqd/engine/aio"
)

// Visitor receives the entries of intact rounds, in order; body is valid during the
// call only. An error ends the scan and is returned.
type Visitor func(r *Header, e *Entry, body []byte) error

// Scan replays the journal in region: see Scanner.Scan. It takes 1 MiB from the
// driver's arena; a Scanner does so once for several scans.
func Scan(d aio.Driver, region Region, visit Visitor) (*Result, error) {
	s, err := NewScanner(d)
	if err != nil {
		return nil, err
	}
	return s.Scan(region, visit)
}

// Scanner replays journals. It changes nothing.
//
// Replay follows the chain from the anchor's head: the next round lies where the
// one before ends, names that round by LSN and header checksum, and belongs to the
// same incarnation or is the first of a later one. Where the chain breaks, the rest
// of the ring is searched for rounds that lie behind the break. Each carries the
// flushed watermark of its time, and that decides:
//
//   - The broken round is above every watermark: nobody was promised that it
//     survives. It is the torn tail of a crash, and it and all behind it are
//     dropped.
//   - It is at or below one: it was durable, and this is corruption. It is
//     reported, and the chain goes on at the first round behind it of which
//     everything missing before it was durable too.
//
// Old rounds that lie behind the break are told from new ones by what later lives
// say: each names the last round that it took over, and whatever earlier lives had
// above that number has been dropped before.
type Scanner struct {
	// OnRound, if set, is called for every intact header in the chain before
	// its entries are visited.
	OnRound func(h *Header)

	win window
}

// NewScanner returns a Scanner that reads through d.
func NewScanner(d aio.Driver) (*Scanner, error) {
	win, err := newWindow(d)
	if err != nil {
		return nil, fmt.Errorf("journal: scan: %w", err)
	}
	return &Scanner{win: win}, nil
}

// ReadAnchors reads both anchors. An error of one of them is not an error of the
// other; see DecodeAnchor.
func (s *Scanner) ReadAnchors(region Region) (anchors [anchorCount]Anchor, flaws [anchorCount]error) {
	for i := range anchors {
		b := s.win.buf[:BlockSize]
		if err := readRegion(s.win.d, region, b, int64(i)*BlockSize); err != nil {
			flaws[i] = fmt.Errorf("journal: anchor %d: %w", i, errors.Join(ErrAnchor, err))
		} else if anchors[i], err = DecodeAnchor(b); err != nil {
			flaws[i] = fmt.Errorf("journal: %w", err)
		}
	}
	return anchors, flaws
}

// Scan replays the journal in region and hands every entry to visit, which may be
// nil. It blocks, for start-up and tools. Damage and torn tails are in the result;
// errors are: ErrNotJournal, ErrAnchor, ErrVersion (with KindError for an entry
// that must be known), ErrRegion, ErrUnreadable, and those of visit.
func (s *Scanner) Scan(region Region, visit Visitor) (*Result, error) {
	if err := checkRegion(region); err != nil {
		return nil, err
	}
	res := &Result{}
	if err := s.anchor(region, res); err != nil {
		return nil, err
	}
	a := &res.Anchor
	if a.Size > region.Size() {
		return nil, fmt.Errorf("journal: expected %d bytes, found %d: %w", a.Size, region.Size(), ErrRegion)
	}
	s.win.open(region, a.Size)
	s.win.bad = 0
	w := &walk{
		s: s, win: &s.win, ring: ring{end: a.Size}, res: res, visit: visit,
		cur:    link{lsn: a.HeadPrevLSN, crc: a.HeadPrevCRC, pos: a.HeadPos},
		proven: a.FlushedLSN, top: max(a.FlushedLSN, a.StartLSN-1),
	}
	res.incarnation = a.Incarnation
	res.head = live{lsn: a.HeadLSN, pos: a.HeadPos, prevLSN: a.HeadPrevLSN, prevCRC: a.HeadPrevCRC}
	w.lives.add(a.Incarnation, a.ResumeLSN)
	if err := first(w.run(), s.win.settle()); err != nil {
		return nil, err
	}
	w.finish()
	return res, nil
}

// anchor picks the anchor that counts.
func (s *Scanner) anchor(region Region, res *Result) error {
	anchors, flaws := s.ReadAnchors(region)
	best := -1
	for i := range anchors {
		if errors.Is(flaws[i], ErrVersion) {
			return flaws[i]
		}
		if flaws[i] == nil && (best < 0 || anchors[i].Sequence > anchors[best].Sequence) {
			best = i
		}
	}
	if best < 0 {
		if errors.Is(flaws[0], ErrNotJournal) && errors.Is(flaws[1], ErrNotJournal) {
			return flaws[0]
		}
		return fmt.Errorf("journal: both anchors: %w", errors.Join(ErrAnchor, flaws[0], flaws[1]))
	}
	res.Anchor, res.AnchorFlaw = anchors[best], flaws[1-best]
	res.otherBlock = otherBlock(int64(best) * BlockSize)
	return nil
}

// link is what the next round must continue.
type link struct {
	lsn         uint64
	crc         uint32
	incarnation uint64 // 0: not known
	pos         int64
}

// walk is one replay.
type walk struct {
	s     *Scanner
	win   *window
	ring  ring
	res   *Result
	visit Visitor

	cur        link
	walked     int64  // bytes of the ring from the head to cur.pos
	proven     uint64 // newest round known to have been durable
	checkpoint uint64 // newest round that a header knows to be released
	top        uint64 // greatest LSN seen
	lives      lives
	searched   int64    // bytes from the anchor's head on that are behind the search
	found      []Header // by it, in order of LSN
	broken     []int    // entries of the present round whose bodies are damaged
	entries    []Entry  // of the present round
}

// Revisit hands the entries that a Scan of region has found to another visitor,
// without searching again. Nothing may have been written since.
func (s *Scanner) Revisit(region Region, res *Result, visit Visitor) error {
	return s.RevisitFrom(region, res, 0, visit)
}

// RevisitFrom is Revisit for the rounds from LSN from on.
func (s *Scanner) RevisitFrom(region Region, res *Result, from uint64, visit Visitor) error {
	a := &res.Anchor
	s.win.open(region, a.Size)
	w := &walk{s: s, win: &s.win, ring: ring{end: a.Size}, res: &Result{Anchor: *a}, visit: visit}
	return first(w.revisit(res, from), s.win.settle())
}

func (w *walk) revisit(res *Result, from uint64) error {
	for _, l := range res.rounds {
		if l.lsn < from {
			continue
		}
		h, flaw, err := w.header(l.pos)
		if err = first(err, flaw); err != nil {
			return err
		}
		raw, err := w.win.bytes(h.Pos, int(h.Total))
		if err != nil {
			return err
		}
		if err := w.decode(&h, raw); err != nil {
			return err
		}
		_ = w.checkBodies(&h, raw) // noted in w.broken
		if err := w.deliver(&h, raw); err != nil {
			return err
		}
	}
	return nil
}

// run follows the chain to its end.
func (w *walk) run() error {
	for w.walked < w.ring.size() {
		h, flaw, err := w.header(w.cur.pos)
		if err != nil {
			return err
		}
		if flaw == nil {
			flaw = w.follows(&h)
		}
		if flaw != nil {
			again, err := w.resync(&h, flaw)
			if err != nil || !again {
				return err
			}
			continue
		}
		if done, err := w.take(&h); err != nil || done {
			return err
		}
	}
	w.res.Ending = EndClean
	return nil
}

// header reads the header and table at pos. flaw says why it is none.
func (w *walk) header(pos int64) (h Header, flaw, err error) {
	b, err := w.win.bytes(pos, HeaderSize)
	if err != nil {
		return h, nil, err
	}
	h, flaw = DecodeHeader(b)
	switch {
	case flaw != nil:
		return h, flaw, nil
	case h.UUID != w.res.Anchor.UUID:
		return h, fmt.Errorf("round of journal %x, expected %x: %w", h.UUID, w.res.Anchor.UUID, ErrInvalid), nil
	case pos+int64(h.Total) > w.ring.end:
		return h, fmt.Errorf("round %d of %d bytes at %d passes the end of the ring: %w", h.LSN, h.Total, pos, ErrInvalid), nil
	}
	if b, err = w.win.bytes(pos, h.Size()); err != nil {
		return h, nil, err
	}
	if found, ok := h.VerifyHeader(b); !ok {
		return h, fmt.Errorf("header of round %d: expected %#08x, found %#08x: %w", h.LSN, h.CRC, found, ErrChecksum), nil
	}
	if h.Pos != pos {
		return h, fmt.Errorf("round %d belongs at %d, found at %d (misdirected write): %w", h.LSN, h.Pos, pos, ErrInvalid), nil
	}
	return h, nil, nil
}

// follows returns why an intact round does not continue the chain, nil if it does.
func (w *walk) follows(h *Header) error {
	c := &w.cur
	switch {
	case h.PrevLSN != c.lsn:
		return fmt.Errorf("expected a round after %d, found round %d after %d: %w", c.lsn, h.LSN, h.PrevLSN, ErrInvalid)
	case h.PrevCRC != c.crc:
		return fmt.Errorf("round %d: checksum of the header before: expected %#08x, found %#08x: %w", h.LSN, c.crc, h.PrevCRC, ErrInvalid)
	case c.incarnation != 0 && h.first() != (h.Incarnation > c.incarnation),
		h.Incarnation < c.incarnation, w.lives.ghost(h):
		return fmt.Errorf("round %d of incarnation %d cannot follow incarnation %d: %w", h.LSN, h.Incarnation, c.incarnation, ErrInvalid)
	}
	return nil
}

// take accepts a round that continues the chain, or ends the chain before it.
func (w *walk) take(h *Header) (done bool, err error) {
	raw, err := w.win.bytes(h.Pos, int(h.Total))
	if err != nil {
		return true, err
	}
	if err := w.decode(h, raw); err != nil {
		return true, err
	}
	flaw := w.checkBodies(h, raw)
	w.learn(h)
	if flaw != nil && h.LSN > w.proven {
		if err := w.search(); err != nil {
			return true, err
		}
		if h.LSN > w.proven {
			w.drop(h, flaw)
			return true, nil
		}
		// The search moved the window.
		if raw, err = w.win.bytes(h.Pos, int(h.Total)); err != nil {
			return true, err
		}
	}
	if err := w.deliver(h, raw); err != nil {
		return true, err
	}
	w.accept(h)
	return false, nil
}

// decode reads the entry table. It is under the header's checksum, so a table that
// does not hold together is no damage but the work of another program.
func (w *walk) decode(h *Header, raw []byte) error {
	w.entries = w.entries[:0]
	sum := uint64(0)
	for i := range int(h.Entries) {
		e, err := DecodeEntry(raw[HeaderSize+i*EntrySize:])
		if err != nil {
			return fmt.Errorf("journal: round %d at %d, entry %d: %w", h.LSN, h.Pos, i, err)
		}
		if !e.Kind.known() && e.Flags&FlagRequired != 0 {
			return &KindError{UUID: h.UUID, LSN: h.LSN, Kind: e.Kind}
		}
		sum += uint64(e.Length)
		w.entries = append(w.entries, e)
	}
	if sum != uint64(h.BodyBytes) {
		return fmt.Errorf("journal: round %d at %d: expected %d bytes of bodies, entries have %d: %w", h.LSN, h.Pos, h.BodyBytes, sum, ErrInvalid)
	}
	return nil
}

// checkBodies notes the entries whose bodies are damaged and returns what is wrong
// with the first.
func (w *walk) checkBodies(h *Header, raw []byte) (flaw error) {
	w.broken = w.broken[:0]
	at := int(h.BodiesOffset)
	for i := range w.entries {
		e := &w.entries[i]
		if _, _, ok := CheckBody(e, raw[at:at+int(e.Length)]); !ok {
			w.broken = append(w.broken, i)
			flaw = first(flaw, bodyFlaw(e, raw[at:at+int(e.Length)]))
		}
		at += int(e.Length)
	}
	return flaw
}

func bodyFlaw(e *Entry, body []byte) error {
	expected, found, _ := CheckBody(e, body)
	if expected == found {
		return fmt.Errorf("the first %d bytes differ from their copy in the entry: %w", PrefixSize, ErrChecksum)
	}
	return fmt.Errorf("expected %#08x, found %#08x: %w", expected, found, ErrChecksum)
}

// deliver hands out the entries, and reports those that are damaged.
func (w *walk) deliver(h *Header, raw []byte) error {
	if w.s.OnRound != nil {
		w.s.OnRound(h)
	}
	at, broken := int(h.BodiesOffset), w.broken
	for i := range w.entries {
		e := &w.entries[i]
		body := raw[at : at+int(e.Length) : at+int(e.Length)]
		at += int(e.Length)
		switch {
		case len(broken) > 0 && broken[0] == i:
			broken = broken[1:]
			w.res.Damages = append(w.res.Damages, &Damage{
				Kind: DamageBody, FirstLSN: h.LSN, LastLSN: h.LSN, Pos: h.Pos, End: h.Pos + int64(h.Total),
				Entry: *e, Reason: bodyFlaw(e, body),
			})
			continue
		case !e.Kind.known():
			w.res.Unknown++
			continue
		case e.Kind.internal():
			continue
		}
		w.res.Entries++
		w.res.Bytes += uint64(e.Length)
		if w.visit != nil {
			if err := w.visit(h, e, body); err != nil {
				return err
			}
		}
	}
	return nil
}

// accept moves the end of the chain behind a round.
func (w *walk) accept(h *Header) {
	w.res.Rounds++
	w.res.AppendTime = max(w.res.AppendTime, h.AppendTime)
	w.res.rounds = append(w.res.rounds, live{lsn: h.LSN, pos: h.Pos, prevLSN: h.PrevLSN, prevCRC: h.PrevCRC})
	next := w.ring.wrap(h.Pos + int64(h.Total))
	w.walked += int64(h.Total)
	if w.entries[0].Kind == KindWrap {
		w.walked += w.ring.end - h.Pos - int64(h.Total)
		next = RingStart
	}
	w.cur = link{lsn: h.LSN, crc: h.CRC, incarnation: h.Incarnation, pos: next}
}

// learn takes what an intact header tells of others.
func (w *walk) learn(h *Header) {
	w.proven = max(w.proven, h.FlushedLSN, h.CheckpointLSN)
	w.checkpoint = max(w.checkpoint, h.CheckpointLSN)
	w.top = max(w.top, h.LSN)
	w.res.incarnation = max(w.res.incarnation, h.Incarnation)
	w.lives.add(h.Incarnation, h.ResumeLSN)
}
