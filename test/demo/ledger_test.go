package main

import (
	"fmt"
	"strings"
	"testing"
)

func texts(values ...string) [][]byte {
	var all [][]byte
	for _, v := range values {
		all = append(all, []byte(v))
	}
	return all
}

// sent is a ledger of two partitions with messages a to f: a, c and d are
// acknowledged in partition 0, b in partition 1; e and f are not.
func sent(t *testing.T) *ledger {
	t.Helper()
	l := newLedger(2)
	if first := l.send(texts("a", "b")); first != 0 {
		t.Fatalf("the first message has number %d", first)
	}
	if first := l.send(texts("c", "d", "e", "f")); first != 2 {
		t.Fatalf("the third message has number %d", first)
	}
	for _, a := range []struct {
		partition int32
		offset    int64
		number    int
	}{{0, 0, 0}, {1, 0, 1}, {0, 1, 2}, {0, 2, 3}} {
		if err := l.ack(a.partition, a.offset, a.number); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

func TestWhatIsReadIsJudged(t *testing.T) {
	for name, c := range map[string]struct {
		read string // partition, offset and text
		want string // part of the error, "" for none
	}{
		"everything":                        {"0 0 a, 0 1 c, 1 0 b, 0 2 d", ""},
		"more that was on its way":          {"0 0 a, 0 1 c, 1 0 b, 0 2 d, 0 3 e, 1 1 f", ""},
		"an acknowledged one is lost":       {"0 0 a, 0 1 c, 1 0 b", "1 acknowledged ones lost"},
		"all of a partition is lost":        {"1 0 b", "3 acknowledged ones lost"},
		"one in the middle is lost":         {"0 0 a, 0 2 d, 1 0 b", "offset 2 where 1 comes next"},
		"a byte has changed":                {"0 0 a, 0 1 C, 1 0 b, 0 2 d", "message 2 has changed"},
		"two have changed places":           {"0 0 a, 0 1 d, 1 0 b, 0 2 c", "message 2 has changed"},
		"one is there twice":                {"0 0 a, 0 1 c, 1 0 b, 0 2 d, 0 3 e, 1 1 e", "message 4 for the second time"},
		"an acknowledged one is there more": {"0 0 a, 0 1 c, 1 0 b, 0 2 d, 1 1 d", "nobody sent"},
		"one that nobody sent":              {"0 0 a, 0 1 c, 1 0 b, 0 2 d, 0 3 x", "nobody sent"},
		"out of order":                      {"0 0 a, 0 1 c, 1 0 b, 0 2 d, 0 3 f, 0 4 e", "message 4 behind message 5"},
		"an offset is empty":                {"0 0 a, 0 1 c, 1 0 b, 0 2 d, 1 2 f", "offset 2 where 1 comes next"},
		"a partition that is not there":     {"0 0 a, 0 1 c, 1 0 b, 0 2 d, 2 0 e", "does not exist"},
	} {
		r := sent(t).read()
		for text := range strings.SplitSeq(c.read, ", ") {
			var partition int32
			var offset int64
			var value string
			if _, err := fmt.Sscan(text, &partition, &offset, &value); err != nil {
				t.Fatal(err)
			}
			r.record(partition, offset, []byte(value))
		}
		err := r.done()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, expected %q", name, err, c.want)
		}
	}
}

func TestAcknowledgementsThatContradictEachOtherAreRefused(t *testing.T) {
	l := sent(t)
	for name, err := range map[string]error{
		"an offset given twice": l.ack(0, 2, 4),
		"no such partition":     l.ack(2, 0, 4),
		"no such message":       l.ack(0, 9, 6),
	} {
		if err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

func TestReadingTakesWhatConsumeWrites(t *testing.T) {
	l := newLedger(1)
	l.send([][]byte{[]byte("plain ✓"), {0xff, 0x00, '\n'}, {}})
	for n := range 3 {
		if err := l.ack(0, int64(n), n); err != nil {
			t.Fatal(err)
		}
	}
	r := l.read()
	err := parse(strings.NewReader(`{"partition":0,"offset":0,"timestamp":1,"key":null,"value":"plain ✓","headers":[]}
{"partition":0,"offset":1,"timestamp":1,"key":null,"value_base64":"/wAK","headers":[]}
{"partition":0,"offset":2,"timestamp":1,"key":null,"value":"","headers":[]}
`), r)
	if err != nil || r.done() != nil {
		t.Errorf("%v, %v", err, r.done())
	}
	if err := parse(strings.NewReader(`{"partition":0,"off`), r); err == nil {
		t.Error("half a line was taken")
	}
}

func TestGeneratedMessagesHaveTheSizesOfAlerts(t *testing.T) {
	const n = 20_000
	sum := 0
	seen := map[string]bool{}
	for _, m := range noise(n, 7) {
		if len(m) < leastSize || len(m) > mostSize || seen[string(m)] {
			t.Fatalf("a message of %d bytes, expected %d to %d and none twice", len(m), leastSize, mostSize)
		}
		seen[string(m)] = true
		sum += len(m)
	}
	if mean := sum / n; mean < meanSize-5 || mean > meanSize+5 {
		t.Errorf("mean size %d, expected about %d", mean, meanSize)
	}
	if again := noise(n, 7); !seen[string(again[n-1])] {
		t.Error("the same seed gives other messages")
	}
}

func TestLinesEndAtNewlinesAndNowhereElse(t *testing.T) {
	for text, want := range map[string]int{"": 0, "a": 1, "a\n": 1, "a\nb": 2, "a\n\n": 2, "a\r\nb\n": 2, "\n": 1} {
		if got := lines([]byte(text)); len(got) != want {
			t.Errorf("%q has %d lines, expected %d", text, len(got), want)
		}
	}
}
