package inspect

import (
	"encoding/binary"
	"errors"
	"hash/crc32"

	"github.com/mqd-broker/mqd/engine/segment"
)

// Places in an index, as docs/format/index.md has them.
const (
	indexForm      = 6
	indexTopic     = 16
	indexPartition = 32
	indexInterval  = 36
	indexBase      = 40
	indexCreated   = 48
	indexHeader    = 4096
	indexEntry     = 32
	indexEntryCRC  = 28
	indexFooter    = 128
	footerMagic    = 0x4d514446 // MQDF
	footerEntries  = 8
	maxIndexBytes  = 256 << 20
)

// index shows the header, every entry, the quarantine and the footer of an index.
func (c *content) index() {
	b, ok := c.whole(maxIndexBytes)
	if !ok {
		return
	}
	if len(b) < indexHeader {
		c.damage(1, int64(len(b)), "the file ends within the header")
		return
	}
	be := binary.BigEndian
	id := segment.ID{Topic: [16]byte(b[indexTopic:indexPartition]), Partition: be.Uint32(b[indexPartition:]), Base: int64(be.Uint64(b[indexBase:]))}
	form := map[byte]string{byte(segment.FormOpen): "open", byte(segment.FormSealed): "sealed"}[b[indexForm]]
	c.item(1, "header").text("form", form).id("topic", id.Topic[:]).num("partition", int64(id.Partition)).num("base_offset", id.Base).
		num("interval", int64(be.Uint32(b[indexInterval:]))).nanos("created", int64(be.Uint64(b[indexCreated:])))
	ix, err := segment.Decode(b, id, nil)
	var fault *segment.IndexError
	switch {
	case err == nil:
		defer ix.Release()
	case errors.Is(err, segment.ErrIndexOpen):
	case errors.As(err, &fault):
		c.damage(1, fault.At, fault.Error())
	default:
		c.damage(1, 0, err.Error())
	}
	c.indexEntries(b, &id)
	if ix != nil {
		c.sealed(ix)
	}
}

// indexEntries shows the entries one by one, each by its own checksum. How many there are
// stands in the footer; without one the first that does not check ends an open index.
func (c *content) indexEntries(b []byte, id *segment.ID) {
	be := binary.BigEndian
	body, count := b[indexHeader:], -1
	if at := len(body) - indexFooter; at >= 0 && be.Uint32(body[at:]) == footerMagic {
		if n := be.Uint32(body[at+footerEntries:]); int64(n)*indexEntry <= int64(at) {
			body, count = body[:at], int(n)
		}
	}
	var name [28]byte
	copy(name[:], id.Topic[:])
	be.PutUint32(name[16:], id.Partition)
	be.PutUint64(name[20:], uint64(id.Base))
	seed := crc32.Checksum(name[:], castagnoli)
	for i := 0; (count < 0 || i < count) && len(body) >= indexEntry && !c.ended(); i, body = i+1, body[indexEntry:] {
		e := body[:indexEntry]
		pos := int64(indexHeader + i*indexEntry)
		if crc32.Update(seed, castagnoli, e[:indexEntryCRC]) != be.Uint32(e[indexEntryCRC:]) {
			if count < 0 {
				c.item(1, "end").num("position", pos).text("reason", "no entry of this index")
				return
			}
			c.damage(1, pos, "the entry's checksum does not match")
			continue
		}
		c.item(1, "entry").num("number", int64(i)).num("offset", id.Base+int64(be.Uint32(e))).num("log_position", int64(be.Uint32(e[4:]))).
			num("max_before", int64(be.Uint64(e[8:]))).nanos("append_time", int64(be.Uint64(e[16:])))
	}
}

// sealed shows what a sealed index says of its log.
func (c *content) sealed(ix *segment.Index) {
	s := ix.Sealed()
	for _, r := range ix.Quarantine() {
		c.item(1, "quarantine").num("offset", r.FromOffset).num("end_offset", r.ToOffset).
			num("log_position", r.FromPos).num("end_log_position", r.ToPos).text("reason", r.Check.String())
	}
	c.item(1, "footer").num("log_bytes", s.LogBytes).num("first_offset", ix.FirstOffset()).num("next_offset", ix.NextOffset()).
		num("min_timestamp", s.MinTimestamp).num("max_timestamp", ix.MaxTimestamp()).nanos("newest_append", ix.NewestAppend()).
		count("batches", s.Batches).count("records", s.Records).flag("guessed_append_times", s.Flags&segment.FlagGuessedTimes != 0)
}
