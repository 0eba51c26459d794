package batch

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/snappy"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden returns the content of a golden file. With -update it writes made there
// first.
func golden(t testing.TB, name string, made []byte) []byte {
	t.Helper()
	path := filepath.Join("testdata", "golden", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, made, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return readGolden(t, name)
}

func readGolden(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "golden", name))
	if err != nil {
		t.Fatalf("%v (go test -update writes the golden files)", err)
	}
	return b
}

// goldenPlain returns the golden messages as a plain batch.
func goldenPlain(t testing.TB) []byte {
	t.Helper()
	p := NewPlainBuilder(nil, MaxSize)
	for _, r := range goldenRecords() {
		if err := p.Append(r.Value); err != nil {
			t.Fatal(err)
		}
	}
	return p.Finish()
}

// What is not compressed has one encoding, for ever.
func TestGoldenBytes(t *testing.T) {
	stamped := build(t, goldenRecords(), CodecNone)
	Stamp(stamped, 4_000_000_000, 9)
	StampAppendTime(stamped, 1_750_000_000_000)

	b := NewBuilder(nil, MaxSize)
	b.SetProducer(0x1122334455, 6, 7)
	b.SetTransactional()
	for _, r := range goldenRecords()[:2] {
		if err := b.Append(&r); err != nil {
			t.Fatal(err)
		}
	}
	transactional := b.Finish(CodecNone)

	var d Decoder
	_, it, err := d.Open(stamped)
	if err != nil {
		t.Fatal(err)
	}
	fetched, _, err := AppendPlainFetch(nil, &it, 4_000_000_002, MaxSize)
	if err != nil {
		t.Fatal(err)
	}
	converted, err := PlainToBatch(nil, goldenPlain(t), 1_700_000_000_000)
	if err != nil {
		t.Fatal(err)
	}

	for name, made := range map[string][]byte{
		"none.bin":          build(t, goldenRecords(), CodecNone),
		"transactional.bin": transactional,
		"append-time.bin":   stamped,
		"plain.bin":         goldenPlain(t),
		"plain-batch.bin":   converted,
		"plain-fetch.bin":   fetched,
	} {
		if want := golden(t, name, made); !bytes.Equal(made, want) {
			t.Errorf("%s: the encoding has changed:\n%x\nwant\n%x", name, made, want)
		}
	}
}

// goldenCompressed are the files with compressed batches, with their codec.
var goldenCompressed = map[string]Codec{
	"gzip.bin": CodecGzip, "snappy-framed.bin": CodecSnappy, "snappy-raw.bin": CodecSnappy,
	"lz4.bin": CodecLz4, "zstd.bin": CodecZstd,
}

// Compressed bytes may change with a library's version, but what was written
// once must decode for ever.
func TestGoldenCompressedBatchesDecode(t *testing.T) {
	for name, c := range goldenCompressed {
		made := build(t, goldenRecords(), c)
		if name == "snappy-raw.bin" {
			plain := build(t, goldenRecords(), CodecNone)
			h, err := Check(plain, MaxSize)
			if err != nil {
				t.Fatal(err)
			}
			h.Attributes |= Attributes(CodecSnappy)
			made = rawBatch(h, snappy.Encode(nil, plain[AtRecords:]))
		}
		b := golden(t, name, made)
		h, err := Check(b, MaxSize)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if h.Attributes.Codec() != c {
			t.Errorf("%s: codec %v", name, h.Attributes.Codec())
		}
		sameRecords(t, decode(t, b), goldenRecords())
	}
}

func TestGoldenPlainFilesCheck(t *testing.T) {
	if h, err := CheckPlain(readGolden(t, "plain.bin"), MaxSize); err != nil || int(h.Count) != len(goldenRecords()) {
		t.Errorf("plain batch: %+v, %v", h, err)
	}
	it := PlainFetched(readGolden(t, "plain-fetch.bin"))
	for i, r := range goldenRecords()[2:] {
		if !it.Next() || it.Offset() != 4_000_000_002+int64(i) || !bytes.Equal(it.Body(), r.Value) {
			t.Fatalf("message %d: offset %d, body %.40q, error %v", i, it.Offset(), it.Body(), it.Err())
		}
	}
	if it.Next() || it.Err() != nil {
		t.Errorf("after the last message: %v", it.Err())
	}
}
