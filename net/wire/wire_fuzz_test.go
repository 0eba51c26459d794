package wire

import (
	"bytes"
	"errors"
	"testing"
)

// FuzzDecoders feeds every decoder any bytes. A body that one accepts has one
// encoding: encoding what was decoded gives the same bytes back.
func FuzzDecoders(f *testing.F) {
	all := messages()
	for i, m := range all {
		f.Add(uint8(i), m.encode(nil, 1, m.sample)[HeaderSize:])
	}
	f.Add(uint8(0), []byte{})
	f.Fuzz(func(t *testing.T, which uint8, body []byte) {
		m := all[int(which)%len(all)]
		v, err := m.decode(body)
		if err != nil {
			if !errors.Is(err, ErrMalformed) || CodeOf(err) != CodeMalformedFrame {
				t.Fatalf("%s: %v", m.name, err)
			}
			return
		}
		if e, ok := v.(ErrorResponse); ok && (e.MinVersion != 1 || e.MaxVersion != 1) {
			return // the encoder takes the versions from this build's table
		}
		again := m.encode(nil, 1, v)[HeaderSize:]
		if !bytes.Equal(again, body) {
			t.Fatalf("%s: % x encodes again as % x", m.name, body, again)
		}
	})
}

// FuzzParseHeader holds what callers rely on: sizes within the limit, and
// never a negative one.
func FuzzParseHeader(f *testing.F) {
	f.Add(AppendPingRequest(nil, 1), uint32(MaxFrameBeforeHello))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 1, 1, 0, 0, 0, 0, 0, 0}, uint32(0xffffffff))
	f.Add([]byte{0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0}, uint32(0))
	f.Fuzz(func(t *testing.T, b []byte, limit uint32) {
		h, err := ParseHeader(b, limit)
		if err != nil {
			return
		}
		if h.FrameSize() > int(limit) || h.BodySize() < 0 || h.FrameSize() != HeaderSize+h.BodySize() {
			t.Fatalf("limit %d: %+v", limit, h)
		}
		if !bytes.Equal(appendWithVersion(h), b[:HeaderSize]) {
			t.Fatalf("header % x does not encode again", b[:HeaderSize])
		}
	})
}

func appendWithVersion(h Header) []byte {
	b := appendHeader(nil, h.Op, h.Flags, h.Correlation, h.BodySize())
	b[5] = h.Version
	return b
}
