package cli

import (
	"encoding/json"
	"fmt"
	"testing"
)

// lagOf is how many messages a group has to read in partition 0 of its one topic.
func (b *broker) lagOf(group string) int64 {
	b.t.Helper()
	d := b.group(group)
	if len(d.Partitions) != 1 || d.Partitions[0].LagRecords == nil {
		b.t.Fatalf("group %s: %+v", group, d)
	}
	return *d.Partitions[0].LagRecords
}

// Behind a crash, offsets of class memory go on where they had been set aside, 67 million
// further: no verb takes those between for messages.
func TestOffsetsThatACrashHasSkippedAreNoMessages(t *testing.T) {
	dir := t.TempDir()
	b := serve(t, dir, "--shards", "1")
	b.must("", "topic", "create", "t", "--durability", "memory")
	b.must("", "topic", "create", "f", "--durability", "flushed")
	b.must("1\n2\n3\n4\n5\n", "produce", "t")
	b.must("x\n", "produce", "f") // the same journal: what is before it is written
	b.kill()
	b = serve(t, dir, "--shards", "1")
	b.must("", "group", "seek", "crew", "--topic", "t", "--to", "start", "--yes")
	old := b.lagOf("crew") // what the crash has left
	if old > 5 {
		t.Fatalf("5 messages were sent, and %d are left", old)
	}
	b.must("6\n7\n8\n", "produce", "t")
	all := old + 3
	var d struct {
		Partitions []struct{ Messages, Start, Durable int64 }
	}
	if err := json.Unmarshal([]byte(b.must("", "topic", "describe", "t", "-o", "json")), &d); err != nil {
		t.Fatal(err)
	}
	p := d.Partitions[0]
	if p.Messages != all || p.Durable-p.Start < 1<<20 {
		t.Errorf("described: %+v, expected %d messages and a gap", p, all)
	}
	for n := range all {
		b.must("", "group", "seek", "crew", "--topic", "t", "--to", "end", "--yes")
		b.must("", "group", "seek", "crew", "--topic", "t", "--to", fmt.Sprint(-n-1), "--yes")
		if got := b.lagOf("crew"); got != n+1 {
			t.Errorf("%d back from the end are %d", n+1, got)
		}
	}
	b.must("", "group", "seek", "crew", "--topic", "t", "--to", "-9223372036854775808", "--yes")
	if got := b.lagOf("crew"); got != all {
		t.Errorf("as far back as can be are %d of %d", got, all)
	}
	for n := all - 1; n >= 0; n-- {
		b.must("", "group", "seek", "crew", "--topic", "t", "--to", "+1", "--yes")
		if got := b.lagOf("crew"); got != n {
			t.Errorf("one on leaves %d, expected %d", got, n)
		}
	}
	at := fmt.Sprint(p.Durable - 1)
	wants(t, b.must("", "topic", "trim", "t", "--partition", "0", "--offset", at, "--dry-run"), fmt.Sprintf("would delete %d messages; the log begins at %s, before at %d\n", all-1, at, p.Start))
	wants(t, b.must("", "topic", "trim", "t", "--partition", "0", "--offset", at, "--yes"), fmt.Sprintf("deleted %d messages; the log begins at %s, before at %d\n", all-1, at, p.Start))
	wants(t, b.must("", "topic", "trim", "t", "--partition", "0", "--offset", "end", "--yes"), "deleted 1 message; ")
}
