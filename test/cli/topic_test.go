package cli

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
)

func TestTopicsLiveFromCreateToDelete(t *testing.T) {
	dir := t.TempDir()
	b := serve(t, dir)
	wants(t, b.must("", "topic", "create", "orders", "--partitions", "3"), "created topic orders: partitions 3, class flushed")
	wants(t, b.must("", "topic", "create", "ticks", "-p", "2", "--durability", "memory", "--config", "flush.interval=20ms", "--config", "segment.bytes=1MiB"),
		"created topic ticks: partitions 2, class memory")

	lines := strings.Split(b.must("", "topic", "list"), "\n")
	if len(lines) != 4 || !strings.HasPrefix(lines[1], "orders  3           flushed") || !strings.HasPrefix(lines[2], "ticks   2           memory") {
		t.Errorf("list: %q", lines)
	}
	columns := regexp.MustCompile(" +") // as wide as their longest word
	about := columns.ReplaceAllString(b.must("", "topic", "describe", "ticks"), " ")
	wants(t, about, "class memory: a crash of the broker can lose", "flush.interval 20ms", "segment.bytes 1MiB")

	rows := strings.Split(strings.TrimSpace(b.must("", "topic", "list", "-o", "jsonl")), "\n")
	if len(rows) != 2 || !strings.HasPrefix(rows[0], `{"name":"orders",`) || !strings.HasSuffix(rows[1], `,"partitions":2}`) {
		t.Errorf("list in lines: %q", rows)
	}
	rows = strings.Split(strings.TrimSpace(b.must("", "topic", "describe", "orders", "-o", "jsonl")), "\n")
	if len(rows) != 3 || !strings.HasPrefix(rows[2], `{"partition":2,"shard":`) {
		t.Errorf("partitions in lines: %q", rows)
	}

	b.must("", "topic", "alter", "ticks", "--durability", "flushed", "--config", "segment.bytes=2MiB", "--unset", "flush.interval")
	about = columns.ReplaceAllString(b.must("", "topic", "describe", "ticks"), " ")
	wants(t, about, "class flushed: nothing acknowledged is lost", "segment.bytes 2MiB")
	if strings.Contains(about, "20ms") {
		t.Errorf("flush.interval is still set: %s", about)
	}

	wants(t, b.must("", "topic", "alter", "ticks", "-p", "5", "--config", "segment.bytes=3MiB"), "altered topic ticks")
	wants(t, b.fails("", "topic", "alter", "ticks", "--partitions", "4"), "can only be more")
	about = columns.ReplaceAllString(b.must("", "topic", "describe", "ticks"), " ")
	wants(t, about, "segment.bytes 3MiB")

	b.must("", "topic", "delete", "orders", "--yes")
	b.stop()
	b = serve(t, dir)
	var topics []struct {
		Name, Class, ID string
		Partitions      int
	}
	if err := json.Unmarshal([]byte(b.must("", "topic", "list", "-o", "json")), &topics); err != nil {
		t.Fatal(err)
	}
	if len(topics) != 1 || topics[0].Name != "ticks" || topics[0].Class != "flushed" || topics[0].Partitions != 5 || len(topics[0].ID) != 32 {
		t.Errorf("after a restart: %+v", topics)
	}
	b.must("", "topic", "delete", "ticks", "--yes")
	if out := b.must("", "topic", "list", "-o", "json"); out != "[]\n" {
		t.Errorf("nothing is left, and the list is %q", out)
	}
	b.stop()
}

func TestDescribeTellsOffsetsShardsAndBytes(t *testing.T) {
	b := serve(t, t.TempDir(), "--shards", "2")
	b.must("", "topic", "create", "t", "--partitions", "32")
	b.must("one\ntwo\n", "produce", "t", "--partition", "5")
	var d struct {
		Name, Class  string
		ExposedBytes int64 `json:"exposed_bytes"`
		Partitions   []struct {
			Partition, Shard           int
			Start, Durable, End, Bytes int64
		}
		Configs []struct{ Key, Value, Source string }
	}
	if err := json.Unmarshal([]byte(b.must("", "topic", "describe", "t", "-o", "json")), &d); err != nil {
		t.Fatal(err)
	}
	shards := map[int]bool{}
	for i, p := range d.Partitions {
		shards[p.Shard] = true
		want := int64(0)
		if i == 5 {
			want = 2
		}
		if p.Partition != i || p.Start != 0 || p.Durable != want || p.End != want || (p.Bytes > 0) != (want > 0) {
			t.Errorf("%+v", p)
		}
	}
	if len(d.Partitions) != 32 || len(shards) != 2 || d.Class != "flushed" || d.ExposedBytes != 0 || len(d.Configs) == 0 {
		t.Errorf("%+v", d)
	}
	b.stop()
}

