package link

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"testing"
	"testing/iotest"
	"time"

	"pgregory.net/rapid"

	"github.com/mqd-broker/mqd/net/wire"
)

func readerOf(src io.Reader, size int) *frameReader {
	return &frameReader{src: src, pool: new(BufferPool), limit: MaxAnswer, buf: make([]byte, size)}
}

func TestBackoffStaysWithinItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		least := time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "least"))
		most := least + time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "span"))
		attempt := rapid.IntRange(0, 1000).Draw(t, "attempt")
		d := Backoff(least, most, attempt)
		if d < least/2 || d > most {
			t.Fatalf("attempt %d: %v, expected %v to %v", attempt, d, least/2, most)
		}
		if attempt > 60 && least > 0 && d < most/2 {
			t.Fatalf("attempt %d: %v, expected at least half of %v", attempt, d, most)
		}
	})
}

// Frames of any size come out of a stream as they went in, however it is cut,
// whether they fit into the reader's buffer or not.
func TestFramesComeOutAsTheyWentIn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var stream []byte
		var bodies [][]byte
		for range rapid.IntRange(1, 20).Draw(t, "frames") {
			n := rapid.OneOf(rapid.IntRange(0, 64), rapid.IntRange(0, 5000), rapid.IntRange(directBytes-100, 2*directBytes)).Draw(t, "size")
			body := bytes.Repeat([]byte{byte(len(bodies) + 1)}, n)
			bodies = append(bodies, body)
			stream = wire.AppendFetchResponse(stream, uint32(len(bodies)), &wire.FetchResponse{Batches: body})
		}
		src := io.Reader(bytes.NewReader(stream))
		switch rapid.IntRange(0, 2).Draw(t, "cut") {
		case 1:
			src = iotest.OneByteReader(src)
		case 2:
			src = iotest.HalfReader(src)
		}
		fr := readerOf(src, rapid.OneOf(rapid.IntRange(wire.HeaderSize, 3000), rapid.IntRange(directBytes, 5*directBytes)).Draw(t, "buffer"))
		for i, want := range bodies {
			f, err := fr.next()
			if err != nil {
				t.Fatalf("frame %d: %v", i, err)
			}
			r, err := wire.DecodeFetchResponse(f.Body)
			if err != nil || !bytes.Equal(r.Batches, want) || f.Correlation != uint32(i+1) {
				t.Fatalf("frame %d: %d bytes, want %d, %v", i, len(r.Batches), len(want), err)
			}
			if f.Own != nil {
				f.Own.Release()
			}
		}
		if _, err := fr.next(); !errors.Is(err, io.EOF) {
			t.Fatalf("at the end: %v", err)
		}
	})
}

func TestAClaimedLengthMakesNoMemory(t *testing.T) {
	head := wire.AppendFetchResponseHeader(nil, 1, &wire.FetchResponse{}, MaxAnswer-200)
	fr := readerOf(bytes.NewReader(append(head, make([]byte, 1000)...)), 512)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := fr.next()
	runtime.ReadMemStats(&after)
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("%v", err)
	}
	if made := after.TotalAlloc - before.TotalAlloc; made > 3*growStep {
		t.Fatalf("%d bytes were made for a frame of which 1,000 came", made)
	}
	fr = readerOf(bytes.NewReader(wire.AppendFetchResponseHeader(nil, 1, &wire.FetchResponse{}, MaxAnswer)), 512)
	if _, err := fr.next(); !errors.Is(err, ErrProtocol) || !errors.Is(err, wire.ErrFrameTooLarge) {
		t.Fatalf("a frame above the limit: %v", err)
	}
}

func TestBuffersComeBackWithTheirLastReference(t *testing.T) {
	var p BufferPool
	for _, n := range []int{0, 1, 4096, 4097, 1 << 20, 1<<20 + 1, MaxAnswer} {
		b := p.Get(n)
		if len(b.B) != n || cap(b.B) < n || cap(b.B) > max(2*n, 1<<minBufferBits) {
			t.Errorf("asked for %d: length %d, capacity %d", n, len(b.B), cap(b.B))
		}
		b.Retain()
		b.Release()
		if b.refs.Load() != 1 {
			t.Errorf("%d references", b.refs.Load())
		}
		b.Release()
	}
}

// FuzzFrameReader feeds a reader any stream in pieces.
func FuzzFrameReader(f *testing.F) {
	f.Add(wire.AppendPingResponse(nil, 1), uint16(64))
	f.Add(append(wire.AppendPingResponse(nil, 1), 0xff, 0xff, 0xff, 0xff), uint16(12))
	f.Add(wire.AppendFetchResponse(nil, 1, &wire.FetchResponse{Batches: make([]byte, 300)}), uint16(20))
	f.Fuzz(func(t *testing.T, stream []byte, size uint16) {
		fr := readerOf(iotest.HalfReader(bytes.NewReader(stream)), max(int(size), wire.HeaderSize))
		used := 0
		for {
			fr.more()
			fm, err := fr.next()
			if err != nil {
				if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, ErrProtocol) {
					t.Fatalf("%v", err)
				}
				return
			}
			want := stream[used+wire.HeaderSize : used+fm.FrameSize()]
			if !bytes.Equal(fm.Body, want) {
				t.Fatalf("body at %d differs", used)
			}
			used += fm.FrameSize()
			if fm.Own != nil {
				fm.Own.Release()
			}
		}
	})
}
