package inspect

import (
	"fmt"

	"github.com/mqd-broker/mqd/engine/journal"
)

// kindNames are the kinds of entries.
var kindNames = map[journal.Kind]string{
	journal.KindBatch: "batch", journal.KindTail: "tail", journal.KindMark: "mark",
	journal.KindWrap: "wrap", journal.KindCheckpoint: "checkpoint",
}

// ring is a journal that is being shown.
type ring struct {
	*content
	anchor journal.Anchor
	end    int64 // of the ring in the file
	pos    int64 // where the next round should be
	left   int64 // bytes of the ring that have not been looked at
	lsn    uint64
	crc    uint32
	buf    []byte
	body   []byte
}

// journal shows the anchors and then the rounds, from the head of the newest anchor on.
func (c *content) journal() {
	g := &ring{content: c}
	found := false
	for i := range int64(2) {
		b, ok := c.bytes(g.buf, i*journal.BlockSize, journal.BlockSize)
		if g.buf = b; !ok {
			c.damage(1, i*journal.BlockSize, "the anchor is cut off or cannot be read")
			continue
		}
		a, err := journal.DecodeAnchor(b)
		if err != nil {
			c.damage(1, i*journal.BlockSize, err.Error())
			continue
		}
		c.showAnchor(i, &a)
		if !found || a.Sequence > g.anchor.Sequence {
			g.anchor, found = a, true
		}
	}
	if !found {
		c.item(1, "end").text("reason", "no anchor can be read, so nobody knows where the rounds begin")
		return
	}
	a := &g.anchor
	g.end = min(a.Size, c.size) &^ (journal.BlockSize - 1)
	if a.Size > c.size {
		c.damage(1, c.size, fmt.Sprintf("expected a region of %d bytes, found %d", a.Size, c.size))
	}
	if a.HeadPos >= g.end {
		c.item(1, "end").num("position", a.HeadPos).text("reason", "the file ends before the head")
		return
	}
	g.pos, g.left, g.lsn, g.crc = a.HeadPos, g.end-journal.RingStart, a.HeadPrevLSN, a.HeadPrevCRC
	g.walk()
}

func (c *content) showAnchor(i int64, a *journal.Anchor) {
	c.item(1, "anchor").num("number", i).id("uuid", a.UUID[:]).count("sequence", a.Sequence).num("shard", int64(a.Shard)).
		count("incarnation", a.Incarnation).count("head_lsn", a.HeadLSN).num("head_position", a.HeadPos).
		count("flushed_lsn", a.FlushedLSN).count("resume_lsn", a.ResumeLSN).count("start_lsn", a.StartLSN).
		num("size", a.Size).num("limit", a.Limit).nanos("created", a.Created)
}

// walk goes over the rounds. Where one does not follow, it goes on at the next that can be
// read and is newer.
func (g *ring) walk() {
	for g.left > 0 && !g.ended() {
		h, flaw := g.header(g.pos)
		if flaw == "" {
			flaw = g.follows(&h)
		}
		if flaw == "" {
			g.round(&h)
			continue
		}
		from := g.pos
		if !g.search() {
			g.item(1, "end").num("position", from).count("last_lsn", g.lsn).text("reason", flaw)
			return
		}
		// Damage, or a torn tail with what an earlier life left behind it.
		g.item(1, "break").num("position", from).text("reason", flaw).num("next_position", g.pos)
	}
	if !g.ended() {
		g.item(1, "end").num("position", g.pos).count("last_lsn", g.lsn).text("reason", "the ring is full")
	}
}

// header reads the header and the table at pos; flaw says why it is none.
func (g *ring) header(pos int64) (h journal.Header, flaw string) {
	b, ok := g.bytes(g.buf, pos, journal.HeaderSize)
	if g.buf = b; !ok {
		return h, "the file ends, or cannot be read"
	}
	h, err := journal.DecodeHeader(b)
	switch {
	case err != nil:
		return h, err.Error()
	case h.UUID != g.anchor.UUID:
		return h, fmt.Sprintf("a round of journal %x", h.UUID)
	case pos+int64(h.Total) > g.end:
		return h, fmt.Sprintf("round %d of %d bytes passes the end of the ring", h.LSN, h.Total)
	}
	if g.buf, ok = g.bytes(g.buf, pos, h.Size()); !ok {
		return h, "the file ends, or cannot be read"
	}
	if found, ok := h.VerifyHeader(g.buf); !ok {
		return h, fmt.Sprintf("header of round %d: expected checksum %08x, found %08x", h.LSN, h.CRC, found)
	}
	if h.Pos != pos {
		return h, fmt.Sprintf("round %d belongs at %d", h.LSN, h.Pos)
	}
	return h, ""
}

