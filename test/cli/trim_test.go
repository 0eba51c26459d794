package cli

import (
	"strings"
	"testing"
)

func TestTrimSaysWhatGoesAndDeletesIt(t *testing.T) {
	dir := t.TempDir()
	b := serve(t, dir)
	b.must("", "topic", "create", "t", "--partitions", "2")
	b.must("a\nb\nc\nd\n", "produce", "t", "--partition", "1")
	wants(t, b.must("", "topic", "trim", "t", "--partition", "1", "--offset", "3", "--dry-run"),
		"topic t partition 1: would delete 3 messages; the log begins at 3, before at 0")
	if out := b.must("", "consume", "t", "--from", "start"); strings.Count(out, "\n") != 4 {
		t.Errorf("a dry run has changed something: %q", out)
	}
	wants(t, b.must("", "topic", "trim", "t", "--partition", "1", "--offset", "3"),
		"topic t partition 1: deleted 3 messages; the log begins at 3, before at 0")
	b.stop()
	b = serve(t, dir)
	if out := b.must("", "consume", "t", "--from", "start"); out != "d\n" {
		t.Errorf("after a trim to 3: %q", out)
	}
	wants(t, b.must("", "topic", "trim", "t", "--partition", "-1", "--before", "2000-01-31T12:00:00Z"), "partition 0: deleted 0 messages", "partition 1: deleted 0 messages")
	wants(t, b.must("", "topic", "trim", "t", "--partition", "-1", "--offset", "end"), "partition 1: deleted 1 message; the log begins at 4, before at 3")
	b.stop()
}
