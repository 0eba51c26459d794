package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/snappy/xerial"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// with returns the header of a batch of one record compressed with c.
func with(c Codec) Header { return Header{Attributes: Attributes(c), Count: 1} }

// text returns n bytes that compress like log lines.
func text(n int) []byte {
	rnd := rand.New(rand.NewPCG(3, uint64(n)))
	words := []string{"alert ", "shard=", "partition ", "flushed ", "0017 ", "latency_us=", "warning: ", "ok\n"}
	var b []byte
	for len(b) < n {
		b = append(b, words[rnd.IntN(len(words))]...)
	}
	return b[:n]
}

func TestCodecsRoundTripWithTheExactLimit(t *testing.T) {
	for _, c := range allCodecs {
		for _, n := range []int{7, 8, 100, 511, 512, 513, 4096, 32<<10 - 1, 32 << 10, 32<<10 + 1, 64 << 10, 64<<10 + 1, 200_000, 1 << 20} {
			for _, src := range [][]byte{text(n), make([]byte, n)} {
				z := Compress([]byte("before"), c, src)
				if string(z[:6]) != "before" {
					t.Fatalf("%v: %d bytes: dst was overwritten", c, n)
				}
				out, err := Decompress([]byte("front"), with(c), z[6:], n)
				if err != nil {
					t.Fatalf("%v: %d bytes: %v", c, n, err)
				}
				if string(out[:5]) != "front" || !bytes.Equal(out[5:], src) {
					t.Fatalf("%v: %d bytes: the output differs", c, n)
				}
				out, err = Decompress([]byte("front"), with(c), z[6:], n-1)
				if !errors.Is(err, ErrTooLarge) || string(out) != "front" {
					t.Fatalf("%v: %d bytes, limit one less: %d bytes, error %v", c, n, len(out), err)
				}
			}
		}
	}
}

// A small input that claims or makes a huge output costs memory of about the
// limit, whatever it claims.
func TestDecompressionBombsStopAtTheLimit(t *testing.T) {
	const limit = 1 << 20
	huge := make([]byte, 48<<20)
	bombs := map[string]struct {
		c Codec
		z []byte
	}{
		"gzip":        {CodecGzip, Compress(nil, CodecGzip, huge)},
		"snappy":      {CodecSnappy, Compress(nil, CodecSnappy, huge)},
		"snappy raw":  {CodecSnappy, snappy.Encode(nil, huge)},
		"snappy lies": {CodecSnappy, append([]byte("\xff\xff\xff\xff\x0f"), bytes.Repeat([]byte{0xfe, 1, 0}, 50)...)},
		"lz4":         {CodecLz4, Compress(nil, CodecLz4, huge)},
		"lz4 size":    {CodecLz4, []byte("\x04\x22\x4d\x18\x68\x40\x00\x00\x00\x00\x7f\x00\x00\x00\x00\x00\x00\x00\x00")},
		"zstd":        {CodecZstd, Compress(nil, CodecZstd, huge)},
		"zstd size":   {CodecZstd, []byte("\x28\xb5\x2f\xfd\xe0\x00\x00\x00\x00\x00\x01\x00\x00\x01\x00\x00")},
		"zstd window": {CodecZstd, []byte("\x28\xb5\x2f\xfd\x00\x90\x01\x00\x00")},
		"zstd frames": {CodecZstd, bytes.Repeat(Compress(nil, CodecZstd, make([]byte, 100_000)), 50)},
	}
	for name, bomb := range bombs {
		t.Run(name, func(t *testing.T) {
			// The first run fills the pools, the second is measured.
			var out []byte
			var err error
			var before, after runtime.MemStats
			for range 2 {
				runtime.ReadMemStats(&before)
				out, err = Decompress(nil, with(bomb.c), bomb.z, limit)
				runtime.ReadMemStats(&after)
			}
			if !errors.Is(err, ErrTooLarge) || len(out) != 0 {
				t.Fatalf("%d bytes in: %d bytes out, error %v", len(bomb.z), len(out), err)
			}
			// Growing by doubling allocates up to 3 times the limit on the way.
			if n := after.TotalAlloc - before.TotalAlloc; n > 6*limit {
				t.Errorf("%d bytes in: %d bytes allocated for a limit of %d", len(bomb.z), n, limit)
			}
		})
	}
}

