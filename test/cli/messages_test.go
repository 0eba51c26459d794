package cli

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestAFileGoesInAndComesOutTheSame(t *testing.T) {
	b := serve(t, t.TempDir())
	text := run(t, "", "generate", "messages", "--count", "20000", "--seed", "7").out + "\n\r\n\x00\xff\n" + strings.Repeat("x", 300_000)
	file := filepath.Join(t.TempDir(), "in")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		b.must("", "topic", "create", codec)
		wants(t, b.must("", "produce", codec, "--file", file, "--compression", codec, "--min-class", "flushed"),
			"20,004 messages, ", "class flushed", "ack p50")
		if out := b.must("", "consume", codec); out != text+"\n" {
			t.Errorf("%s: %d bytes came out, %d went in", codec, len(out), len(text))
		}
	}
	b.stop()
}

func TestJSONLinesGoRoundWithKeysHeadersAndPartitions(t *testing.T) {
	b := serve(t, t.TempDir(), "--shards", "2")
	b.must("", "topic", "create", "a", "--partitions", "4")
	b.must("", "topic", "create", "b", "--partitions", "4")
	b.must(`{"key":"k","value":"v","headers":{"h":"1"},"partition":3,"timestamp":1700000000000}
{"value_base64":"/wA=","partition":3}
{"key":"only a key","value":null,"partition":1}

{"value":"line\nbreak \"quoted\" ü","partition":0}
`, "produce", "a", "--input", "jsonl")
	sorted := func(topic string) string {
		lines := strings.Split(b.must("", "consume", topic, "-o", "json"), "\n")
		slices.Sort(lines)
		return strings.Join(lines, "\n")
	}
	first := sorted("a")
	wants(t, first, `{"partition":3,"offset":0,"timestamp":1700000000000,"key":"k","value":"v","headers":[{"key":"h","value":"1"}]}`,
		`"key":null,"value_base64":"/wA=","headers":[]}`, `"key":"only a key","value":null`, `"value":"line\nbreak \"quoted\" ü"`)
	b.must(first, "produce", "b", "--input", "jsonl")
	if second := sorted("b"); second != first {
		t.Errorf("a copy differs:\n%s\n%s", first, second)
	}
	line := b.fails("{}\n{\"partition\":9}\n", "produce", "a", "--input", "jsonl")
	wants(t, line, "all 1 messages that were read are acknowledged", "partition 9", "topic a has 4")
	line = b.fails("{}\n{}\nnonsense\n", "produce", "a", "--input", "jsonl")
	wants(t, line, "all 2 messages that were read are acknowledged", "line 3")
	b.stop()
}

func TestKeysDecideThePartition(t *testing.T) {
	b := serve(t, t.TempDir())
	b.must("", "topic", "create", "t", "--partitions", "4")
	var in strings.Builder
	for i := range 200 {
		fmt.Fprintf(&in, "key%d\tvalue%d\n", i%10, i)
	}
	b.must(in.String(), "produce", "t", "--key-separator", `\t`)
	home, last := map[string]int32{}, map[string]int{}
	for _, m := range parse(t, b.must("", "consume", "t", "-o", "json")) {
		if p, known := home[*m.Key]; known && p != m.Partition {
			t.Errorf("%s is in partitions %d and %d", *m.Key, p, m.Partition)
		}
		home[*m.Key] = m.Partition
		n, err := strconv.Atoi(strings.TrimPrefix(*m.Value, "value"))
		if before, seen := last[*m.Key]; err != nil || seen && before >= n {
			t.Errorf("%s: value%d after value%d, %v", *m.Key, n, before, err)
		}
		last[*m.Key] = n
	}
	if len(home) != 10 {
		t.Errorf("%d keys came out", len(home))
	}
	b.stop()
}

func TestConsumeBeginsAndEndsWhereItIsTold(t *testing.T) {
	b := serve(t, t.TempDir())
	b.must("", "topic", "create", "one")
	b.must("", "topic", "create", "two", "--partitions", "2")
	var in strings.Builder
	for i := range 10 {
		fmt.Fprintf(&in, `{"value":"%d","timestamp":%d}`+"\n", i, 1_700_000_000_000+1000*i)
	}
	b.must(in.String(), "produce", "one", "--input", "jsonl", "--batch-messages", "1")
	for args, want := range map[string]string{
		"":                             "0123456789",
		"--from start --count 3":       "012",
		"--from 7":                     "789",
		"--from 7 --count 1":           "7",
		"--from 10":                    "",
		"--from end":                   "",
		"--from @1700000004000":        "456789",
		"--from @1700000003999":        "456789",
		"--from @2023-11-14T22:13:28Z": "89",
		"--from @2100-01-01T00:00:00Z": "",
		"--partition 0 --from 9":       "9",
	} {
		out := b.must("", append([]string{"consume", "one"}, strings.Fields(args)...)...)
		if got := strings.ReplaceAll(out, "\n", ""); got != want {
			t.Errorf("consume %s: %q, want %q", args, got, want)
		}
	}
	wants(t, b.fails("", "consume", "one", "--from", "11"), "offset 11 is not in partition 0 of topic one, which has 0 to 10")
	wants(t, b.fails("", "consume", "two", "--from", "0"), "topic two has 2", "--partition")
	b.must("a\n", "produce", "two", "--partition", "1")
	if out := b.must("", "consume", "two", "--partition", "0"); out != "" {
		t.Errorf("partition 0 has %q", out)
	}
	if out := b.must("", "consume", "two"); out != "a\n" {
		t.Errorf("the topic has %q", out)
	}
	r := run(t, "", "consume", "one", "--summary", "--server", b.addr)
	wants(t, r.errs, "10 messages, 10 B in ")
	b.stop()
}

