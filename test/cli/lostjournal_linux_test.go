package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// offsets are those that a topic has, by partition, with what is there.
func (b *broker) offsets(topic string) map[string]string {
	b.t.Helper()
	all := map[string]string{}
	for line := range strings.Lines(b.must("", "consume", topic, "-o", "json")) {
		var m struct {
			Partition, Offset int64
			Value             string
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			b.t.Fatal(err)
		}
		at := fmt.Sprintf("%d/%d", m.Partition, m.Offset)
		if _, twice := all[at]; twice {
			b.t.Fatalf("%s twice", at)
		}
		all[at] = m.Value
	}
	return all
}

// underLoad kills the broker while a producer is at work.
func (b *broker) underLoad(topic string) {
	b.t.Helper()
	load := exec.Command(mqd, "produce", topic, "--server", b.addr)
	in, err := load.StdinPipe()
	if err != nil {
		b.t.Fatal(err)
	}
	if err := load.Start(); err != nil {
		b.t.Fatal(err)
	}
	for range 1000 {
		fmt.Fprintln(in, "load")
	}
	b.kill()
	_ = load.Process.Kill()
	_ = in.Close()
	_ = load.Wait() // killed
}

// owners are the shards of a topic's partitions. They are drawn with the topic's ID.
func (b *broker) owners(topic string) (shards []int) {
	b.t.Helper()
	var d struct{ Partitions []struct{ Shard int } }
	if err := json.Unmarshal([]byte(b.must("", "topic", "describe", topic, "-o", "json")), &d); err != nil {
		b.t.Fatal(err)
	}
	for _, p := range d.Partitions {
		shards = append(shards, p.Shard)
	}
	return shards
}

// refuses checks that no broker starts without a shard's journal, and that a salvage without
// an order tells what is lost, of the partitions that the shard owns, and changes nothing.
func refuses(t *testing.T, dir, shards string, lost int, owners []int) {
	t.Helper()
	name := fmt.Sprintf("journals/journal-%d", lost)
	journal := filepath.Join(dir, filepath.FromSlash(name))
	r := run(t, "", append([]string{"serve", "--data-dir", dir, "--listen", "127.0.0.1:0", "--shards", shards}, small...)...)
	if r.status == 0 || !strings.Contains(r.errs, "there is no "+journal) {
		t.Fatalf("start without the journal: status %d, %s", r.status, r.errs)
	}
	was := fingerprint(t, dir)
	plan := salvage(t, dir)
	if plan.status != 2 || plan.summary["journals"] != 1.0 || !strings.Contains(plan.errs, "--yes gives them up") {
		t.Fatalf("%s: status %d, %s%s", journal, plan.status, plan.out, plan.errs)
	}
	out := run(t, "", "salvage", "--data-dir", dir).out
	wants(t, out, "LOST JOURNAL: "+name+": it is missing", "and the partition goes on at")
	for p, owner := range owners {
		line := fmt.Sprintf("LOST JOURNAL: topic flushed partition %d: %s: ", p, name)
		if strings.Contains(out, line) != (owner == lost) {
			t.Errorf("partition %d is on shard %d, the journal of shard %d is lost:\n%s", p, owner, lost, out)
		}
	}
	if fingerprint(t, dir) != was {
		t.Fatal("something was changed without an order")
	}
}

// TestALostJournalIsGivenUp kills a broker under load and removes a journal: no start; a
// salvage tells what is lost, and accepts it on an order; then everything up to the
// checkpoint is there, offsets go on above all that were given out, and a group goes on.
func TestALostJournalIsGivenUp(t *testing.T) {
	for _, c := range []struct {
		shards int
		other  bool // the journal that is lost is not the one of partition 0
	}{{1, false}, {2, false}, {2, true}} {
		dir, shards := stopped(t), fmt.Sprint(c.shards)
		b := serve(t, dir, "--shards", shards)
		// Ids of topics are random: of so many partitions with messages each shard has some.
		b.must("", "topic", "alter", "flushed", "--partitions", "32")
		b.must(run(t, "", "generate", "messages", "--count", "3000").out, "produce", "flushed")
		b.must("", "group", "seek", "g", "--topic", "flushed", "--to", "end", "--yes")
		before := b.offsets("flushed")
		b.stop()
		b = serve(t, dir, "--shards", shards)
		b.must(strings.Repeat("more\n", 100), "produce", "flushed")
		had := b.offsets("flushed")
		owners := b.owners("flushed")
		lost := owners[0]
		if c.other {
			lost = 1 - lost
		}
		b.underLoad("flushed")
		if err := os.Remove(filepath.Join(dir, "journals", fmt.Sprintf("journal-%d", lost))); err != nil {
			t.Fatal(err)
		}
		refuses(t, dir, shards, lost, owners)
		if s := salvage(t, dir, "--yes"); s.status != 0 || s.errs != "" {
			t.Fatalf("%+v: status %d, %s%s", c, s.status, s.out, s.errs)
		}
		if v := verify(t, dir); v.status != 0 {
			t.Errorf("%+v: verify: status %d, %+v", c, v.status, v.findings)
		}
		b = serve(t, dir, "--shards", shards)
		got := b.offsets("flushed")
		for at, value := range before {
			if got[at] != value {
				t.Fatalf("%+v: %s is %q, expected %q", c, at, got[at], value)
			}
		}
		for at, value := range had {
			if v, ok := got[at]; ok && v != value {
				t.Fatalf("%+v: %s is %q, was %q", c, at, v, value)
			}
		}
		behind := int64(0)
		for _, p := range b.group("g").Partitions {
			behind += *p.LagRecords
		}
		if behind != int64(len(got)-len(before)) {
			t.Errorf("%+v: the group is %d behind, expected %d", c, behind, len(got)-len(before))
		}
		for p := range 3 { // of old ones
			b.must("again\n", "produce", "flushed", "--partition", fmt.Sprint(p))
		}
		now := b.offsets("flushed")
		if len(now) != len(got)+3 {
			t.Errorf("%+v: %d messages, expected %d", c, len(now), len(got)+3)
		}
		for at := range now {
			if _, old := got[at]; !old && had[at] != "" {
				t.Errorf("%+v: %s was given out twice", c, at)
			}
		}
		b.must("", "verify")
		b.kill()
		if v := verify(t, dir); v.status != 0 {
			t.Errorf("%+v: verify behind a kill: status %d, %+v", c, v.status, v.findings)
		}
	}
}
