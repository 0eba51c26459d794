package catalog

import (
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

var wide = Limits{Partitions: MaxPartitions, MaxMessageBytes: MaxMaxMessageBytes}

func TestSettingsAreReadByNameAndAlias(t *testing.T) {
	got, err := ParseSettings([]Setting{
		{"message.timestamp.type", "LogAppendTime"},
		{"mqd.durability", "written"},
		{"segment.bytes", "64MiB"},
		{"index.interval.bytes", "8192"},
		{"flush.interval", "1.5s"},
		{"flush.bytes", "16KiB"},
		{"max.message.bytes", "2048B"},
		{"retention.ms", "36h"},
		{"retention.bytes", "-1"},
		{"segment.ms", "60000"},
		{"cleanup.policy", "compact,delete"},
		{"min.cleanable.dirty.ratio", "0.25"},
		{"min.compaction.lag.ms", "0"},
		{"delete.retention.ms", "1h"},
	}, Set, wide)
	if err != nil {
		t.Fatal(err)
	}
	want := []Change{
		{KeyDurability, Set, int64(Written)},
		{KeySegmentBytes, Set, 64 << 20},
		{KeyIndexInterval, Set, 8192},
		{KeyFlushInterval, Set, int64(1500 * time.Millisecond)},
		{KeyFlushBytes, Set, 16 << 10},
		{KeyMaxMessageBytes, Set, 2048},
		{KeyTimestampType, Set, int64(LogAppendTime)},
		{KeyRetentionTime, Set, 36 * 3_600_000},
		{KeyRetentionBytes, Set, Unlimited},
		{KeySegmentTime, Set, 60_000},
		{KeyCleanupPolicy, Set, int64(CompactAndDelete)},
		{KeyDirtyRatio, Set, 250},
		{KeyCompactionLag, Set, 0},
		{KeyDeleteRetention, Set, 3_600_000},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestSettingsOutOfBoundsAreRefusedByName(t *testing.T) {
	limits := Limits{Partitions: 1, MaxMessageBytes: 1 << 20}
	for _, c := range []struct{ key, value, says string }{
		{"segment.byte", "1", "unknown setting"},
		{"", "1", "unknown setting"},
		{"segment.bytes", "16383", "expected 16KiB to 2GiB"},
		{"segment.bytes", "3GiB", "expected 16KiB to 2GiB"},
		{"segment.bytes", "-1", "is no size"},
		{"segment.bytes", "+1", "is no size"},
		{"segment.bytes", "1 KiB", "is no size"},
		{"segment.bytes", "1.5MiB", "is no size"},
		{"segment.bytes", "MiB", "is no size"},
		{"segment.bytes", "9223372036854775807KiB", "is no size"},
		{"segment.bytes", "", "is no size"},
		{"index.interval.bytes", "255", "expected 256 to 1MiB"},
		{"flush.interval", "5", "is no duration"},
		{"segment.bytes", "1", "expected 16KiB to 2GiB"},
		{"segment.bytes", "1000", "expected 16KiB to 2GiB"},
		{"retention.ms", "999", "expected 1000 to 3153600000000, or -1 for no limit"},
		{"retention.ms", "0", "expected 1000 to"},
		{"retention.ms", "-2", "is no time in milliseconds"},
		{"retention.ms", "-2s", "expected 1000 to"},
		{"retention.ms", "1500us", "is no time in milliseconds"},
		{"retention.ms", "9223372036854775808", "is no time in milliseconds"},
		{"retention.ms", "", "is no time in milliseconds"},
		{"retention.bytes", "1", "expected 16KiB to 1EiB, or -1 for no limit"},
		{"retention.bytes", "-2", "is no size"},
		{"segment.ms", "10ms", "expected 1000 to 315360000000, or -1 for no limit"},
		{"flush.interval", "0s", "expected 1ms to 1h"},
		{"flush.interval", "-3s", "expected 1ms to 1h"},
		{"flush.bytes", "1", "expected 4KiB to 1GiB"},
		{"max.message.bytes", "1048577", "expected 1KiB to 1MiB; the broker's topic.max_message_bytes is the most"},
		{"cleanup.policy", "delete,compact", "expected one of delete, compact, compact,delete"},
		{"cleanup.policy", "", "expected one of delete, compact, compact,delete"},
		{"min.cleanable.dirty.ratio", "1.1", "expected 0 to 1"},
		{"min.cleanable.dirty.ratio", "-0.5", "is no ratio"},
		{"min.cleanable.dirty.ratio", "50%", "is no ratio"},
		{"min.cleanable.dirty.ratio", "0.1234", "is no ratio"},
		{"min.cleanable.dirty.ratio", ".5", "is no ratio"},
		{"min.compaction.lag.ms", "-1", "is no time in milliseconds"},
		{"delete.retention.ms", "200000000000000", "expected 0 to 3153600000000"},
		{"durability", "Flushed", "expected one of memory, written, flushed"},
		{"message.timestamp.type", "createtime", "expected one of CreateTime, LogAppendTime"},
	} {
		_, err := ParseSettings([]Setting{{c.key, c.value}}, Set, limits)
		if !errors.Is(err, ErrInvalidConfig) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s=%q: %v, want it to say %q", c.key, c.value, err, c.says)
		}
	}
	_, err := ParseSettings([]Setting{{"durability", "memory"}, {"mqd.durability", "flushed"}}, Set, limits)
	if !errors.Is(err, ErrInvalidConfig) || !strings.Contains(err.Error(), "twice") {
		t.Errorf("a setting given twice: %v", err)
	}
}

func TestAnEmptyValueTakesASettingAwayOnlyInAnAlter(t *testing.T) {
	got, err := ParseSettings([]Setting{{"flush.bytes", ""}}, Unset, wide)
	if want := []Change{{KeyFlushBytes, Unset, 0}}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v and %v, want %v", got, err, want)
	}
}

func TestValuesAreWrittenAsTheyAreRead(t *testing.T) {
	for _, in := range Settings() {
		for _, v := range []int64{in.min, in.max, in.min + (in.max-in.min)/3, in.min + 1} {
			text := in.format(v)
			if back, err := in.parse(text); err != nil || back != v {
				t.Errorf("%s: %d is written %q and read as %d, %v", in.Name, v, text, back, err)
			}
		}
	}
}

func TestTheTableOfSettingsIsThatOfTheDocument(t *testing.T) {
	doc, err := os.ReadFile("../../docs/format/catalog.md")
	if err != nil {
		t.Fatal(err)
	}
	for i, in := range Settings() {
		if in.Key != Key(i+1) || in.Help == "" || in.Default == "" {
			t.Errorf("row %d: %+v", i, in)
		}
		found := false
		for line := range strings.Lines(string(doc)) {
			cells := strings.Split(line, "|")
			if len(cells) == 8 && strings.Contains(cells[2], "`"+in.Name+"`") {
				found = true
				row := []string{strings.TrimSpace(cells[4]), strings.TrimSpace(cells[5]), strings.TrimSpace(cells[6])}
				if want := []string{in.Default, in.Min, in.Max}; !reflect.DeepEqual(row, want) {
					t.Errorf("%s: the document says %q, the table %q", in.Name, row, want)
				}
			}
		}
		if !found {
			t.Errorf("%s is not in the document", in.Name)
		}
	}
}

func TestTheFlushWindowFollowsTheClass(t *testing.T) {
	var c Config
	if c.Durability() != Flushed || c.FlushInterval() != 0 || c.FlushBytes() != 0 {
		t.Errorf("default: %v %v %d", c.Durability(), c.FlushInterval(), c.FlushBytes())
	}
	m := c.with([]Change{{KeyDurability, Set, int64(Memory)}})
	if m.FlushInterval() != MemoryFlushInterval || m.FlushBytes() != MemoryFlushBytes {
		t.Errorf("memory: %v %d", m.FlushInterval(), m.FlushBytes())
	}
	w := c.with([]Change{{KeyDurability, Set, int64(Written)}, {KeyFlushBytes, Set, 1 << 20}})
	if w.FlushInterval() != WrittenFlushInterval || w.FlushBytes() != 1<<20 {
		t.Errorf("written: %v %d", w.FlushInterval(), w.FlushBytes())
	}
	f := w.with([]Change{{KeyDurability, Set, int64(Flushed)}})
	if f.FlushInterval() != 0 || f.FlushBytes() != 0 {
		t.Errorf("flushed: %v %d", f.FlushInterval(), f.FlushBytes())
	}
}

func TestDescribeTellsOwnValuesFromDefaults(t *testing.T) {
	c := Config{}.with([]Change{{KeyDurability, Set, int64(Memory)}, {KeySegmentBytes, Set, 1 << 20}})
	want := []Described{
		{Setting{"durability", "memory"}, true},
		{Setting{"segment.bytes", "1MiB"}, true},
		{Setting{"index.interval.bytes", "4KiB"}, false},
		{Setting{"flush.interval", "100ms"}, false},
		{Setting{"flush.bytes", "512KiB"}, false},
		{Setting{"max.message.bytes", "1MiB"}, false},
		{Setting{"message.timestamp.type", "CreateTime"}, false},
		{Setting{"retention.ms", "-1"}, false},
		{Setting{"retention.bytes", "-1"}, false},
		{Setting{"segment.ms", "604800000"}, false},
		{Setting{"cleanup.policy", "delete"}, false},
		{Setting{"min.cleanable.dirty.ratio", "0.5"}, false},
		{Setting{"min.compaction.lag.ms", "0"}, false},
		{Setting{"delete.retention.ms", "86400000"}, false},
	}
	if got := c.Describe(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	var flushed Config
	if got := flushed.Describe()[KeyFlushBytes-1]; got.Value != "" {
		t.Errorf("class flushed has no window, described as %v", got)
	}
}
