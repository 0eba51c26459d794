package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// describedGroup is what these tests look at of mqd group describe -o json.
type describedGroup struct {
	Group, Mode string
	Members     []struct{}
	Table       []struct {
		Topic, Instance string
		Partition       int
		Away            bool
	}
	Partitions []struct {
		Topic       string
		Partition   int
		Committed   *int64
		Start, End  *int64
		LagRecords  *int64   `json:"lag_records"`
		LagSeconds  *float64 `json:"lag_seconds"`
		CommittedAt *string  `json:"committed_at"`
	}
}

func (b *broker) group(name string) describedGroup {
	b.t.Helper()
	var d describedGroup
	if err := json.Unmarshal([]byte(b.must("", "group", "describe", name, "-o", "json")), &d); err != nil {
		b.t.Fatal(err)
	}
	return d
}

// places are what a group has committed in partitions 0, 1, ...; -1 for nothing.
func (d describedGroup) places() string {
	var all []int64
	for _, p := range d.Partitions {
		n := int64(-1)
		if p.Committed != nil {
			n = *p.Committed
		}
		all = append(all, n)
	}
	return fmt.Sprint(all)
}

func TestGroupsAreMovedListedAndDeleted(t *testing.T) {
	dir := t.TempDir()
	b := serve(t, dir)
	b.must("", "topic", "create", "t", "--partitions", "2", "--config", "message.timestamp.type=LogAppendTime")
	for p, n := range []int{5, 3} {
		b.must(strings.Repeat("m\n", n), "produce", "t", "--partition", fmt.Sprint(p))
	}
	if out := b.must("", "group", "list", "-o", "json"); out != "[]\n" {
		t.Errorf("no groups, and the list is %q", out)
	}
	wants(t, b.fails("", "group", "describe", "risk"), `group "risk" does not exist; see those that do with: mqd group list`)

	// A dry run tells and changes nothing.
	wants(t, b.must("", "group", "seek", "risk", "--topic", "t", "--to", "end"), "t      0          -     5   0      5", "nothing has been changed; add --yes to do it")
	wants(t, b.fails("", "group", "describe", "risk"), `group "risk" does not exist`)

	for _, x := range []struct{ to, want string }{
		{"end", "[5 3]"}, {"start", "[0 0]"}, {"2", "[2 2]"}, {"+2", "[4 3]"}, {"-1", "[3 2]"}, {"-100", "[0 0]"},
		{"@2000-01-01T00:00:00Z", "[0 0]"}, {"@9999999999999", "[5 3]"}, {"+9223372036854775807", "[5 3]"},
	} {
		wants(t, b.must("", "group", "seek", "risk", "--topic", "t", "--to", x.to, "--yes"), "moved")
		if got := b.group("risk").places(); got != x.want {
			t.Errorf("--to %s: %s, expected %s", x.to, got, x.want)
		}
	}
	lines := strings.Split(b.must("", "group", "seek", "risk", "--topic", "t", "--partition", "1", "--to", "0", "--yes", "-o", "jsonl"), "\n")
	if len(lines) != 2 || lines[0] != `{"topic":"t","partition":1,"from":3,"to":0,"start":0,"end":3}` {
		t.Errorf("%q", lines)
	}
	if lines = strings.Split(b.must("", "group", "list"), "\n"); len(lines) != 3 || lines[1] != "risk   none  0        2" {
		t.Errorf("%q", lines)
	}
	b.kill()
	b = serve(t, dir)
	if got := b.group("risk").places(); got != "[5 0]" {
		t.Errorf("after kill -9: %s", got)
	}
	wants(t, b.must("", "group", "delete", "risk", "--yes"), "deleted group risk")
	wants(t, b.fails("", "group", "delete", "risk"), `group "risk" does not exist`)
	b.stop()
}

func TestMistakesAboutGroupsAreOneLine(t *testing.T) {
	b := serve(t, t.TempDir())
	b.must("", "topic", "create", "t")
	for _, x := range []struct {
		args []string
		want string
	}{
		{[]string{"seek", "g", "--topic", "t"}, `--to is "", expected start, end, an offset, @TIME, +N or -N`},
		{[]string{"seek", "g", "--topic", "t", "--to", "later"}, `--to is "later", expected start`},
		{[]string{"seek", "g", "--topic", "t", "--to", "@noon"}, `expected a time such as @2026`},
		{[]string{"seek", "g", "--to", "start"}, "--topic is missing"},
		{[]string{"seek", "g", "--topic", "u", "--to", "start"}, `topic "u" does not exist`},
		{[]string{"seek", "g", "--topic", "t", "--partition", "7", "--to", "start"}, `topic "t" has no partition 7`},
		{[]string{"seek", "g", "--topic", "t", "--to", "9"}, "the offset is behind the end of t/0"},
		{[]string{"seek", strings.Repeat("g", 250), "--topic", "t", "--to", "start"}, "the name of a group has 1 to 249 bytes, not 250"},
		{[]string{"seek"}, "expected GROUP"},
		{[]string{"assign", "g", "--topic", "t", "--partition", "0"}, "expected either --instance or --nobody"},
		{[]string{"assign", "g", "--topic", "t", "--instance", "i"}, "--partition is missing"},
		{[]string{"assign", "g", "--topic", "t", "--partition", "3", "--instance", "i"}, `topic "t" has no partition 3`},
		{[]string{"describe", "g"}, `group "g" does not exist`},
		{[]string{"lst"}, `did you mean "list"`},
	} {
		wants(t, b.fails("", append([]string{"group"}, x.args...)...), x.want)
	}
	b.stop()
}

