package inspect

import (
	"errors"

	"github.com/mqd-broker/mqd/broker/catalog"
	"github.com/mqd-broker/mqd/engine/checkpoint"
	"github.com/mqd-broker/mqd/engine/layout"
	"github.com/mqd-broker/mqd/engine/producers"
)

// Most bytes that are read of files that are read at once.
const (
	maxNodeBytes       = 1 << 20
	maxCheckpointBytes = 1 << 30
)

// wrong shows why a file does not decode. Its checksums cover all of it, so nothing in it
// can be believed then.
func (c *content) wrong(err error) {
	at := int64(0)
	if e := (*checkpoint.FormatError)(nil); errors.As(err, &e) {
		at = e.At
	}
	if e := (*catalog.FormatError)(nil); errors.As(err, &e) {
		at = int64(e.At)
	}
	c.damage(1, at, err.Error())
}

// nodeFile shows the node file.
func (c *content) nodeFile() {
	b, ok := c.whole(maxNodeBytes)
	if !ok {
		return
	}
	n, err := checkpoint.DecodeNode(b)
	if err != nil {
		c.wrong(err)
		return
	}
	c.item(1, "node").id("id", n.ID[:]).nanos("created", n.Created).num("slots", int64(n.Slots)).
		num("shards", int64(n.Shards)).num("starts", int64(n.Starts))
}

// reasons are why epochs begin.
var reasons = map[checkpoint.Reason]string{
	checkpoint.ReasonStart: "start", checkpoint.ReasonMove: "move of the slot",
	checkpoint.ReasonCrash: "crash", checkpoint.ReasonAccepted: "accepted loss", checkpoint.ReasonSalvage: "given up",
}

// checkpoint shows a checkpoint.
func (c *content) checkpoint() {
	b, ok := c.whole(maxCheckpointBytes)
	if !ok {
		return
	}
	s, err := checkpoint.Decode(b)
	if err != nil {
		c.wrong(err)
		return
	}
	c.item(1, "header").id("node", s.Node[:]).id("journal", s.Journal[:]).num("shard", int64(s.Shard)).num("shards", int64(s.Shards)).
		flag("clean", s.Flags&checkpoint.FlagClean != 0).flag("forsaken", s.Flags&checkpoint.FlagForsaken != 0).count("sequence", s.Sequence).count("lsn", s.LSN).count("incarnation", s.Incarnation).
		nanos("wall", s.Wall).nanos("append_time", s.AppendTime).id("boot", s.Boot[:]).count("device", s.Device).count("mount", s.Mount)
	c.slots(s.Slots)
	for i := range s.Partitions {
		if c.ended() {
			return
		}
		c.partition(&s.Partitions[i])
	}
}

// slots shows what is known of slots, those that stand next to each other and know the
// same as one.
func (c *content) slots(all []checkpoint.Slot) {
	for len(all) > 0 {
		n := 1
		for n < len(all) && all[n] == (checkpoint.Slot{Slot: all[0].Slot + uint16(n), Term: all[0].Term, Index: all[0].Index}) {
			n++
		}
		c.item(1, "slots").num("first", int64(all[0].Slot)).num("last", int64(all[n-1].Slot)).num("term", int64(all[0].Term)).count("index", all[0].Index)
		all = all[n:]
	}
}

func (c *content) partition(p *checkpoint.Partition) {
	c.item(1, "partition").id("topic", p.Topic[:]).num("partition", int64(p.Partition)).num("slot", int64(p.Slot)).
		text("class", layout.Class(p.Class).String()).num("term", int64(p.Term)).num("segment_base", p.SegmentBase).
		num("end_position", p.End).num("next_offset", p.NextOffset).num("log_start", p.LogStart).num("reservation", p.Reserved).
		nanos("newest_append", p.NewestAppend)
	for i := range p.Epochs.Len() {
		e := p.Epochs.At(i)
		c.item(2, "epoch").num("epoch", int64(e.Epoch)).num("start_offset", e.Start).num("gap_from", e.GapFrom).text("reason", reasons[e.Reason])
	}
	for i := range p.Producers {
		c.producer(&p.Producers[i])
	}
}

// producer shows an idempotent producer and its newest batches.
func (c *content) producer(st *producers.State) {
	c.item(2, "producer").num("id", st.ID).num("epoch", int64(st.Epoch)).flag("jumps", st.Jumps)
	for i := range st.N {
		b := &st.Batches[i]
		c.item(3, "batch").num("base_offset", b.Base).num("records", int64(b.Count)).num("sequence", int64(b.Sequence)).nanos("append_time", b.AppendTime)
	}
}

// snapshot shows a snapshot of the catalog.
func (c *content) snapshot() {
	b, ok := c.whole(catalog.MaxSnapshotBytes)
	if !ok {
		return
	}
	s, node, err := catalog.DecodeSnapshot(b)
	if err != nil {
		c.wrong(err)
		return
	}
	c.item(1, "header").id("node", node[:]).num("next_offset", s.Next())
	for _, t := range s.Image().Topics() {
		c.item(1, "topic").text("name", t.Name).id("id", t.ID[:]).num("partitions", int64(t.Partitions)).
			nanos("created", t.Created).num("version", t.Version)
		for _, d := range t.Config.Describe() {
			if d.Own {
				c.item(2, "setting").text("key", d.Key).text("value", d.Value)
			}
		}
	}
	for _, z := range s.Tombstones() {
		c.item(1, "tombstone").text("name", z.Name).id("id", z.ID[:]).num("offset", z.Offset)
	}
}
