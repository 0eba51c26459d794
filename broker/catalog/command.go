package catalog

import (
	"encoding/binary"

	"github.com/mqd-broker/mqd/internal/invariant"
)

// TopicID names a topic for life. It is assignable to engine.TopicID.
type TopicID = [16]byte

// Kind says what a command does. Numbers are for life; docs/format/catalog.md has
// those that are reserved.
type Kind uint8

// The commands.
const (
	// CreateTopic makes a topic.
	CreateTopic Kind = 1
	// AlterTopic changes settings of a topic.
	AlterTopic Kind = 2
	// DeleteTopic removes a topic and leaves a tombstone.
	DeleteTopic Kind = 3
	// AddPartitions makes a topic have more partitions.
	AddPartitions Kind = 4
	// AllocateProducers takes the next producer ids, so that nobody else gets them.
	AllocateProducers Kind = 5

	lastKind = AllocateProducers
)

// MaxProducers bounds the ids that a command takes.
const MaxProducers = 1 << 20

// String is the kind's name.
func (k Kind) String() string {
	switch k {
	case CreateTopic:
		return "create topic"
	case AlterTopic:
		return "alter topic"
	case DeleteTopic:
		return "delete topic"
	case AddPartitions:
		return "add partitions"
	case AllocateProducers:
		return "allocate producers"
	}
	return "unknown command"
}

// known reports whether the program knows the kind.
func (k Kind) known() bool { return k >= CreateTopic && k <= lastKind }

// Command is a change of the catalog.
type Command struct {
	Kind Kind
	ID   TopicID // of the topic; none with AllocateProducers

	// Of CreateTopic.
	Name    string
	Created int64 // Unix nanoseconds

	// Partitions are how many the topic has afterwards, of CreateTopic and
	// AddPartitions.
	Partitions uint32

	// Changes are the settings of the new topic, all Set, or those that
	// AlterTopic changes, at least one. They are in order of key.
	Changes []Change

	// Of AllocateProducers: the first id, and how many, 1 to MaxProducers.
	First int64
	Count uint32
}

// The layout of a record: a head, then what its kind says.
const (
	recordVersion = 1

	atKind    = 0
	atVersion = 1
	atFlags   = 2
	atBody    = 4

	// flagSkip allows a program that does not know the kind or the version to
	// pass over the record.
	flagSkip   = 1
	knownFlags = flagSkip

	changeSize = 2 + 1 + 8
)

// Each index is 0, or the layout has a gap or an overlap and this does not compile.
var (
	_ = [1]struct{}{}[atVersion-(atKind+1)]
	_ = [1]struct{}{}[atFlags-(atVersion+1)]
	_ = [1]struct{}{}[atBody-(atFlags+2)]
)

// Append appends the command as a record. The command must be one that
// [State.Check] accepts.
func (c *Command) Append(dst []byte) []byte {
	dst = append(dst, byte(c.Kind), recordVersion, 0, 0)
	if c.Kind == AllocateProducers {
		dst = binary.BigEndian.AppendUint64(dst, uint64(c.First))
		return binary.BigEndian.AppendUint32(dst, c.Count)
	}
	dst = append(dst, c.ID[:]...)
	switch c.Kind {
	case CreateTopic:
		dst = binary.BigEndian.AppendUint32(dst, c.Partitions)
		dst = binary.BigEndian.AppendUint64(dst, uint64(c.Created))
		dst = appendName(dst, c.Name)
		dst = appendChanges(dst, c.Changes)
	case AlterTopic:
		dst = appendChanges(dst, c.Changes)
	case AddPartitions:
		dst = binary.BigEndian.AppendUint32(dst, c.Partitions)
	case DeleteTopic:
	default:
		invariant.Violated("catalog: a command to encode has a kind")
	}
	return dst
}

func appendName(dst []byte, name string) []byte {
	if len(name) > MaxName {
		invariant.Violated("catalog: a name to encode has been checked")
	}
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(name)))
	return append(dst, name...)
}