func TestGroupNamesAreCompleted(t *testing.T) {
	b := serve(t, t.TempDir())
	b.must("", "topic", "create", "orders")
	b.must("", "group", "seek", "risk", "--topic", "orders", "--to", "start", "--yes")
	b.completes("risk\n", "group", "describe", "")
	b.completes("risk\n", "group", "delete", "")
	b.completes("orders\n", "group", "seek", "risk", "--topic", "")
	b.stop()
}

// Case C10: nothing committed is no number.
func TestC10LagIsNoneWithoutACommit(t *testing.T) {
	b := serve(t, t.TempDir())
	b.must("", "topic", "create", "t", "--config", "message.timestamp.type=LogAppendTime")
	b.must("one\ntwo\n", "produce", "t")
	b.must("", "group", "assign", "g", "--topic", "t", "--partition", "0", "--instance", "i")
	d := b.group("g")
	if len(d.Partitions) != 1 || d.Partitions[0].Committed != nil || d.Partitions[0].LagRecords != nil || d.Partitions[0].LagSeconds != nil || *d.Partitions[0].End != 2 {
		t.Errorf("nothing committed: %+v", d.Partitions)
	}
	if len(d.Table) != 1 || !d.Table[0].Away || d.Table[0].Instance != "i" || d.Mode != "manual" {
		t.Errorf("the table: %+v", d)
	}
	wants(t, b.must("", "group", "describe", "g"), "t      0          i            away: the partition waits", "t      0          -          0      2    -    -        waits")
	b.must("", "group", "seek", "g", "--topic", "t", "--to", "end", "--yes")
	if d = b.group("g"); *d.Partitions[0].LagRecords != 0 || *d.Partitions[0].LagSeconds != 0 || d.Partitions[0].CommittedAt == nil {
		t.Errorf("caught up: %+v", d.Partitions)
	}
	b.must("", "group", "seek", "g", "--topic", "t", "--to", "start", "--yes")
	if d = b.group("g"); *d.Partitions[0].LagRecords != 2 || *d.Partitions[0].LagSeconds < 0 {
		t.Errorf("behind: %+v", d.Partitions)
	}
	b.stop()
}

// What is assigned by hand is told, with the way back, which works as it is printed.
func TestAssigningByHandTellsWhatChanges(t *testing.T) {
	b := serve(t, t.TempDir())
	b.must("", "topic", "create", "t", "--partitions", "3")
	b.must("a\n", "produce", "t", "--partition", "0")
	if got := b.must("", "consume", "t", "--group", "g"); got != "a\n" {
		t.Fatalf("%q", got)
	}
	const back = "mqd group assign g --topic t --partition 1 --nobody"
	assign := func(args ...string) string {
		return b.must("", append([]string{"group", "assign"}, args...)...)
	}
	if got := assign("g", "--topic", "t", "--partition", "1", "--instance", "i"); got != "assigned t/1 to i\n"+
		"the partitions of group g are assigned by hand from now on; nobody reads partitions 0,2 of topic t\n"+
		"the group divides them by itself again after: "+back+"\n" {
		t.Errorf("the first one: %q", got)
	}
	if got := b.fails("", "consume", "t", "--group", "g"); got != `mqd: the partitions of group "g" are assigned by hand, and this command has none; `+
		"see them with: mqd group describe g; without members it divides them by itself again after: "+back {
		t.Errorf("consume: %q", got)
	}
	if got := assign("g", "--topic", "t", "--partition", "0,2", "--instance", "i"); got != "assigned t/0 to i\nassigned t/2 to i\n" {
		t.Errorf("more of them: %q", got)
	}
	if got := assign(strings.Fields(strings.Replace(back, "--partition 1", "--partition 0,1,2", 1))[3:]...); strings.Count(got, "to nobody\n") != 3 || strings.Count(got, "\n") != 3 {
		t.Errorf("back: %q", got)
	}
	b.must("b\n", "produce", "t", "--partition", "0")
	if got := b.must("", "consume", "t", "--group", "g"); got != "b\n" {
		t.Errorf("after the way back: %q", got)
	}
	if got := assign("new", "--topic", "t", "--partition", "0,1,2", "--instance", "i"); got != "assigned t/0 to i\nassigned t/1 to i\nassigned t/2 to i\n"+
		"group new did not exist, and was made\nthe partitions of group new are assigned by hand from now on\n"+
		"the group divides them by itself again after: mqd group assign new --topic t --partition 0,1,2 --nobody\n" {
		t.Errorf("a new group: %q", got)
	}
	b.stop()
}

func TestSeekTellsThatItMakesAGroup(t *testing.T) {
	b := serve(t, t.TempDir())
	b.must("", "topic", "create", "t")
	for _, x := range []struct{ yes, want string }{
		{"--yes=false", "group g does not exist, and would be made\n"},
		{"--yes", "group g did not exist, and was made\n"},
		{"--yes", ""},
	} {
		r := run(t, "", "group", "seek", "g", "--topic", "t", "--to", "end", x.yes, "-o", "json", "--server", b.addr)
		if r.status != 0 || r.errs != x.want || !json.Valid([]byte(r.out)) {
			t.Errorf("%s: status %d, %q, %q", x.yes, r.status, r.errs, r.out)
		}
	}
	wants(t, b.must("", "group", "seek", "h", "--topic", "t", "--to", "end"), "group h does not exist, and would be made\n")
	b.stop()
}