func TestMistakesWithTopicsAreExplained(t *testing.T) {
	b := serve(t, t.TempDir())
	b.must("", "topic", "create", "orders")
	for args, want := range map[string][]string{
		"topic create orders":                                        {`topic "orders" exists already`, "mqd topic describe orders"},
		"topic describe nope":                                        {`topic "nope" does not exist`, "mqd topic create nope"},
		"topic delete nope":                                          {`topic "nope" does not exist`},
		"topic alter nope --config segment.bytes=1MiB":               {`topic "nope" does not exist`},
		"topic create two/words":                                     {`"two/words"`, "has \"/\" at 3"},
		"topic create x --config sgment.bytes=1MiB":                  {`topic "x"`, `unknown setting "sgment.bytes"`, "segment.bytes"},
		"topic create x --config segment.bytes=1":                    {"segment.bytes is 1", "16KiB to 2GiB"},
		"topic create x --partitions 1000000":                        {"partitions"},
		"topic create x --config durability=fsync":                   {"durability", `"fsync"`, "memory, written, flushed"},
		"topic create x --durability written --config class=flushed": {"class"},
		"produce nope":                                               {`topic "nope" does not exist`, "mqd topic create nope"},
		"consume nope":                                               {`topic "nope" does not exist`},
		"consume orders --partition 3":                               {`topic "orders" has no partition 3`},
		"produce orders --partition 3":                               {`topic "orders" has no partition 3`},
		"topic alter orders --partitions 0":                          {"--partitions is 0, expected 1 or more, and not fewer than the topic has"},
		"topic create x --partitions -1":                             {"--partitions is -1, expected 0 or more"},
		"consume orders --from 5":                                    {"offset 5 is not in partition 0", "0 to 0"},
	} {
		wants(t, b.fails("", strings.Fields(args)...), want...)
	}
	b.stop()
}

func TestABrokerThatIsNotThereIsNamed(t *testing.T) {
	const nobody = "127.0.0.1:1"
	for _, args := range []string{"topic list", "topic create t", "produce t", "consume t"} {
		line := oneLine(t, run(t, "", append(strings.Fields(args), "--server", nobody)...))
		wants(t, line, "no broker listens at "+nobody, "mqd serve", "--server")
	}
	t.Setenv("MQD_SERVER", nobody)
	wants(t, oneLine(t, run(t, "", "topic", "list")), nobody)
	wants(t, oneLine(t, run(t, "", "topic", "list", "-s", "no-such-host.onion")), "no-such-host.onion:7878 is not known") // without asking anybody
}

func TestTopicsAreCreatedOnDemandOnlyIfTold(t *testing.T) {
	b := serve(t, t.TempDir(), "--auto-create-topics", "--default-partitions", "3")
	b.must("a\n", "produce", "sudden")
	wants(t, b.must("", "topic", "list"), "sudden  3")
	b.stop()
}

// completes expects the shell to be told how a command line goes on. A broker that does not
// answer within a second is not waited for: then it is told nothing.
func (b *broker) completes(want string, args ...string) {
	b.t.Helper()
	var r result
	for range 20 {
		r = run(b.t, "", append([]string{"__complete", args[0], "--server", b.addr}, args[1:]...)...)
		if strings.HasPrefix(r.out, want) {
			return
		}
		if lines := strings.Count(r.out, "\n"); lines > 1 {
			break
		}
	}
	b.t.Errorf("%q: %q %q", args, r.out, r.errs)
}

func TestTopicNamesAreCompleted(t *testing.T) {
	b := serve(t, t.TempDir())
	b.must("", "topic", "create", "orders")
	b.must("", "topic", "create", "ticks")
	for _, verb := range []string{"consume", "produce", "topic describe"} {
		b.completes("orders\nticks\n", append(strings.Fields(verb), "")...)
	}
	b.stop()
}
