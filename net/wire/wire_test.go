package wire

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// describe prints a value so that nil and empty slices look the same.
func describe(v any) []byte { return fmt.Appendf(nil, "%+v", v) }

const goldenCorrelation = 0xc0ffee01

// dump is the text form of golden files: 16 bytes a line.
func dump(b []byte) []byte {
	var out bytes.Buffer
	for len(b) > 0 {
		n := min(16, len(b))
		fmt.Fprintln(&out, hex.EncodeToString(b[:n]))
		b = b[n:]
	}
	return out.Bytes()
}

func undump(t *testing.T, text []byte) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestEveryMessageMatchesItsGoldenFileBothWays(t *testing.T) {
	for _, m := range messages() {
		t.Run(m.name, func(t *testing.T) {
			frame := m.encode(nil, goldenCorrelation, m.sample)
			path := filepath.Join("testdata", "golden", m.name+".v1.hex")
			if *update {
				if err := os.WriteFile(path, dump(frame), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			golden := undump(t, text)
			if !bytes.Equal(frame, golden) {
				t.Fatalf("encoded\n%swant\n%s", dump(frame), text)
			}
			h, err := ParseHeader(golden, MaxFrameBeforeHello)
			if err != nil {
				t.Fatal(err)
			}
			want := Header{Length: uint32(len(golden) - 4), Op: m.op, Version: 1, Flags: m.flags, Correlation: goldenCorrelation}
			if h != want || h.FrameSize() != len(golden) || h.BodySize() != len(golden)-HeaderSize {
				t.Fatalf("header %+v, want %+v", h, want)
			}
			v, err := m.decode(golden[HeaderSize:])
			if err != nil {
				t.Fatal(err)
			}
			if !same(v, m.sample) {
				t.Fatalf("decoded %+v, want %+v", v, m.sample)
			}
		})
	}
}

func TestEncodersAppendBehindWhatIsThere(t *testing.T) {
	for _, m := range messages() {
		alone := m.encode(nil, 7, m.sample)
		behind := m.encode([]byte("before"), 7, m.sample)
		if !bytes.Equal(behind, append([]byte("before"), alone...)) {
			t.Errorf("%s: the frame depends on what stands before it", m.name)
		}
	}
}

func TestDecodersRefuseEveryTruncationAndTrailingBytes(t *testing.T) {
	open := map[string]bool{"produce_request": true} // its batch is the rest of the frame
	for _, m := range messages() {
		body := m.encode(nil, 1, m.sample)[HeaderSize:]
		for n := range body {
			if open[m.name] && n >= ProduceRequestFixed {
				break
			}
			if _, err := m.decode(body[:n:n]); !errors.Is(err, ErrMalformed) {
				t.Errorf("%s: %d of %d bytes: %v", m.name, n, len(body), err)
			}
		}
		if _, err := m.decode(append(bytes.Clone(body), 0)); !open[m.name] && !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: a trailing byte: %v", m.name, err)
		}
	}
}

func TestHeaderIsCheckedBeforeAnythingIsSizedByIt(t *testing.T) {
	ok := frameOf(OpPing, 1, 0, 9, nil)
	with := func(change func(b []byte)) []byte {
		b := bytes.Clone(ok)
		change(b)
		return b
	}
	length := func(v uint32) []byte {
		return with(func(b []byte) { b[0], b[1], b[2], b[3] = byte(v>>24), byte(v>>16), byte(v>>8), byte(v) })
	}
	cases := []struct {
		name string
		b    []byte
		want error
	}{
		{"whole", ok, nil},
		{"empty", nil, ErrShort},
		{"eleven bytes", ok[:11], ErrShort},
		{"length 0", length(0), ErrMalformed},
		{"length 7", length(7), ErrMalformed},
		{"at the limit", length(MaxFrameBeforeHello - 4), nil},
		{"one above the limit", length(MaxFrameBeforeHello - 3), ErrFrameTooLarge},
		{"0x7fffffff", length(0x7fffffff), ErrFrameTooLarge},
		{"0x80000000", length(0x80000000), ErrFrameTooLarge},
		{"0xffffffff", length(0xffffffff), ErrFrameTooLarge},
		{"unknown flag", with(func(b []byte) { b[7] = 4 }), ErrMalformed},
		{"unknown high flag", with(func(b []byte) { b[6] = 0x80 }), ErrMalformed},
		{"error flag alone", with(func(b []byte) { b[7] = 2 }), ErrMalformed},
	}
	for _, c := range cases {
		h, err := ParseHeader(c.b, MaxFrameBeforeHello)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
		if !errors.Is(err, ErrShort) && h.Correlation != 9 {
			t.Errorf("%s: the correlation id is lost", c.name)
		}
	}
	if _, err := ParseHeader(length(0xffffffff), 0xffffffff); !errors.Is(err, ErrFrameTooLarge) {
		t.Errorf("a length that overflows with the length field: %v", err)
	}
}

func TestRequestsOutsideTheVersionTableAreRefused(t *testing.T) {
	for op := range 256 {
		o := Op(op)
		lo, hi, known := o.Versions()
		for v := range 256 {
			err := CheckRequest(Header{Op: o, Version: uint8(v)})
			want := error(nil)
			switch {
			case !known:
				want = ErrUnsupportedOp
			case v < int(lo) || v > int(hi):
				want = ErrUnsupportedVersion
			}
			if !errors.Is(err, want) || want == nil && err != nil {
				t.Fatalf("%s version %d: %v, want %v", o, v, err, want)
			}
		}
	}
	if err := CheckRequest(Header{Op: OpPing, Version: 1, Flags: FlagResponse}); !errors.Is(err, ErrMalformed) {
		t.Errorf("a response sent to a broker: %v", err)
	}
}

func TestFieldsOutOfRangeAreMalformed(t *testing.T) {
	cases := []struct {
		message string
		at      int // byte in the body
		value   byte
	}{
		{"hello_request", 0, 'm'},           // magic
		{"hello_request", 7, 0},             // greatest protocol below the least
		{"hello_request", 8, 0x80},          // wanted shard below -1
		{"metadata_response", 34, 4},        // class
		{"produce_request", 16, 0x80},       // negative partition
		{"produce_request", 20, 4},          // class
		{"produce_request", 21, 2},          // encoding
		{"produce_request", 22, 2},          // ack mode
		{"produce_request", 23, 1},          // reserved
		{"produce_response", 2, 4},          // class
		{"produce_response", 3, 1},          // reserved
		{"fetch_request", 16, 0x80},         // negative partition
		{"fetch_request", 20, 0x80},         // negative offset
		{"fetch_request", 44, 2},            // encoding
		{"fetch_request", 45, 1},            // flags
		{"fetch_response", 1, 1},            // a code, and bytes
		{"fetch_response", 2, 4},            // class
		{"fetch_response", 3, 2},            // encoding
		{"fetch_response", 47, 1},           // bytes
		{"list_offsets_request", 16, 0x80},  // negative partition
		{"list_offsets_request", 27, 0xfd},  // time below -2
		{"topic_describe_response", 22, 99}, // class
		{"lag_request", 16, 0x80},           // negative partition
		{"lag_request", 20, 0x80},           // negative offset
	}
	byName := map[string]message{}
	for _, m := range messages() {
		byName[m.name] = m
	}
	for _, c := range cases {
		m := byName[c.message]
		body := m.encode(nil, 1, m.sample)[HeaderSize:]
		if body[c.at] == c.value {
			t.Fatalf("%s: byte %d is %d anyway", c.message, c.at, c.value)
		}
		body[c.at] = c.value
		if v, err := m.decode(body); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: byte %d = %d: %v, %+v", c.message, c.at, c.value, err, v)
		}
	}
}