func TestCountThatCannotFitIsRefusedBeforeDecompression(t *testing.T) {
	h := with(CodecGzip)
	h.Count = 1000
	if _, err := Decompress(nil, h, nil, 6999); !errors.Is(err, ErrTooLarge) {
		t.Errorf("error %v, want %v", err, ErrTooLarge)
	}
}

func TestBrokenCompressionIsReported(t *testing.T) {
	src := text(100_000)
	for _, c := range allCodecs[1:] {
		z := Compress(nil, c, src)
		for name, in := range map[string][]byte{
			"nothing":             {},
			"one byte":            z[:1],
			"cut in the middle":   z[:len(z)/2],
			"cut by a byte":       z[:len(z)-1],
			"followed by garbage": append(bytes.Clone(z), "garbage"...),
			"not this format":     src[:1000],
		} {
			out, err := Decompress([]byte("front"), with(c), in, MaxSize)
			if !errors.Is(err, ErrCompression) || string(out) != "front" {
				t.Errorf("%v: %s: %d bytes, error %v", c, name, len(out), err)
			}
		}
	}
	if _, err := Decompress(nil, with(6), nil, 100); !errors.Is(err, ErrCodec) {
		t.Errorf("codec 6: %v", err)
	}
}

func TestSnappyIsReadFramedAndRaw(t *testing.T) {
	src := text(100_000)
	framed := Compress(nil, CodecSnappy, src)
	if string(framed[:8]) != "\x82SNAPPY\x00" || binary.BigEndian.Uint32(framed[8:]) != 1 || binary.BigEndian.Uint32(framed[12:]) != 1 {
		t.Errorf("frame header %x", framed[:16])
	}
	if n, err := snappy.DecodedLen(framed[20:]); err != nil || n != 32<<10 {
		t.Errorf("first block: %d bytes, error %v", n, err)
	}
	if out, err := xerial.Decode(framed); err != nil || !bytes.Equal(out, src) {
		t.Errorf("another implementation reads our framing: %v", err)
	}
	for name, z := range map[string][]byte{"framed": framed, "framed by another": xerial.Encode(nil, src), "raw": snappy.Encode(nil, src)} {
		out, err := Decompress(nil, with(CodecSnappy), z, len(src))
		if err != nil || !bytes.Equal(out, src) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, z := range map[string][]byte{
		"half a block length":      framed[:18],
		"block beyond the input":   append([]byte(snappyFrameHeader), 0, 0, 0, 9, 1, 0, 'x'),
		"negative block length":    append([]byte(snappyFrameHeader), 0xff, 0xff, 0xff, 0xff, 1, 0, 'x'),
		"block claims 1000 from 3": append([]byte(snappyFrameHeader), 0, 0, 0, 3, 0xe8, 0x07, 0),
	} {
		if _, err := Decompress(nil, with(CodecSnappy), z, MaxSize); !errors.Is(err, ErrCompression) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// lz4Frame frames src with another implementation.
func lz4Frame(t *testing.T, src []byte, opts ...lz4.Option) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := lz4.NewWriter(&buf)
	if err := w.Apply(opts...); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(src); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestLz4ReadsEveryKindOfFrame(t *testing.T) {
	src := append(text(300_000), alerts(1000)[0].Value...)
	for name, z := range map[string][]byte{
		"64 KiB":            lz4Frame(t, src, lz4.BlockSizeOption(lz4.Block64Kb)),
		"256 KiB":           lz4Frame(t, src, lz4.BlockSizeOption(lz4.Block256Kb)),
		"1 MiB":             lz4Frame(t, src, lz4.BlockSizeOption(lz4.Block1Mb)),
		"4 MiB":             lz4Frame(t, src, lz4.BlockSizeOption(lz4.Block4Mb)),
		"every checksum":    lz4Frame(t, src, lz4.BlockChecksumOption(true), lz4.ChecksumOption(true)),
		"content size":      lz4Frame(t, src, lz4.SizeOption(uint64(len(src)))),
		"high compression":  lz4Frame(t, src, lz4.CompressionLevelOption(lz4.Level9)),
		"as written by us":  Compress(nil, CodecLz4, src),
		"dependent blocks":  dependentFrame(src),
		"not compressed":    append(append([]byte(lz4FrameHeader), 3, 0, 0, 0x80), "raw\x00\x00\x00\x00"...),
		"without any block": append([]byte(lz4FrameHeader), 0, 0, 0, 0),
	} {
		want := src
		switch name {
		case "not compressed":
			want = []byte("raw")
		case "without any block":
			want = nil
		}
		out, err := Decompress(nil, with(CodecLz4), z, len(src))
		if err != nil || !bytes.Equal(out, want) {
			t.Errorf("%s: %d bytes, want %d, error %v", name, len(out), len(want), err)
		}
	}
}

// dependentFrame frames src in blocks of 1000 bytes that are literals, except
// that a block begins, where it can, with a copy of 4 bytes from an earlier one.
func dependentFrame(src []byte) []byte {
	z := []byte("\x04\x22\x4d\x18\x40\x40\x00")
	const block = 1000
	for at := 0; at < len(src); at += block {
		b := src[at:min(at+block, len(src))]
		var lz []byte
		// Where these 4 bytes occurred before, within reach and in an earlier block.
		if back := bytes.LastIndex(src[max(0, at-60_000):at], b[:min(4, len(b))]); at > 0 && back >= 0 && len(b) > 20 {
			offset := at - (max(0, at-60_000) + back)
			lz = append(lz, 0x00, byte(offset), byte(offset>>8)) // no literals, copy 4
			b = b[4:]
		}
		lz = append(lz, 0xf0)
		n := len(b) - 15
		for ; n >= 255; n -= 255 {
			lz = append(lz, 255)
		}
		lz = append(append(lz, byte(n)), b...)
		z = append(binary.LittleEndian.AppendUint32(z, uint32(len(lz))), lz...)
	}
	return append(z, 0, 0, 0, 0)
}

func TestLz4FramesThatLieAreRefused(t *testing.T) {
	src := text(5000)
	good := Compress(nil, CodecLz4, src)
	change := func(at int, v byte) []byte {
		b := bytes.Clone(good)
		b[at] = v
		return b
	}
	big := lz4Frame(t, text(200_000), lz4.BlockSizeOption(lz4.Block256Kb))
	big[5] = 0x40 // now it says that no block exceeds 64 KiB
	wrong := lz4Frame(t, src, lz4.SizeOption(uint64(len(src))))
	wrong[6]++
	for name, z := range map[string][]byte{
		"legacy magic":          change(0, 0x02),
		"skippable frame":       []byte("\x50\x2a\x4d\x18\x03\x00\x00\x00abc"),
		"version 2":             change(4, 0xa0),
		"reserved bit":          change(4, 0x62),
		"dictionary":            change(4, 0x61),
		"block size 3":          change(5, 0x30),
		"block size 8":          change(5, 0x80),
		"no end mark":           good[:len(good)-4],
		"two frames":            append(bytes.Clone(good), good...),
		"block beyond its size": big,
		"raw block beyond it":   append(append([]byte(lz4FrameHeader), 1, 0, 1, 0x80), make([]byte, 1<<17)...),
		"wrong content size":    wrong,
		"checksum missing":      change(4, 0x64),
		"reaches before start":  append([]byte(lz4FrameHeader), 4, 0, 0, 0, 0x10, 'a', 9, 0, 0, 0, 0, 0),
	} {
		if out, err := Decompress(nil, with(CodecLz4), z, MaxSize); !errors.Is(err, ErrCompression) {
			t.Errorf("%s: %d bytes, error %v", name, len(out), err)
		}
	}
}

// A block that depends on earlier ones must not see what was decompressed in
// front of its own frame.
func TestLz4HistoryEndsAtTheFrame(t *testing.T) {
	z := append([]byte("\x04\x22\x4d\x18\x40\x40\x00"), 5, 0, 0, 0, 0x01, 9, 0, 0x10, 'x', 0, 0, 0, 0)
	out, err := Decompress([]byte("a secret of another batch"), with(CodecLz4), z, 2000)
	if !errors.Is(err, ErrCompression) {
		t.Errorf("%q, error %v", out, err)
	}
}

func TestGzipAndZstdReadOtherWritersSettings(t *testing.T) {
	src := text(300_000)
	var twice bytes.Buffer
	for _, part := range [][]byte{src[:1000], src[1000:]} {
		w, _ := gzip.NewWriterLevel(&twice, gzip.BestCompression)
		w.Name = "a name"
		_, _ = w.Write(part)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := Decompress(nil, with(CodecGzip), twice.Bytes(), len(src)); err != nil || !bytes.Equal(out, src) {
		t.Errorf("gzip of two members: %v", err)
	}
	for _, level := range []zstd.EncoderLevel{zstd.SpeedFastest, zstd.SpeedBestCompression} {
		var streamed bytes.Buffer
		w, err := zstd.NewWriter(&streamed, zstd.WithEncoderLevel(level), zstd.WithWindowSize(8<<20), zstd.WithEncoderConcurrency(1))
		if err != nil {
			t.Fatal(err)
		}
		for part := range bytes.SplitSeq(src, []byte("\n")) {
			_, _ = w.Write(part)
			_, _ = w.Write([]byte("\n"))
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		out, err := Decompress(nil, with(CodecZstd), streamed.Bytes(), len(src)+1)
		if err != nil || !bytes.Equal(bytes.TrimSuffix(out, []byte("\n")), bytes.TrimSuffix(src, []byte("\n"))) {
			t.Errorf("zstd stream at level %v: %v", level, err)
		}
	}
}

// Neither side of a codec leaves a goroutine behind: the pools may drop a state
// without closing it.
// zstdOfNothing is a frame that says it holds nothing, and a block of two bytes.
const zstdOfNothing = "\x28\xb5\x2f\xfd\xa0\x00\x00\x00\x00\x10\x00\x00\x10\x00"

// What a frame claims is where room starts to grow from, so nothing must not be
// believed: it doubles to nothing.
func TestZstdFramesOfNothingEnd(t *testing.T) {
	h := Header{Attributes: Attributes(CodecZstd)}
	if out, err := Decompress(nil, h, []byte(zstdOfNothing), 1<<16); err == nil {
		t.Errorf("a frame of nothing with a block in it: %q and no error", out)
	}
	nothing := []byte("\x28\xb5\x2f\xfd\x20\x00\x01\x00\x00") // content size 0, one empty last block
	if out, err := Decompress(nil, h, nothing, 1<<16); err != nil || len(out) != 0 {
		t.Errorf("a frame of nothing: %q, %v", out, err)
	}
	want := text(5000)
	both := append(nothing, Compress(nil, CodecZstd, want)...)
	if out, err := Decompress(nil, h, both, 1<<16); err != nil || !bytes.Equal(out, want) {
		t.Errorf("a frame behind one of nothing: %d bytes, %v; want %d", len(out), err, len(want))
	}
	if _, err := Decompress(nil, h, both, 4999); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a frame behind one of nothing, above the limit: %v", err)
	}
}

func TestCodecsStartNoGoroutine(t *testing.T) {
	before := runtime.NumGoroutine()
	src := text(300_000)
	for _, c := range allCodecs {
		if _, err := Decompress(nil, with(c), Compress(nil, c, src), len(src)); err != nil {
			t.Fatal(err)
		}
		if n := runtime.NumGoroutine(); n > before {
			t.Errorf("%v: %d goroutines, %d before", c, n, before)
		}
	}
}

func TestCodecNamesRoundTrip(t *testing.T) {
	for _, c := range allCodecs {
		if got, err := ParseCodec(c.String()); err != nil || got != c {
			t.Errorf("%v: %v, %v", c, got, err)
		}
	}
	if _, err := ParseCodec("brotli"); !errors.Is(err, ErrCodec) {
		t.Errorf("brotli: %v", err)
	}
	if got := Codec(6).String(); got != "codec(6)" {
		t.Errorf("codec 6 is called %q", got)
	}
}
