package compat

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mqd-broker/mqd/batch"
)

// bodies are inputs of every size class and of every compressibility.
func bodies() [][]byte {
	rnd := rand.New(rand.NewPCG(4, 2))
	var out [][]byte
	for _, n := range []int{7, 100, 1000, 32<<10 - 1, 32<<10 + 1, 64<<10 + 1, 300_000, 5 << 20} {
		zeros, random, text := make([]byte, n), make([]byte, n), make([]byte, n)
		for i := range n {
			random[i] = byte(rnd.Uint32())
			text[i] = " etaoinshrdlu"[rnd.IntN(13)]
		}
		out = append(out, zeros, random, text)
	}
	return out
}

func TestCompressionIsReadOnTheOtherSide(t *testing.T) {
	reader := kgo.DefaultDecompressor()
	for _, c := range codecs {
		h := batch.Header{Attributes: batch.Attributes(c), Count: 1}
		for _, body := range bodies() {
			got, err := reader.Decompress(batch.Compress(nil, c, body), kgo.CompressionCodecType(c))
			if err != nil || !bytes.Equal(got, body) {
				t.Fatalf("%v: %d bytes: kgo reads ours: %d bytes, %v", c, len(body), len(got), err)
			}
			got, err = batch.Decompress(nil, h, compress(t, c, body), len(body))
			if err != nil || !bytes.Equal(got, body) {
				t.Fatalf("%v: %d bytes: we read kgo's: %d bytes, %v", c, len(body), len(got), err)
			}
		}
	}
}

// Snappy has two framings in the field. We write that of Kafka's Java client, kgo
// writes raw blocks, and each side reads the other's.
func TestBothFramingsOfSnappyCross(t *testing.T) {
	body := bytes.Repeat([]byte("alert "), 20_000)
	framed, raw := batch.Compress(nil, batch.CodecSnappy, body), compress(t, batch.CodecSnappy, body)
	magic := []byte("\x82SNAPPY\x00")
	if !bytes.HasPrefix(framed, magic) || bytes.HasPrefix(raw, magic) {
		t.Fatalf("ours begins with %x, kgo's with %x", framed[:16], raw[:16])
	}
	got, err := kgo.DefaultDecompressor().Decompress(framed, kgo.CodecSnappy)
	if err != nil || !bytes.Equal(got, body) {
		t.Errorf("kgo reads ours: %v", err)
	}
	got, err = batch.Decompress(nil, batch.Header{Attributes: batch.Attributes(batch.CodecSnappy)}, raw, len(body))
	if err != nil || !bytes.Equal(got, body) {
		t.Errorf("we read kgo's: %v", err)
	}
}

// FuzzDecompress: what both sides accept, both decompress to the same.
func FuzzDecompress(f *testing.F) {
	for _, c := range codecs[1:] {
		f.Add(uint8(c), batch.Compress(nil, c, bytes.Repeat([]byte("alert "), 200)))
		f.Add(uint8(c), compress(f, c, bytes.Repeat([]byte("alert "), 200)))
	}
	reader := kgo.DefaultDecompressor()
	f.Fuzz(func(t *testing.T, codec uint8, in []byte) {
		c := batch.Codec(codec%4 + 1)
		ours, err := batch.Decompress(nil, batch.Header{Attributes: batch.Attributes(c)}, in, 1<<20)
		if err != nil {
			return
		}
		// kgo is laxer in places and stricter in others (checksums of lz4), so
		// only two successes can be compared.
		if theirs, err := reader.Decompress(in, kgo.CompressionCodecType(c)); err == nil && !bytes.Equal(ours, theirs) {
			t.Fatalf("%v: ours %x, kgo's %x", c, ours, theirs)
		}
	})
}
