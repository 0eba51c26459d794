package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestOneFlippedBitIsFoundAndCostsOneBatch flips one bit in the middle of the second of
// three full segments. The broker that is started on them finds it by itself, counts one
// damaged place, and serves every other message; the log begins and ends where it did.
func TestOneFlippedBitIsFoundAndCostsOneBatch(t *testing.T) {
	dir := t.TempDir()
	b := serve(t, dir, "--shards", "1")
	b.must("", "topic", "create", "t", "--config", "segment.bytes=64KiB")
	in := run(t, "", "generate", "messages", "--count", "1500").out
	b.must(in, "produce", "t")
	whole := b.lines("start", 1500)
	before := b.must("", "topic", "describe", "t", "-o", "json")
	b.stop()
	logs := files(t, dir, "topics/t.*/0/*.log")
	if len(logs) < 4 {
		t.Fatalf("%d segments, expected three full ones and one that grows", len(logs))
	}
	info, err := os.Stat(logs[1])
	if err != nil {
		t.Fatal(err)
	}
	flip(t, logs[1], info.Size()/2)
	v := verify(t, dir)
	damaged := v.damages()
	if len(damaged) != 1 {
		t.Fatalf("mqd verify finds %+v", damaged)
	}
	lost := damaged[0]

	b = serve(t, dir, "--shards", "1", "--scrub-rate", "1GiB", "--scrub-interval", "1s", "--admin-listen", "127.0.0.1:0")
	for _, line := range []string{"DAMAGED: found by scrubbing", "scrubbed everything"} {
		if !b.log.wait(line) {
			t.Fatalf("the log does not say %q:\n%s", line, b.log)
		}
	}
	wants(t, b.log.String(), `"damaged":1`, fmt.Sprintf(`"first_offset":%d,`, lost.Offset), fmt.Sprintf(`"next_good_offset":%d,`, lost.EndOffset))
	if after := b.must("", "topic", "describe", "t", "-o", "json"); after != before {
		t.Errorf("the log has moved: %s, before %s", after, before)
	}
	if lost.Offset > 0 && !slices.Equal(b.lines("start", int(lost.Offset)), whole[:lost.Offset]) {
		t.Error("what is before the damage has changed")
	}
	if rest := whole[lost.EndOffset:]; !slices.Equal(b.lines(fmt.Sprint(lost.EndOffset), len(rest)), rest) {
		t.Error("what is behind the damage has changed")
	}
	what := fmt.Sprintf("topic t partition 0: what the broker has stored from offset %d to %d is damaged; go on behind it ", lost.Offset, lost.EndOffset-1)
	wants(t, b.fails("", "consume", "t", "--from", fmt.Sprint(lost.Offset)), what+fmt.Sprintf("with --partition 0 --from %d;", lost.EndOffset), "mqd verify --server "+b.addr)
	b.must("", "group", "seek", "g", "--topic", "t", "--to", fmt.Sprint(lost.Offset), "--yes")
	next := fmt.Sprintf("mqd group seek g --topic t --partition 0 --to %d --yes", lost.EndOffset)
	wants(t, b.fails("", "consume", "t", "-g", "g"), what+"after: "+next+";")
	b.must("", strings.Fields(next)[1:]...)
	if got := b.must("", "consume", "t", "-g", "g", "--count", "1"); got == "" {
		t.Error("nothing comes after the way on")
	}
	wants(t, b.metrics(), "mqd_scrub_damaged_total{shard=\"0\"} 1\n")
	b.stop()
	if n := strings.Count(b.log.String(), "DAMAGED: found by scrubbing"); n != 1 {
		t.Errorf("told %d times", n)
	}
}

// metrics are what the broker tells at its admin HTTP, whose address stands in its log.
func (b *broker) metrics() string {
	b.t.Helper()
	var line struct{ Msg, Address string }
	for text := range strings.Lines(b.log.String()) {
		if err := json.Unmarshal([]byte(text), &line); err == nil && line.Msg == "admin HTTP" {
			break
		}
	}
	answer, err := http.Get("http://" + line.Address + "/metrics")
	if err != nil {
		b.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return string(text)
}

// lines are the values of n messages from a place on.
func (b *broker) lines(from string, n int) []string {
	b.t.Helper()
	out := b.must("", "consume", "t", "--from", from, "--count", fmt.Sprint(n))
	return strings.Split(strings.TrimSuffix(out, "\n"), "\n")
}
