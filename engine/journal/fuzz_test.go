package journal

import (
	"bytes"
	"encoding/binary"
	"testing"
)

func FuzzDecodeRound(f *testing.F) {
	rounds := goldenRounds(&testing.T{})
	for _, name := range []string{"round-mark.bin", "round-small.bin"} {
		f.Add(bytes.TrimRight(rounds[name], "\x00"))
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		b = append(bytes.Clone(b), make([]byte, 2*BlockSize)...)
		h, err := DecodeHeader(b)
		if err != nil {
			return
		}
		if h.Size() > int(h.Total) || int(h.BodiesOffset)+int(h.BodyBytes) > int(h.Total) {
			t.Fatalf("accepted a header whose parts do not fit: %+v", h)
		}
		if int(h.Total) > len(b) {
			return
		}
		_ = whole(b)
		again := bytes.Clone(b[:h.Size()])
		crc := h.CRC
		h.Seal(again)
		binary.BigEndian.PutUint32(again[offCRC:], crc)
		if !bytes.Equal(again, b[:h.Size()]) {
			t.Fatalf("%+v has two encodings", h)
		}
	})
}

func FuzzDecodeAnchor(f *testing.F) {
	b := make([]byte, BlockSize)
	goldenAnchor.Encode(b)
	f.Add(b[:anchorSize])
	f.Add(append(bytes.Clone(b[:anchorSize]), 1))
	first := bytes.Clone(b[:anchorSize]) // of version 1, which had no limit
	binary.BigEndian.PutUint16(first[offVersion:], 1)
	clear(first[ancLimit:])
	f.Add(first)
	f.Fuzz(func(t *testing.T, in []byte) {
		b := make([]byte, BlockSize)
		copy(b, in)
		// So that the fuzzer gets past the checksum.
		binary.BigEndian.PutUint32(b[offCRC:], checksum(b))
		a, err := DecodeAnchor(b)
		if err != nil {
			return
		}
		again := make([]byte, BlockSize)
		a.Encode(again)
		// An older version comes back as the newest, and differs in nothing else.
		binary.BigEndian.PutUint16(b[offVersion:], AnchorVersion)
		binary.BigEndian.PutUint32(b[offCRC:], checksum(b))
		if !bytes.Equal(again, b) {
			t.Fatalf("%+v has two encodings", a)
		}
	})
}

// fuzzImage is a journal of two lives that has gone round.
func fuzzImage(t testing.TB) *bench {
	b := newBench(t, MinRegion, Options{RoundBytes: 4 * BlockSize})
	for i := range 60 {
		b.write(i*331%9000, NeedFlushed)
		if b.j.Free() < 8*BlockSize {
			b.j.Release(b.j.WrittenLSN() - 1)
			b.run()
		}
		if i == 50 {
			b.reopen()
		}
	}
	b.silence(2)
	return b
}

// FuzzScan changes bytes of a journal, and then corrects the checksum of the
// block's header in every other case: replay ends, opens again, and hands out only
// what was written.
func FuzzScan(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0, 4, 0, 80, 0xff, 1, 0, 5, 0, 100, 3, 0})
	f.Add([]byte{0, 0, 0, 70, 1, 0, 0, 1, 0, 70, 1, 0})
	good := fuzzImage(f)
	pristine := bytes.Clone(good.region.data)
	written := map[string]bool{}
	_, list := good.scan()
	for _, e := range list {
		written[e.body] = true
	}
	for i := range good.base {
		written[string(testBatch(i, int(i*331%9000)))] = true
	}
	f.Fuzz(func(t *testing.T, changes []byte) {
		region := newMemRegion(len(pristine))
		copy(region.data, pristine)
		resealed := false
		for ; len(changes) >= 6; changes = changes[6:] {
			block := int64(binary.BigEndian.Uint16(changes)) % (region.Size() / BlockSize) * BlockSize
			region.data[block+int64(binary.BigEndian.Uint16(changes[2:]))%BlockSize] ^= changes[4]
			if changes[5]&1 != 0 {
				resealed = reseal(region.data[block:]) || resealed
			}
		}
		d := &memDriver{region: region}
		res, found, err := scanAll(d, region)
		if err != nil {
			return
		}
		for _, e := range found {
			if !resealed && !written[e.body] {
				t.Fatalf("handed out a body of %d bytes that was never written", len(e.body))
			}
		}
		obs := &recorder{}
		j, err := Open(d, region, res, Options{Observer: obs, RoundBytes: 4 * BlockSize})
		if err != nil {
			t.Fatalf("open after a replay: %v", err)
		}
		if _, err := j.Append(&Entry{Kind: KindTail}, []byte("new"), NeedFlushed); err != nil {
			return // the damage may leave no room
		}
		j.Kick(1)
		region.settle()
		if obs.flushed != res.NextLSN {
			t.Fatalf("flushed %d, expected %d", obs.flushed, res.NextLSN)
		}
		_, again, err := scanAll(d, region)
		if resealed {
			return // headers that lie may contradict each other
		}
		if err != nil {
			t.Fatalf("second replay: %v", err)
		}
		if len(again) == 0 || again[len(again)-1].body != "new" {
			t.Fatalf("%d entries, then %d; the new one is not the last", len(found), len(again))
		}
	})
}

// reseal corrects the checksum of the round or anchor at the start of b.
func reseal(b []byte) bool {
	switch binary.BigEndian.Uint32(b) {
	case anchorMagic:
		binary.BigEndian.PutUint32(b[offCRC:], checksum(b[:BlockSize]))
		return true
	case roundMagic:
		size := HeaderSize + uint64(binary.BigEndian.Uint32(b[offTable:]))
		if size <= uint64(len(b)) {
			binary.BigEndian.PutUint32(b[offCRC:], checksum(b[:size]))
			return true
		}
	}
	return false
}