func appendChanges(dst []byte, changes []Change) []byte {
	if len(changes) > int(lastKey) {
		invariant.Violated("catalog: changes to encode are of different settings")
	}
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(changes)))
	for _, ch := range changes {
		dst = binary.BigEndian.AppendUint16(dst, uint16(ch.Key))
		dst = append(dst, byte(ch.Action))
		dst = binary.BigEndian.AppendUint64(dst, uint64(ch.Value))
	}
	return dst
}

// Decode reads a record. A record that this program may pass over has Kind 0.
// Every accepted record has exactly one encoding. The error is a [FormatError].
func Decode(record []byte) (Command, error) {
	cur := cursor{what: "record", b: record}
	kind, version, flags := Kind(cur.u8("kind")), cur.u8("version"), cur.u16("flags")
	if cur.err != nil {
		return Command{}, cur.err
	}
	if !kind.known() || version != recordVersion {
		switch {
		case flags&flagSkip != 0:
			return Command{}, nil
		case kind == 0 || version == 0:
			cur.fail(ErrDamaged, "kind and version", atKind, 1, int64(min(uint8(kind), version)))
		case !kind.known():
			cur.fail(ErrUnsupported, "kind", atKind, int64(lastKind), int64(kind))
		default:
			cur.fail(ErrUnsupported, "version", atVersion, recordVersion, int64(version))
		}
		return Command{}, cur.err
	}
	if flags != 0 {
		cur.fail(ErrDamaged, "flags", atFlags, 0, int64(flags))
	}
	c := Command{Kind: kind}
	if kind != AllocateProducers {
		c.ID = cur.id("topic id")
	}
	switch kind {
	case AllocateProducers:
		cur.allocation(&c)
	case CreateTopic:
		c.Partitions, c.Created = cur.partitions(1), cur.i64("created")
		c.Name = cur.name()
		c.Changes = cur.changes(Set)
	case AlterTopic:
		if c.Changes = cur.changes(Unset); len(c.Changes) == 0 {
			cur.fail(ErrDamaged, "settings", cur.p, 1, 0)
		}
	case AddPartitions:
		c.Partitions = cur.partitions(2)
	}
	if err := cur.end(); err != nil {
		return Command{}, err
	}
	return c, nil
}

// partitions reads how many partitions a topic has.
func (c *cursor) partitions(least uint32) uint32 {
	at := c.p
	n := c.u32("partitions")
	if n < least || n > MaxPartitions {
		c.fail(ErrDamaged, "partitions", at, MaxPartitions, int64(n))
	}
	return n
}

// allocation reads which producer ids a command takes.
func (c *cursor) allocation(cmd *Command) {
	at := c.p
	cmd.First, cmd.Count = c.i64("first id"), c.u32("count")
	if cmd.First < 0 || cmd.First > 1<<63-1-MaxProducers {
		c.fail(ErrDamaged, "first id", at, 0, cmd.First)
	}
	if cmd.Count < 1 || cmd.Count > MaxProducers {
		c.fail(ErrDamaged, "count", at+8, MaxProducers, int64(cmd.Count))
	}
}

// changes reads a list of settings. What a setting may be is part of the format.
func (c *cursor) changes(allow Action) []Change {
	n := c.count(uint32(c.u16("settings")), changeSize, "settings")
	var out []Change
	last := Key(0)
	for range n {
		at := c.p
		ch := Change{Key: Key(c.u16("setting")), Action: Action(c.u8("action")), Value: c.i64("value")}
		if ch.Key <= last {
			c.fail(ErrDamaged, "setting", at, int64(last)+1, int64(ch.Key))
			return nil
		}
		in := ch.Key.info()
		switch {
		case in == nil:
			c.fail(ErrUnsupported, "setting", at, int64(lastKey), int64(ch.Key))
		case ch.Action != Set && ch.Action != allow:
			c.fail(ErrDamaged, "action", at+2, int64(allow), int64(ch.Action))
		case ch.Action == Unset && ch.Value != 0:
			c.fail(ErrDamaged, "value", at+3, 0, ch.Value)
		case ch.Action == Set && !in.takes(ch.Value, in.max):
			c.fail(ErrDamaged, "value", at+3, in.max, ch.Value)
		}
		if c.err != nil {
			return nil
		}
		last = ch.Key
		out = append(out, ch)
	}
	return out
}
