package messages

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf8"

	"github.com/mqd-broker/mqd/client"
	"pgregory.net/rapid"
)

// readAll reads copies of all messages.
func readAll(r Reader) ([]Message, error) {
	var all []Message
	for {
		m, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		m.Key, m.Value = bytes.Clone(m.Key), bytes.Clone(m.Value)
		all = append(all, m)
	}
}

func TestLinesAreCutAtNewlinesAndKeptByteForByte(t *testing.T) {
	long := strings.Repeat("x", 600<<10)
	for input, want := range map[string][]string{
		"":                       nil,
		"a":                      {"a"},
		"a\n":                    {"a"},
		"a\nb":                   {"a", "b"},
		"\n\n":                   {"", ""},
		"a\r\n b \t\n":           {"a\r", " b \t"},
		"\x00\xff\n":             {"\x00\xff"},
		long + "\n" + long + "y": {long, long + "y"},
	} {
		for _, r := range []io.Reader{strings.NewReader(input), iotest.DataErrReader(strings.NewReader(input))} {
			all, err := readAll(NewLineReader(r, nil))
			if err != nil || len(all) != len(want) {
				t.Fatalf("%.20q: %d messages, %v", input, len(all), err)
			}
			for i, m := range all {
				if string(m.Value) != want[i] || m.Value == nil && want[i] != "" || m.Key != nil || m.Partition != AnyPartition {
					t.Errorf("%.20q: message %d is %.20q", input, i, m.Value)
				}
			}
		}
	}
}

func TestAnInputThatBreaksIsAnError(t *testing.T) {
	broken := io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(io.ErrClosedPipe))
	all, err := readAll(NewLineReader(broken, nil))
	if len(all) != 1 || !errors.Is(err, io.ErrClosedPipe) || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("%d messages, %v", len(all), err)
	}
}

func TestTheKeyIsWhatComesBeforeTheFirstSeparator(t *testing.T) {
	all, err := readAll(NewLineReader(strings.NewReader("k::v::w\n::v\nnone\n::\n"), []byte("::")))
	if err != nil {
		t.Fatal(err)
	}
	want := [][2][]byte{{[]byte("k"), []byte("v::w")}, {{}, []byte("v")}, {nil, []byte("none")}, {{}, {}}}
	for i, m := range all {
		if !bytes.Equal(m.Key, want[i][0]) || (m.Key == nil) != (want[i][0] == nil) || !bytes.Equal(m.Value, want[i][1]) {
			t.Errorf("message %d is %q %q", i, m.Key, m.Value)
		}
	}
}

func TestLinesOfJSONBecomeRecords(t *testing.T) {
	for line, want := range map[string]Message{
		`{}`:                               {Partition: AnyPartition},
		`{"key":null,"value":null}`:        {Partition: AnyPartition},
		`{"value":""}`:                     {Record: client.Record{Value: []byte{}}, Partition: AnyPartition},
		`{"key":"k","value":"ü\n\u0000"}`:  {Record: client.Record{Key: []byte("k"), Value: []byte("ü\n\x00")}, Partition: AnyPartition},
		`{"value_base64":"AP8="}`:          {Record: client.Record{Value: []byte{0, 255}}, Partition: AnyPartition},
		`{"key_base64":"/w==","offset":7}`: {Record: client.Record{Key: []byte{255}}, Partition: AnyPartition},
		`{"partition":3,"timestamp":1000}`: {Record: client.Record{Time: time.UnixMilli(1000)}, Partition: 3},
		`{"timestamp":null}`:               {Partition: AnyPartition},
		`{"headers":[{"key":"a","value":"1"},{"key":"a","value_base64":"/w=="},{"key_base64":"/w=="}]}`: {
			Record: client.Record{Headers: []client.Header{{Key: "a", Value: []byte("1")}, {Key: "a", Value: []byte{255}}, {Key: "\xff"}}}, Partition: AnyPartition},
		`{"headers":{"b":"1","a":null}}`: {
			Record: client.Record{Headers: []client.Header{{Key: "b", Value: []byte("1")}, {Key: "a"}}}, Partition: AnyPartition},
	} {
		m, err := parseMessage([]byte(line))
		if err != nil || !reflect.DeepEqual(m, want) {
			t.Errorf("%s is %+v, %v\nwant %+v", line, m, err, want)
		}
	}
}