func TestFollowWaitsForMore(t *testing.T) {
	b := serve(t, t.TempDir())
	b.must("", "topic", "create", "t", "--partitions", "2")
	b.must("before\n", "produce", "t")
	cmd := exec.Command(mqd, "consume", "t", "--follow", "--server", b.addr)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	lines := bufio.NewScanner(out)
	for _, want := range []string{"before", "after", "later"} {
		if want != "before" {
			b.must(want+"\n", "produce", "t", "--partition", "1")
		}
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("%q, want %q; %v", lines.Text(), want, lines.Err())
		}
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("an interrupted consumer ended with %v", err)
	}
	b.stop()
}

func TestATopicThatPromisesTooLittleIsRefused(t *testing.T) {
	b := serve(t, t.TempDir())
	b.must("", "topic", "create", "weak", "--durability", "memory")
	wants(t, b.fails("a\n", "produce", "weak", "--min-class", "flushed"), "durability class is weaker", "memory")
	wants(t, b.must("a\n", "produce", "weak", "--min-class", "memory"), "class memory")
	b.stop()
}

func TestAMessageThatIsTooLargeIsRefused(t *testing.T) {
	b := serve(t, t.TempDir())
	b.must("", "topic", "create", "t", "--config", "max.message.bytes=64KiB")
	line := b.fails("small\n"+strings.Repeat("x", 100_000)+"\n", "produce", "t")
	wants(t, line, "1 of 2 messages acknowledged", "max.message.bytes")
	line = b.fails(strings.Repeat("x", 2<<20)+"\n", "produce", "t")
	wants(t, line, "nothing was sent", "message 1 of the input, 2097152 bytes, is too large", "--max-message-bytes")
	if out := b.must("", "consume", "t"); out != "small\n" {
		t.Errorf("the topic has %d bytes", len(out))
	}
	b.stop()
}

func TestTheSummaryIsJSONIfAsked(t *testing.T) {
	b := serve(t, t.TempDir())
	b.must("", "topic", "create", "t")
	out := b.must("a\nbb\n", "produce", "t", "-o", "json")
	wants(t, out, `"messages": 2`, `"acknowledged": 2`, `"failed": 0`, `"unknown": 0`, `"bytes": 3`, `"p99.9":`, `"class": "flushed"`)
	b.stop()
}

func TestTheFileOfAcknowledgementsFollowsTheInput(t *testing.T) {
	b := serve(t, t.TempDir())
	b.must("", "topic", "create", "t", "--partitions", "3")
	acks := filepath.Join(t.TempDir(), "acks")
	in := run(t, "", "generate", "messages", "--count", "5000").out
	b.must(in, "produce", "t", "--acks-file", acks)
	checkAcks(t, b, "t", acks, strings.Split(in, "\n"), 5000)
	b.stop()
}

// checkAcks compares a file of acknowledgements with the topic: at each place is
// the message of the input with that number.
func checkAcks(t *testing.T, b *broker, topic, acks string, in []string, least int) {
	t.Helper()
	type place struct {
		partition int32
		offset    int64
	}
	stored := map[place]string{}
	for _, m := range parse(t, b.must("", "consume", topic, "-o", "json")) {
		stored[place{m.Partition, m.Offset}] = *m.Value
	}
	text, err := os.ReadFile(acks)
	if err != nil {
		t.Fatal(err)
	}
	n, last := 0, 0
	for line := range strings.Lines(string(text)) {
		var p place
		var number int
		if _, err := fmt.Sscanf(line, "%d %d %d\n", &p.partition, &p.offset, &number); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		if number <= last {
			t.Fatalf("message %d follows message %d", number, last)
		}
		if stored[p] != in[number-1] {
			t.Fatalf("message %d was acknowledged at %+v, where there is %q", number, p, stored[p])
		}
		last = number
		n++
	}
	if n < least {
		t.Errorf("%d acknowledgements, want %d", n, least)
	}
}

func TestErrorsAreSaidOnceAndWithoutInternals(t *testing.T) {
	b := serve(t, t.TempDir())
	b.must("", "topic", "create", "t")
	b.must("hello\n", "produce", "t")
	if _, err := os.Stat("/dev/full"); err == nil {
		out := exec.Command("sh", "-c", `exec "$0" consume t --server "$1" > /dev/full`, mqd, b.addr)
		if text, err := out.CombinedOutput(); err == nil || strings.Count(string(text), "no space left") != 1 {
			t.Errorf("%v, expected one line about the full device: %s", err, text)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() { // answers as a server of HTTP does
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			_, _ = c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
			defer c.Close()
		}
	}()
	line := oneLine(t, run(t, "", "topic", "list", "--server", l.Addr().String()))
	wants(t, line, "speaks another protocol", "--listen", "--server")
	if strings.Contains(line, "wire:") || strings.Count(line, "mqd:") != 1 {
		t.Errorf("a person reads %s", line)
	}
	b.stop()
}
