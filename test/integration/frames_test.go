package integration

import (
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/mqd-broker/mqd/net/wire"
	"github.com/mqd-broker/mqd/test/rig"
)

// frame makes a frame of any fields.
func frame(length uint32, op wire.Op, version uint8, flags uint16, corr uint32, body ...byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, length)
	b = append(b, byte(op), version)
	b = binary.BigEndian.AppendUint16(b, flags)
	b = binary.BigEndian.AppendUint32(b, corr)
	return append(b, body...)
}

// whole makes a frame whose length is right.
func whole(op wire.Op, corr uint32, body ...byte) []byte {
	return frame(uint32(8+len(body)), op, 1, 0, corr, body...)
}

// fate is what becomes of a connection.
type fate uint8

const (
	stays fate = iota
	closes
)

const corr = 0x5eed

// badFrames are sent on a connection that has said hello.
var badFrames = []struct {
	name string
	send []byte
	code wire.Code
	fate fate
}{
	{"length 0", frame(0, wire.OpPing, 1, 0, corr), wire.CodeMalformedFrame, closes},
	{"length 7", frame(7, wire.OpPing, 1, 0, corr), wire.CodeMalformedFrame, closes},
	{"length -1", frame(0xffffffff, wire.OpPing, 1, 0, corr), wire.CodeFrameTooLarge, closes},
	{"smallest negative length", frame(0x80000000, wire.OpProduce, 1, 0, corr), wire.CodeFrameTooLarge, closes},
	{"greatest length", frame(0x7fffffff, wire.OpFetch, 1, 0, corr), wire.CodeFrameTooLarge, closes},
	{"unknown flag", frame(8, wire.OpPing, 1, 0x8000, corr), wire.CodeMalformedFrame, closes},
	{"unknown op", whole(99, corr), wire.CodeUnsupportedOp, stays},
	{"op 0", whole(0, corr), wire.CodeUnsupportedOp, stays},
	{"unknown version", frame(8, wire.OpPing, 200, 0, corr), wire.CodeUnsupportedVersion, stays},
	{"version 0", frame(8, wire.OpFetch, 0, 0, corr), wire.CodeUnsupportedVersion, stays},
	{"a response", frame(8, wire.OpPing, 1, 1, corr), wire.CodeMalformedFrame, stays},
	{"ping with a body", whole(wire.OpPing, corr, 1), wire.CodeMalformedFrame, stays},
	{"fetch without a body", whole(wire.OpFetch, corr), wire.CodeMalformedFrame, stays},
	{"fetch cut short", whole(wire.OpFetch, corr, make([]byte, wire.FetchRequestSize-1)...), wire.CodeMalformedFrame, stays},
	{"fetch with more behind it", whole(wire.OpFetch, corr, make([]byte, wire.FetchRequestSize+1)...), wire.CodeMalformedFrame, stays},
	{"fetch of a negative partition", fetchBody(func(b []byte) { b[16] = 0xff }), wire.CodeMalformedFrame, stays},
	{"fetch from a negative offset", fetchBody(func(b []byte) { b[20] = 0x80 }), wire.CodeMalformedFrame, stays},
	{"fetch with an unknown encoding", fetchBody(func(b []byte) { b[44] = 7 }), wire.CodeMalformedFrame, stays},
	{"produce cut short", whole(wire.OpProduce, corr, make([]byte, wire.ProduceRequestFixed-1)...), wire.CodeMalformedFrame, stays},
	{"produce to a negative partition", produceBody(func(b []byte) { b[16] = 0xff }), wire.CodeMalformedFrame, stays},
	{"produce with an unknown class", produceBody(func(b []byte) { b[20] = 9 }), wire.CodeMalformedFrame, stays},
	{"metadata with a count and no names", whole(wire.OpMetadata, corr, 0xff, 0xfe), wire.CodeMalformedFrame, stays},
	{"create with a name beyond the body", whole(wire.OpTopicCreate, corr, 0xff, 0xff, 'a'), wire.CodeMalformedFrame, stays},
	{"create with a count of 65535 settings", whole(wire.OpTopicCreate, corr, 0, 1, 'a', 0, 0, 0, 1, 0xff, 0xff), wire.CodeMalformedFrame, stays},
	{"list offsets cut short", whole(wire.OpListOffsets, corr, 1, 2, 3), wire.CodeMalformedFrame, stays},
}

func fetchBody(change func(b []byte)) []byte {
	b := make([]byte, wire.FetchRequestSize)
	change(b)
	return whole(wire.OpFetch, corr, b...)
}

func produceBody(change func(b []byte)) []byte {
	b := make([]byte, wire.ProduceRequestFixed)
	change(b)
	return whole(wire.OpProduce, corr, b...)
}

func TestBadFramesAreAnsweredAndHarmNobodyElse(t *testing.T) {
	b := start(t)
	id := b.topic("frames", 1)
	bystander := b.open()
	for _, f := range badFrames {
		t.Run(f.name, func(t *testing.T) {
			c := b.open()
			if err := c.Write(f.send); err != nil {
				t.Fatal(err)
			}
			mustRefuse(t, c, f.code)
			mustEndAs(t, c, f.fate)
			b.mustServe(bystander, id)
		})
	}
}

