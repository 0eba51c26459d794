package catalog

import (
	"fmt"
	"time"
)

// Class is a durability class. The values are those of engine.Class.
type Class uint8

// The classes; a greater one promises more.
const (
	Memory  Class = 1
	Written Class = 2
	Flushed Class = 3
)

// String is the class's name.
func (c Class) String() string {
	if c < Memory || c > Flushed {
		return fmt.Sprintf("class(%d)", uint8(c))
	}
	return table[KeyDurability-1].Words[c-Memory]
}

// TimestampType says whose clock the timestamps of a topic's records are from. The
// values are those of batch.TimestampType.
type TimestampType uint8

// The timestamp types.
const (
	CreateTime    TimestampType = 0
	LogAppendTime TimestampType = 1
)

// Policy says what becomes of a topic's old records.
type Policy uint8

// The policies.
const (
	Delete           Policy = 0
	Compact          Policy = 1
	CompactAndDelete Policy = 2
)

// String is the policy's name.
func (p Policy) String() string {
	if p > CompactAndDelete {
		return fmt.Sprintf("policy(%d)", uint8(p))
	}
	return table[KeyCleanupPolicy-1].Words[p]
}

// Compacts reports whether superseded records go.
func (p Policy) Compacts() bool { return p != Delete }

// Deletes reports whether records go by age and size.
func (p Policy) Deletes() bool { return p != Compact }

// Config holds a topic's own settings and knows the defaults of the others. It is
// a value; the zero Config has defaults alone.
type Config struct {
	own    uint32 // bit Key: the topic has a value of its own
	values [lastKey]int64
}

// There is a bit for every setting.
const _ = uint(31 - lastKey)

// Own reports whether the topic has a value of its own for k.
func (c *Config) Own(k Key) bool { return c.own&(1<<k) != 0 }

// get is the value in force; byClass where a default depends on the class.
func (c *Config) get(k Key) int64 {
	if c.Own(k) {
		return c.values[k-1]
	}
	return table[k-1].def
}

// Durability is the class.
func (c *Config) Durability() Class { return Class(c.get(KeyDurability)) }

// SegmentBytes is the size in bytes at which a segment is closed.
func (c *Config) SegmentBytes() int64 { return c.get(KeySegmentBytes) }

// IndexInterval is the distance in bytes between index entries.
func (c *Config) IndexInterval() int32 { return int32(c.get(KeyIndexInterval)) }

// MaxMessageBytes is the size in bytes of the largest batch.
func (c *Config) MaxMessageBytes() int { return int(c.get(KeyMaxMessageBytes)) }

// TimestampType says whose clock timestamps are from.
func (c *Config) TimestampType() TimestampType { return TimestampType(c.get(KeyTimestampType)) }

// RetentionTime is the age of a segment at which it goes; 0 for none.
func (c *Config) RetentionTime() time.Duration { return c.millis(KeyRetentionTime) }

// SegmentTime is the age at which a segment is closed; 0 for none.
func (c *Config) SegmentTime() time.Duration { return c.millis(KeySegmentTime) }

// RetentionBytes is how many bytes of a partition stay at least; [Unlimited] for all.
func (c *Config) RetentionBytes() int64 { return c.get(KeyRetentionBytes) }

// CleanupPolicy is what becomes of old records.
func (c *Config) CleanupPolicy() Policy { return Policy(c.get(KeyCleanupPolicy)) }

// DirtyRatio is the part of the full segments that is new when they are compacted again, in
// thousandths.
func (c *Config) DirtyRatio() int { return int(c.get(KeyDirtyRatio)) }

// CompactionLag is how long a record stays whatever supersedes it.
func (c *Config) CompactionLag() time.Duration { return c.millis(KeyCompactionLag) }

// DeleteRetention is how long a record without a value stays after what it deletes.
func (c *Config) DeleteRetention() time.Duration { return c.millis(KeyDeleteRetention) }

func (c *Config) millis(k Key) time.Duration {
	return time.Duration(max(0, c.get(k))) * time.Millisecond
}

// FlushInterval is the longest time until what is acknowledged begins to be made
// safe; 0 for class flushed, which has no window.
func (c *Config) FlushInterval() time.Duration {
	return time.Duration(c.window(KeyFlushInterval, int64(MemoryFlushInterval), int64(WrittenFlushInterval)))
}

// FlushBytes is the most bytes acknowledged until they begin to be made safe; 0
// for class flushed, which has no window.
func (c *Config) FlushBytes() int64 {
	return c.window(KeyFlushBytes, MemoryFlushBytes, WrittenFlushBytes)
}

// window is a setting of the flush window.
func (c *Config) window(k Key, memory, written int64) int64 {
	class := c.Durability()
	switch {
	case class == Flushed:
		return 0
	case c.Own(k):
		return c.values[k-1]
	case class == Memory:
		return memory
	}
	return written
}

// Described is a setting in force.
type Described struct {
	Setting
	// Own: the topic has this value itself; else it is the default.
	Own bool
}

// Describe lists all settings in force, in order of key. Those of a flush window
// that the class does not have are "".
func (c *Config) Describe() []Described {
	out := make([]Described, 0, lastKey)
	for i := range table {
		in := &table[i]
		v := c.get(in.Key)
		if !c.Own(in.Key) {
			switch in.Key {
			case KeyFlushInterval:
				v = int64(c.FlushInterval())
			case KeyFlushBytes:
				v = c.FlushBytes()
			}
		}
		d := Described{Setting: Setting{Key: in.Name}, Own: c.Own(in.Key)}
		if !in.byClass() || v != byClass {
			d.Value = in.format(v)
		}
		out = append(out, d)
	}
	return out
}

// with is c with changes made to it.
func (c Config) with(changes []Change) Config {
	for _, ch := range changes {
		switch ch.Action {
		case Set:
			c.own |= 1 << ch.Key
			c.values[ch.Key-1] = ch.Value
		default:
			c.own &^= 1 << ch.Key
			c.values[ch.Key-1] = 0
		}
	}
	return c
}

// changes are the settings that make c out of nothing, in order of key.
func (c *Config) changes() []Change {
	var out []Change
	for k := Key(1); k <= lastKey; k++ {
		if c.Own(k) {
			out = append(out, Change{Key: k, Action: Set, Value: c.values[k-1]})
		}
	}
	return out
}
