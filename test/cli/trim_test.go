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
	wants(t, b.must("", "topic", "trim", "t", "--partition", "1", "--offset", "3", "--yes"),
		"topic t partition 1: deleted 3 messages; the log begins at 3, before at 0")
	b.stop()
	b = serve(t, dir)
	if out := b.must("", "consume", "t", "--from", "start"); out != "d\n" {
		t.Errorf("after a trim to 3: %q", out)
	}
	wants(t, b.must("", "topic", "trim", "t", "--partition", "-1", "--before", "2000-01-31T12:00:00Z", "--yes"), "partition 0: deleted 0 messages", "partition 1: deleted 0 messages")
	wants(t, b.must("", "topic", "trim", "t", "--partition", "-1", "--offset", "end", "--yes"), "partition 1: deleted 1 message; the log begins at 4, before at 3")
	b.stop()
}

func TestTrimDeletesNothingByMistake(t *testing.T) {
	b := serve(t, t.TempDir())
	b.must("", "topic", "create", "t", "--partitions", "2")
	b.must("a\nb\nc\n", "produce", "t", "--partition", "0")
	wants(t, b.must("", "topic", "trim", "t", "--partition", "0", "--offset", "1", "--yes"), "deleted 1 message")
	const outside = "mqd: offset 4711 is not in partition 0 of topic t, which has 1 to 3"
	for _, x := range []struct {
		args []string
		want string
	}{
		{[]string{"--offset", "2"}, "trim: --partition is missing; say which partition, or -1 for all"},
		{[]string{"--offset", "end"}, "trim: --partition is missing"},
		{[]string{"--before", "1700000000000", "--dry-run"}, "trim: --partition is missing"},
		{[]string{"--partition", "0", "--offset", "4711"}, outside},
		{[]string{"--partition", "0", "--offset", "4711", "--dry-run"}, outside},
		{[]string{"--partition", "0", "--offset", "4711", "--yes"}, outside},
		{[]string{"--partition", "0", "--offset", "2", "--yes", "--dry-run"}, "--yes and --dry-run exclude each other"},
		{[]string{"--partition", "2", "--offset", "end"}, "topic t has partitions 0 to 1, not 2"},
	} {
		wants(t, b.fails("", append([]string{"topic", "trim", "t"}, x.args...)...), x.want)
	}
	if out := b.must("", "consume", "t", "--from", "start"); out != "b\nc\n" {
		t.Errorf("what was refused has deleted something: %q is left", out)
	}
	b.stop()
}