// mustRefuse reads an error response with the code and the correlation id.
func mustRefuse(t *testing.T, c *rig.Conn, code wire.Code) {
	t.Helper()
	h, body, err := c.Read()
	if err != nil {
		t.Fatalf("no answer: %v", err)
	}
	if !h.IsError() || h.Correlation != corr {
		t.Fatalf("answer %+v, expected an error response to %d", h, corr)
	}
	e, err := wire.DecodeErrorResponse(body)
	if err != nil || e.Code != code {
		t.Fatalf("answer %v %q (%v), expected %v", e.Code, e.Message, err, code)
	}
}

// mustEndAs wants a connection to live on or to be closed.
func mustEndAs(t *testing.T, c *rig.Conn, f fate) {
	t.Helper()
	if f == stays {
		if err := c.Ping(); err != nil {
			t.Fatalf("the connection does not live on: %v", err)
		}
		return
	}
	// The broker may wait a while for what is still on its way to it; the end of
	// that is told. It takes no more requests.
	if err := c.Write(wire.AppendPingRequest(nil, corr+1)); err != nil && !gone(err) {
		t.Fatal(err)
	}
	_ = c.CloseWrite() // it may be closed already
	if h, _, err := c.Read(); !gone(err) {
		t.Fatalf("read %+v, %v; expected the end of the connection", h, err)
	}
}

// gone reports whether an error is the end of a connection.
func gone(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

func TestTheFirstFrameIsHello(t *testing.T) {
	hello := func(change func(h *wire.HelloRequest)) []byte {
		h := wire.HelloRequest{MinProtocol: wire.Protocol, MaxProtocol: wire.Protocol, WantedShard: wire.AnyShard}
		change(&h)
		return wire.AppendHelloRequest(nil, corr, h)
	}
	magic := hello(func(*wire.HelloRequest) {})
	magic[wire.HeaderSize] ^= 0xff
	const limit = wire.MaxFrameBeforeHello
	b := start(t)
	id := b.topic("hello", 1)
	bystander := b.open()
	for _, f := range []struct {
		name string
		send []byte
		code wire.Code
	}{
		{"ping", wire.AppendPingRequest(nil, corr), wire.CodeHelloRequired},
		{"fetch", whole(wire.OpFetch, corr, make([]byte, wire.FetchRequestSize)...), wire.CodeHelloRequired},
		{"another magic", magic, wire.CodeMalformedFrame},
		{"a later protocol", hello(func(h *wire.HelloRequest) { h.MinProtocol, h.MaxProtocol = 2, 9 }), wire.CodeUnsupportedVersion},
		{"a hello as long as a frame may be later", frame(limit, wire.OpHello, 1, 0, corr), wire.CodeFrameTooLarge},
	} {
		t.Run(f.name, func(t *testing.T) {
			c := b.dial()
			if err := c.Write(f.send); err != nil {
				t.Fatal(err)
			}
			mustRefuse(t, c, f.code)
			mustEndAs(t, c, closes)
			b.mustServe(bystander, id)
		})
	}
}

func TestGarbageEndsItsConnectionOnly(t *testing.T) {
	seed := rig.Seed(t, 0, false)
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	b := start(t)
	id := b.topic("garbage", 1)
	bystander := b.open()
	noise := func(n int) []byte {
		g := make([]byte, n)
		for i := range g {
			g[i] = byte(rng.Uint32())
		}
		return g
	}
	sent := [][]byte{[]byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), {0}, noise(11), noise(12), noise(13)}
	for range 20 {
		sent = append(sent, noise(1+rng.IntN(100_000)))
	}
	for _, greeted := range []bool{false, true} {
		for _, g := range sent {
			c := b.dial()
			if greeted {
				if err := c.Handshake(); err != nil {
					t.Fatal(err)
				}
			}
			// The broker may end the connection while this is written.
			_ = c.Write(g)
			_ = c.CloseWrite()
			for {
				if _, _, err := c.Read(); err != nil {
					if !gone(err) {
						t.Fatalf("%d bytes of garbage (%x...): %v", len(g), g[:min(len(g), 16)], err)
					}
					break
				}
			}
		}
		b.mustServe(bystander, id)
	}
}

func TestFramesCutOffAnywhereWriteNothing(t *testing.T) {
	b := start(t)
	id := b.topic("cut", 1)
	bystander := b.open()
	b.mustServe(bystander, id)
	f := wire.AppendProduceRequest(nil, corr, &wire.ProduceRequest{Topic: id, Batch: batchOf("never", "complete")})
	for n := 1; n < len(f); n++ {
		c := b.open()
		if err := c.Write(f[:n]); err != nil {
			t.Fatal(err)
		}
		if err := c.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if h, _, err := c.Read(); !gone(err) {
			t.Fatalf("after %d of %d bytes: %+v, %v; expected the end of the connection", n, len(f), h, err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, end, err := bystander.Bounds(id, 0); err != nil || end != 1 {
		t.Fatalf("the end is %d (%v), expected 1", end, err)
	}
}

func TestFramesInPiecesAreWhole(t *testing.T) {
	b := start(t)
	id := b.topic("pieces", 1)
	c := b.open()
	f := wire.AppendProduceRequest(nil, corr, &wire.ProduceRequest{Topic: id, Batch: batchOf("byte", "by", "byte")})
	for i := range f {
		if err := c.Write(f[i : i+1]); err != nil {
			t.Fatal(err)
		}
	}
	h, body, err := c.Read()
	if err != nil || h.Correlation != corr {
		t.Fatalf("%+v, %v", h, err)
	}
	if r, err := wire.DecodeProduceResponse(body); err != nil || r.Code != wire.CodeNone || r.BaseOffset != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
}
