package cli

import "testing"

// What deletes for good does nothing in a script that does not say --yes.
func TestNothingIsDeletedWithoutConsent(t *testing.T) {
	b := serve(t, t.TempDir())
	b.must("", "topic", "create", "t", "--partitions", "2")
	b.must("a\nb\nc\n", "produce", "t", "--partition", "0")
	b.must("", "group", "seek", "g", "--topic", "t", "--to", "start", "--yes")
	const refused, how = "mqd: nothing has been deleted: it would be ", ", for good; add --yes to do it"
	b.must("", "topic", "create", "empty")
	for _, x := range []struct{ args, want []string }{
		{[]string{"topic", "delete", "t"}, []string{refused + "topic t with 2 partitions and ", " on disk" + how}},
		{[]string{"topic", "delete", "t", "empty"}, []string{" on disk, topic empty with 1 partition and no messages" + how}},
		{[]string{"topic", "delete", "t", "u"}, []string{`topic "u" does not exist`}},
		{[]string{"group", "delete", "g"}, []string{refused + "group g with 2 committed offsets" + how}},
		{[]string{"group", "delete", "g", "h"}, []string{`group "h" does not exist`}},
	} {
		wants(t, b.fails("y\n", x.args...), x.want...)
	}
	r := run(t, "y\n", "topic", "trim", "t", "--partition", "-1", "--offset", "end", "--server", b.addr)
	wants(t, r.out, "topic t partition 0: would delete 3 messages; the log begins at 3, before at 0")
	wants(t, oneLine(t, result{errs: r.errs, status: r.status}), refused+"3 messages of topic t"+how)
	wants(t, b.must("", "topic", "trim", "t", "--partition", "1", "--offset", "end"), "would delete 0 messages")

	if out := b.must("", "consume", "t", "--from", "start"); out != "a\nb\nc\n" {
		t.Errorf("without consent something is deleted: %q is left", out)
	}
	if got := b.group("g").places(); got != "[0 0]" {
		t.Errorf("the group is at %s", got)
	}
	b.stop()
}