func TestCountsAreCheckedAgainstTheBytesLeft(t *testing.T) {
	huge := []byte{0xff, 0xff, 0xff, 0xff}
	cases := []struct {
		name   string
		decode func() error
	}{
		{"metadata topics", func() error {
			_, err := DecodeMetadataResponse(append([]byte{0, 0, 0, 1}, huge...))
			return err
		}},
		{"metadata partitions", func() error {
			b := append([]byte{0, 0, 0, 1, 0, 0, 0, 1}, make([]byte, 2+2+16+1)...)
			_, err := DecodeMetadataResponse(append(b, huge...))
			return err
		}},
		{"metadata names", func() error {
			_, err := DecodeMetadataRequest([]byte{0xff, 0xfe, 0, 0})
			return err
		}},
		{"configs", func() error {
			_, err := DecodeTopicAlterRequest([]byte{0, 0, 0xff, 0xff})
			return err
		}},
		{"described partitions", func() error {
			b := make([]byte, 2+2+16+1+2)
			_, err := DecodeTopicDescribeResponse(append(b, huge...))
			return err
		}},
	}
	for _, c := range cases {
		var err error
		if n := testing.AllocsPerRun(1, func() { err = c.decode() }); n > 20 {
			t.Errorf("%s: %v allocations", c.name, n)
		}
		if !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestLongMessagesAreCutByEncodersAndRefusedByDecoders(t *testing.T) {
	long := strings.Repeat("x", MaxText+1)
	f := AppendTopicResult(nil, OpTopicDelete, 1, TopicResult{Code: CodeInternal, Message: long})
	r, err := DecodeTopicResult(f[HeaderSize:])
	if err != nil || r.Message != long[:MaxText] {
		t.Fatalf("message of %d bytes, %v", len(r.Message), err)
	}
	body := appendString([]byte{0, 0}, long)
	if _, err := DecodeTopicResult(body); !errors.Is(err, ErrMalformed) {
		t.Fatalf("a message above the limit: %v", err)
	}
}

func TestTopicNamesFollowKafkasRule(t *testing.T) {
	for _, ok := range []string{"a", "alerts", "A.b_c-9", "...", strings.Repeat("x", 249)} {
		if err := CheckTopicName(ok); err != nil {
			t.Errorf("%q: %v", ok, err)
		}
	}
	for _, bad := range []string{"", ".", "..", "a b", "a/b", "ä", "a\x00", strings.Repeat("x", 250)} {
		if err := CheckTopicName(bad); !errors.Is(err, ErrInvalidTopic) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	for bad, want := range map[string]string{"a/b": `"a/b" has "/" at 1, expected only a-z A-Z 0-9 . _ -`, "ä": `"ä" has "ä" at 0`, ".": `"." means a directory`} {
		if err := CheckTopicName(bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", bad, err, want)
		}
	}
}

func TestClassNamesAndOrder(t *testing.T) {
	for _, c := range []Class{ClassMemory, ClassWritten, ClassFlushed} {
		if got, ok := ParseClass(c.String()); !ok || got != c {
			t.Errorf("%s parses as %s, %v", c, got, ok)
		}
	}
	if ClassUnspecified >= ClassMemory || ClassMemory >= ClassWritten || ClassWritten >= ClassFlushed {
		t.Error("a stronger class must have a greater number")
	}
	for _, bad := range []string{"", "unspecified", "Flushed"} {
		if _, ok := ParseClass(bad); ok {
			t.Errorf("%q parses as a class", bad)
		}
	}
}

func TestErrorsMapToCodes(t *testing.T) {
	cases := map[error]Code{
		nil: CodeNone, ErrMalformed: CodeMalformedFrame, ErrFrameTooLarge: CodeFrameTooLarge,
		ErrUnsupportedOp: CodeUnsupportedOp, ErrUnsupportedVersion: CodeUnsupportedVersion,
		ErrInvalidTopic: CodeInvalidTopic, errors.New("other"): CodeInternal,
	}
	for err, want := range cases {
		if err != nil {
			err = fmt.Errorf("connection 7: %w", err)
		}
		if got := CodeOf(err); got != want {
			t.Errorf("%v: %s, want %s", err, got, want)
		}
	}
}

func TestCodeNumbersAndNamesAreUniqueAndUnknownCodesAreCautious(t *testing.T) {
	names := map[string]bool{}
	last := -1
	for _, c := range Codes() {
		if int(c) <= last {
			t.Errorf("%s: %d follows %d", c, c, last)
		}
		last = int(c)
		if names[c.String()] || c.Help() == "" {
			t.Errorf("%d: name %q used twice, or no help", c, c)
		}
		names[c.String()] = true
	}
	if c := Code(9999); c.Retriable() || !c.OutcomeUnknown() || c.String() != "Code(9999)" {
		t.Errorf("an unknown code: %s retriable %v unknown %v", c, c.Retriable(), c.OutcomeUnknown())
	}
}

func readDocument(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "docs", "format", "wire.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestDocumentCarriesTheCodeTable(t *testing.T) {
	doc := readDocument(t)
	yes := map[bool]string{true: "yes", false: "no"}
	var want strings.Builder
	for _, c := range codeTable {
		fmt.Fprintf(&want, "| %d | %s | %s | %s | %s |\n", c.code, c.name, yes[c.retriable], yes[c.unknown], c.help)
	}
	if !strings.Contains(doc, want.String()) {
		t.Fatalf("docs/format/wire.md does not carry this table:\n%s", want.String())
	}
	rows := regexp.MustCompile(`(?m)^\| \d+ \| \w+ \| (yes|no) \|`).FindAllString(doc, -1)
	if len(rows) != len(codeTable) {
		t.Fatalf("docs/format/wire.md has %d rows of codes, the code %d", len(rows), len(codeTable))
	}
}

func TestDocumentNamesEveryOpAndMessage(t *testing.T) {
	doc := readDocument(t)
	for op := range 256 {
		lo, hi, ok := Op(op).Versions()
		if !ok {
			continue
		}
		row := fmt.Sprintf("| %d | %s | %d | %d |", op, Op(op), lo, hi)
		if !strings.Contains(doc, row) {
			t.Errorf("docs/format/wire.md has no row %q", row)
		}
	}
	for _, m := range messages() {
		if !strings.Contains(doc, "**"+documentName(m)+"**") {
			t.Errorf("docs/format/wire.md does not describe the %s", documentName(m))
		}
	}
}

func TestHeaderProduceAndFetchAllocateNothing(t *testing.T) {
	batch := bytes.Repeat([]byte("b"), 4096)
	produce := AppendProduceRequest(nil, 1, &ProduceRequest{Topic: sampleID(1), Batch: batch})
	produced := AppendProduceResponse(nil, 1, &ProduceResponse{Class: ClassFlushed})
	fetch := AppendFetchRequest(nil, 1, &FetchRequest{Topic: sampleID(1)})
	fetched := AppendFetchResponse(nil, 1, &FetchResponse{Batches: batch})
	dst := make([]byte, 0, 8192)
	var failed error
	keep := func(err error) {
		if err != nil {
			failed = err
		}
	}
	paths := map[string]func(){
		"ParseHeader":               func() { _, err := ParseHeader(produce, 1<<20); keep(err) },
		"CheckRequest":              func() { keep(CheckRequest(Header{Op: OpProduce, Version: 1})) },
		"DecodeProduceRequest":      func() { _, err := DecodeProduceRequest(produce[HeaderSize:]); keep(err) },
		"DecodeProduceRequestFixed": func() { _, err := DecodeProduceRequestFixed(produce[HeaderSize:]); keep(err) },
		"AppendProduceRequest": func() {
			AppendProduceRequest(dst, 1, &ProduceRequest{Batch: batch})
		},
		"AppendProduceResponse":     func() { AppendProduceResponse(dst, 1, &ProduceResponse{Class: ClassFlushed}) },
		"DecodeProduceResponse":     func() { _, err := DecodeProduceResponse(produced[HeaderSize:]); keep(err) },
		"AppendFetchRequest":        func() { AppendFetchRequest(dst, 1, &FetchRequest{}) },
		"DecodeFetchRequest":        func() { _, err := DecodeFetchRequest(fetch[HeaderSize:]); keep(err) },
		"AppendFetchResponseHeader": func() { AppendFetchResponseHeader(dst, 1, &FetchResponse{}, len(batch)) },
		"DecodeFetchResponse":       func() { _, err := DecodeFetchResponse(fetched[HeaderSize:]); keep(err) },
		"AppendPingResponse":        func() { AppendPingResponse(dst, 1) },
	}
	for name, path := range paths {
		if n := testing.AllocsPerRun(100, path); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	if failed != nil {
		t.Fatal(failed)
	}
}

func TestHotDecodersReturnTheirInput(t *testing.T) {
	p := AppendProduceRequest(nil, 1, &ProduceRequest{Batch: []byte("batch")})[HeaderSize:]
	r, err := DecodeProduceRequest(p)
	if err != nil || &r.Batch[0] != &p[ProduceRequestFixed] {
		t.Errorf("the batch of a produce request is a copy, %v", err)
	}
	f := AppendFetchResponse(nil, 1, &FetchResponse{Batches: []byte("batch")})[HeaderSize:]
	q, err := DecodeFetchResponse(f)
	if err != nil || &q.Batches[0] != &f[FetchResponseFixed] {
		t.Errorf("the batches of a fetch response are a copy, %v", err)
	}
}

func TestSplitEncodersWriteTheSameFrames(t *testing.T) {
	batch := []byte("some batch")
	p := &ProduceRequest{Topic: sampleID(1), Partition: 3, Batch: batch}
	if !bytes.Equal(AppendProduceRequest(nil, 5, p), append(AppendProduceRequestHeader(nil, 5, p, len(batch)), batch...)) {
		t.Error("produce request: header and batch are not the frame")
	}
	f := &FetchResponse{Class: ClassFlushed, End: 9, Batches: batch}
	head := AppendFetchResponseHeader(nil, 5, f, len(batch))
	if len(head) != FetchResponseHeaderSize || !bytes.Equal(AppendFetchResponse(nil, 5, f), append(head, batch...)) {
		t.Error("fetch response: header and batches are not the frame")
	}
	if n := len(AppendProduceResponse(nil, 1, &ProduceResponse{})); n != ProduceResponseSize {
		t.Errorf("a successful produce response has %d bytes, want %d", n, ProduceResponseSize)
	}
}
