package inspect

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"strings"

	"github.com/mqd-broker/mqd/batch"
	"github.com/mqd-broker/mqd/broker/catalog"
	"github.com/mqd-broker/mqd/engine/layout"
	"github.com/mqd-broker/mqd/engine/segment"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const (
	// windowBytes is the memory through which a log is read.
	windowBytes = 256 << 10
	// searchBytes bounds what is summed up to find a batch behind damage.
	searchBytes = 1 << 30
	// maxCommandBatch bounds a batch of the catalog whose commands are shown.
	maxCommandBatch = 1 << 20
)

// logView is a log that is being shown.
type logView struct {
	*content
	pos    int64
	next   int64 // the offset that should come, -1 if that is not known
	window []byte
	start  int64 // of the window
	budget int64 // bytes that may still be summed up in searches
	orders bool  // the batches are commands of the catalog
	buf    []byte
}

// log shows the batches of a segment, and goes on behind damage.
func (c *content) log() {
	l := &logView{content: c, next: -1, budget: searchBytes}
	if kind, base := segment.ParseName(filepath.Base(c.path)); kind == segment.KindLog {
		l.next = base
	}
	topic := filepath.Base(filepath.Dir(filepath.Dir(c.path)))
	l.orders = strings.HasPrefix(topic, layout.CatalogName+".")
	for l.pos < c.size && !c.ended() {
		h, flaw := l.header(l.pos)
		if flaw != "" && l.zeros() {
			c.item(1, "end").num("position", l.pos).num("next_offset", l.next).text("reason", "zeros up to the end of the file")
			return
		}
		state := ""
		if flaw == "" {
			state, flaw = l.judge(&h)
		}
		if flaw == "" {
			l.batch(&h, state)
			continue
		}
		from := l.pos
		if !l.search(from + 1) {
			c.damage(1, from, flaw).num("next_position", c.size)
			l.pos = c.size
			break
		}
		c.damage(1, from, flaw).num("next_position", l.pos)
		l.next = -1
	}
	if !c.ended() {
		c.item(1, "end").num("position", l.pos).num("next_offset", l.next).text("reason", "end of the file")
	}
}

// at returns n bytes at pos, at most a window; nil if the log has not as many there.
func (l *logView) at(pos int64, n int) []byte {
	if pos < l.start || pos+int64(n) > l.start+int64(len(l.window)) {
		l.window, _ = l.bytes(l.window[:0], pos, windowBytes)
		l.start = pos
	}
	if w := l.window[min(pos-l.start, int64(len(l.window))):]; len(w) >= n {
		return w[:n]
	}
	return nil
}

// header reads the header of a batch at pos; flaw says why it is none.
func (l *logView) header(pos int64) (h batch.Header, flaw string) {
	b := l.at(pos, batch.HeaderSize)
	if b == nil {
		return h, fmt.Sprintf("expected a header of %d bytes, found the end of the file", batch.HeaderSize)
	}
	if b[batch.AtMagic] != batch.Magic {
		return h, fmt.Sprintf("expected magic %d, found %d", batch.Magic, int8(b[batch.AtMagic]))
	}
	h, err := batch.ParseHeader(b)
	if err != nil {
		return h, err.Error()
	}
	if pos+int64(h.Size()) > l.size {
		return h, fmt.Sprintf("a batch of %d bytes passes the end of the file", h.Size())
	}
	return h, ""
}

// sum is the checksum of n bytes at pos.
func (l *logView) sum(pos, n int64) (sum uint32) {
	for n > 0 && !l.ended() {
		b := l.at(pos, int(min(n, windowBytes/2)))
		if b == nil {
			return sum // fewer than the size of the file: the device does not read them
		}
		sum = crc32.Update(sum, castagnoli, b)
		pos, n = pos+int64(len(b)), n-int64(len(b))
	}
	return sum
}

// zeros reports whether nothing but zeros follows.
func (l *logView) zeros() bool {
	for pos := l.pos; pos < l.size; {
		n := min(windowBytes/2, l.size-pos)
		b := l.at(pos, int(n))
		if b == nil || len(bytes.Trim(b, "\x00")) > 0 {
			return false
		}
		pos += n
	}
	return true
}