func TestBadLinesOfJSONAreNamed(t *testing.T) {
	for line, want := range map[string]string{
		`{"vlaue":"x"}`:                       `line 3: unknown field "vlaue"`,
		`{"value":"x"} {}`:                    "more than one",
		`{"value":"x","value_base64":"AA=="}`: "both value and value_base64",
		`{"value_base64":"!"}`:                "base64",
		`{"value":7}`:                         "value: found number, expected a string",
		`{"partition":"0"}`:                   "partition: found string, expected a whole number of 32 bits",
		`7`:                                   "found number, expected an object",
		`{"partition":-1}`:                    "partition -1",
		`[]`:                                  "array",
		`{`:                                   "the line ends before its JSON object does",
		`hello`:                               "no JSON object",
		"{\"value\":\"\xff\"}":                "UTF-8",
		`{"headers":[{"name":"x"}]}`:          "name",
		`{"headers":[{"key":"a","key_base64":""}]}`: "both key",
		`{"headers":{"a":1}}`:                       "number",
		`{"headers":"x"}`:                           "string",
	} {
		_, err := readAll(NewJSONReader(strings.NewReader("\n{}\n" + line + "\n")))
		if err == nil || !strings.HasPrefix(err.Error(), "line 3: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
}

func TestEveryMessageWithoutAWishIsPlacedByKeyOrSpread(t *testing.T) {
	c := &Chooser{Wanted: AnyPartition}
	const n = 3
	count := map[int32]int{}
	for range 3 * spreadRun * n {
		count[c.Partition(nil, n)]++
	}
	for p := range int32(n) {
		if count[p] != 3*spreadRun {
			t.Errorf("partition %d got %d of %v", p, count[p], count)
		}
	}
	if c.Partition([]byte("k"), n) != c.Partition([]byte("k"), n) {
		t.Error("one key went to two partitions")
	}
	if c.Wanted = 2; c.Partition([]byte("k"), n) != 2 || c.Partition(nil, n) != 2 {
		t.Error("the wish was not heard")
	}
}

// jsonOf writes a message as mqd consume does, without headers, which only the
// broker can give to a view.
func jsonOf(partition int32, offset int64, key, value []byte, at time.Time) []byte {
	return appendView(nil, partition, &client.RecordView{Offset: offset, Key: key, Value: value, Time: at})
}

func TestWhatConsumeWritesIsJSONAndWhatProduceReads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bytesOrNil := rapid.OneOf(rapid.Just([]byte(nil)), rapid.SliceOf(rapid.Byte()),
			rapid.Map(rapid.String(), func(s string) []byte { return []byte(s) }))
		key, value := bytesOrNil.Draw(t, "key"), bytesOrNil.Draw(t, "value")
		at := time.UnixMilli(rapid.Int64Range(0, 1<<45).Draw(t, "at"))
		partition := rapid.Int32Min(0).Draw(t, "partition")
		line := jsonOf(partition, rapid.Int64Min(0).Draw(t, "offset"), key, value, at)
		if !json.Valid(line) || !utf8.Valid(line) || bytes.IndexByte(line, '\n') >= 0 {
			t.Fatalf("no line of JSON: %q", line)
		}
		m, err := parseMessage(line)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		same := func(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }
		if !same(m.Key, key) || !same(m.Value, value) || !m.Time.Equal(at) || m.Partition != partition {
			t.Fatalf("%s became %+v", line, m)
		}
	})
}

func TestAMessageWithoutTimeHasNoTimestamp(t *testing.T) {
	got := string(jsonOf(1, 2, nil, []byte("v"), time.Time{}))
	want := `{"partition":1,"offset":2,"timestamp":null,"key":null,"value":"v","headers":[]}`
	if got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// FuzzParseMessage looks for lines that stop the program.
func FuzzParseMessage(f *testing.F) {
	for _, line := range []string{`{}`, `{"key":"k","headers":[{"key":"a"}]}`, `{"headers":{"a":"b"}}`, `{"value_base64":"AA=="}`, `{"headers":{"a"`, "\xff"} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		m, err := parseMessage(line)
		if err != nil || len(m.Headers) > 0 {
			return
		}
		back, err := parseMessage(jsonOf(max(m.Partition, 0), 0, m.Key, m.Value, m.Time))
		if err != nil || !bytes.Equal(back.Key, m.Key) || !bytes.Equal(back.Value, m.Value) {
			t.Errorf("%q became %+v and then %+v, %v", line, m, back, err)
		}
	})
}