// follows says why a round does not continue the chain, "" if it does.
func (g *ring) follows(h *journal.Header) string {
	switch {
	case h.PrevLSN != g.lsn:
		return fmt.Sprintf("expected a round behind %d, found round %d behind %d", g.lsn, h.LSN, h.PrevLSN)
	case h.PrevCRC != g.crc:
		return fmt.Sprintf("round %d: expected checksum %08x of the round before, found %08x", h.LSN, g.crc, h.PrevCRC)
	}
	return ""
}

// search looks for the next round of this journal that is newer than the last one. Rounds
// of earlier laps are older.
func (g *ring) search() bool {
	for pos, left := g.pos, g.left; left > journal.BlockSize && !g.ended(); {
		pos, left = g.step(pos, journal.BlockSize), left-journal.BlockSize
		if h, flaw := g.header(pos); flaw == "" && h.LSN > g.lsn {
			g.pos, g.left, g.lsn, g.crc = pos, left, h.PrevLSN, h.PrevCRC
			return true
		}
	}
	return false
}

// step is the position n bytes further on in the ring.
func (g *ring) step(pos, n int64) int64 {
	if pos += n; pos >= g.end {
		pos = journal.RingStart
	}
	return pos
}

// round shows a round, whose header and table are in g.buf, and goes behind it.
func (g *ring) round(h *journal.Header) {
	g.item(1, "round").count("lsn", h.LSN).num("position", h.Pos).num("bytes", int64(h.Total)).
		count("incarnation", h.Incarnation).count("previous_lsn", h.PrevLSN).nanos("append_time", h.AppendTime).
		count("checkpoint_lsn", h.CheckpointLSN).count("flushed_lsn", h.FlushedLSN).num("entries", int64(h.Entries))
	at, wrap := h.Pos+int64(h.BodiesOffset), false
	for i := range int(h.Entries) {
		e, err := journal.DecodeEntry(g.buf[journal.HeaderSize+i*journal.EntrySize:])
		if err != nil || at+int64(e.Length) > h.Pos+int64(h.Total) {
			g.damage(2, h.Pos, fmt.Sprintf("entry %d makes no sense: %v", i, err))
			break
		}
		g.entry(&e, at)
		at += int64(e.Length)
		wrap = wrap || e.Kind == journal.KindWrap
	}
	g.lsn, g.crc = h.LSN, h.CRC
	n := int64(h.Total)
	if wrap {
		n = g.end - h.Pos
	}
	g.pos, g.left = g.step(h.Pos, n), g.left-n
}

// entry shows an entry, whose body is at a position.
func (g *ring) entry(e *journal.Entry, at int64) {
	name := kindNames[e.Kind]
	if name == "" {
		name = fmt.Sprintf("kind %d", e.Kind)
	}
	it := g.item(2, "entry").text("kind", name)
	if e.Kind == journal.KindMark || e.Kind == journal.KindWrap {
		return
	}
	it.id("topic", e.Topic[:]).num("partition", int64(e.Partition)).num("offset", e.BaseOffset).num("bytes", int64(e.Length)).
		num("position", at).num("slot", int64(e.Slot)).num("term", int64(e.Term)).count("index", e.Index)
	body, ok := g.bytes(g.body, at, int(e.Length))
	g.body = body
	if !ok {
		it.text("state", "cannot be read")
		return
	}
	state := "whole"
	if expected, found, ok := journal.CheckBody(e, body); !ok {
		state = fmt.Sprintf("DAMAGED: expected %08x, found %08x", expected, found)
	}
	it.text("state", state)
}