// judge compares the checksum of the batch at the position. A damaged one whose length
// leads to what follows it is shown as it is; of any other nothing can be believed, and
// flaw says so.
func (l *logView) judge(h *batch.Header) (state, flaw string) {
	size := int64(h.Size())
	found := l.sum(l.pos+batch.AtAttributes, size-batch.AtAttributes)
	switch {
	case found == h.CRC && l.next >= 0 && h.BaseOffset != l.next:
		return fmt.Sprintf("whole, behind a jump from offset %d", l.next), ""
	case found == h.CRC:
		return "whole", ""
	}
	flaw = fmt.Sprintf("expected checksum %08x, found %08x", h.CRC, found)
	if after, none := l.header(l.pos + size); none == "" && after.BaseOffset == h.NextOffset() {
		return "DAMAGED: " + flaw, ""
	}
	return "", flaw
}

// batch shows the batch at the position, and goes behind it.
func (l *logView) batch(h *batch.Header, state string) {
	pos, size := l.pos, int64(h.Size())
	it := l.item(1, "batch").num("position", pos).num("bytes", size).num("offset", h.BaseOffset).num("last_offset", h.LastOffset()).
		num("records", int64(h.Count)).text("codec", h.Attributes.Codec().String()).num("epoch", int64(h.LeaderEpoch)).
		num("base_timestamp", h.BaseTimestamp).num("max_timestamp", h.MaxTimestamp).text("state", state)
	if h.ProducerID >= 0 {
		it.num("producer", h.ProducerID).num("producer_epoch", int64(h.ProducerEpoch)).num("sequence", int64(h.BaseSequence))
	}
	l.pos, l.next = pos+size, h.NextOffset()
	if l.orders && strings.HasPrefix(state, "whole") {
		l.commands(pos, size)
	}
}

// search moves to the next whole batch from a position on.
func (l *logView) search(from int64) bool {
	for pos := from; pos+batch.HeaderSize <= l.size && l.budget > 0 && !l.ended(); pos++ {
		b := l.at(pos, batch.HeaderSize)
		if b == nil || b[batch.AtMagic] != batch.Magic {
			continue
		}
		h, flaw := l.header(pos)
		if flaw != "" || !l.later(&h) {
			continue
		}
		n := int64(h.Size()) - batch.AtAttributes
		l.budget -= n + windowBytes
		if l.sum(pos+batch.AtAttributes, n) == h.CRC {
			l.pos = pos
			return true
		}
	}
	return false
}

// later reports whether a batch can be one that follows in this segment.
func (l *logView) later(h *batch.Header) bool {
	if h.BaseOffset < 0 || h.LastOffsetDelta < 0 || l.next < 0 {
		return h.BaseOffset >= 0 && h.LastOffsetDelta >= 0
	}
	return h.BaseOffset >= l.next && h.BaseOffset-l.next <= segment.MaxRelativeOffset
}

// commands shows the commands of the catalog in a whole batch.
func (l *logView) commands(pos, size int64) {
	if size > maxCommandBatch {
		return
	}
	b, ok := l.bytes(l.buf, pos, int(size))
	l.buf = b
	h, err := batch.CheckStored(b)
	if !ok || err != nil || h.Attributes.Codec() != batch.CodecNone {
		return
	}
	it := h.Records(b[batch.HeaderSize:])
	for it.Next() {
		rec := it.Record()
		cmd, err := catalog.Decode(rec.Value)
		if err != nil {
			l.damage(2, pos, err.Error())
			continue
		}
		show := l.item(2, "command").num("offset", rec.Offset).text("kind", cmd.Kind.String()).id("topic", cmd.ID[:])
		if cmd.Kind == catalog.CreateTopic {
			show.text("name", cmd.Name).num("partitions", int64(cmd.Partitions)).nanos("created", cmd.Created)
		}
		for _, change := range cmd.Changes {
			if change.Action == catalog.Unset {
				show.text(change.Key.String(), "taken away")
			} else {
				show.num(change.Key.String(), change.Value)
			}
		}
	}
	if err := it.Err(); err != nil {
		l.damage(2, pos, err.Error())
	}
}
