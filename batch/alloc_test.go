package batch

import "testing"

// The shard runs the first group on every batch, clients and helpers the second
// on every record or message; none may allocate once its memory is there.
func TestHotFunctionsDoNotAllocate(t *testing.T) {
	records := append(goldenRecords(), alerts(64)...)
	b := build(t, records, CodecNone)
	compressed := build(t, records, CodecSnappy)
	h, err := Check(b, MaxSize)
	if err != nil {
		t.Fatal(err)
	}
	builder := NewBuilder(make([]byte, 0, len(b)), len(b))
	out := make([]byte, 0, len(b))

	p := NewPlainBuilder(nil, MaxSize)
	for _, r := range alerts(64) {
		if err := p.Append(r.Value); err != nil {
			t.Fatal(err)
		}
	}
	plain := p.Finish()
	ph, err := CheckPlain(plain, MaxSize)
	if err != nil {
		t.Fatal(err)
	}
	room := make([]byte, 0, PlainBatchBound(ph))
	fetched := make([]byte, 0, 1<<20)
	var d Decoder
	var sink int

	for _, f := range []struct {
		name string
		run  func() error
	}{
		{"ParseHeader", func() error { _, err := ParseHeader(b); return err }},
		{"Check", func() error { _, err := Check(b, len(b)); return err }},
		{"CheckStored", func() error { _, err := CheckStored(b); return err }},
		{"Split", func() error { _, _, err := Split(b); return err }},
		{"Stamp", func() error { Stamp(b, 12345, 6); return nil }},
		{"StampAppendTime", func() error { StampAppendTime(compressed, 99); return nil }},
		{"CheckPlain", func() error { _, err := CheckPlain(plain, MaxSize); return err }},
		{"PlainToBatch", func() error { _, err := PlainToBatch(room, plain, 1); return err }},

		{"Builder", func() error {
			builder.Reset(out)
			for i := range records {
				if err := builder.Append(&records[i]); err != nil {
					return err
				}
			}
			sink += len(builder.Finish(CodecNone))
			return nil
		}},
		{"Builder that is full", func() error {
			builder.Reset(out)
			for i := 0; ; i++ {
				if err := builder.Append(&records[i%len(records)]); err == ErrFull {
					return nil
				} else if err != nil {
					return err
				}
			}
		}},
		{"PlainBuilder", func() error {
			p.Reset(plain[:0])
			for i := range 64 {
				if err := p.Append(records[len(records)-64+i].Value); err != nil {
					return err
				}
			}
			p.Finish()
			return nil
		}},
		{"Iterator", func() error {
			it := h.Records(b[AtRecords:])
			for it.Next() {
				r := it.Record()
				sink += len(r.Value)
				for hs := r.Headers(); hs.Next(); {
					sink += len(hs.Key())
				}
			}
			return it.Err()
		}},
		{"Decoder", func() error {
			_, it, err := d.Open(compressed)
			for err == nil && it.Next() {
				sink++
			}
			return err
		}},
		{"AppendPlainFetch", func() error {
			it := h.Records(b[AtRecords:])
			_, _, err := AppendPlainFetch(fetched, &it, 0, MaxSize)
			return err
		}},
		{"PlainFetched", func() error {
			it := PlainFetched(fetched)
			for it.Next() {
				sink++
			}
			return it.Err()
		}},
		{"Partition", func() error { sink += int(Partition(b, 8)); return nil }},
	} {
		if n := testing.AllocsPerRun(100, func() {
			if err := f.run(); err != nil {
				t.Fatalf("%s: %v", f.name, err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", f.name, n)
		}
	}
}

// A refusal costs one small object: nothing is formatted until it is read.
func TestRefusalAllocatesItsErrorOnly(t *testing.T) {
	b := build(t, goldenRecords(), CodecNone)
	b[len(b)-1] ^= 1
	if n := testing.AllocsPerRun(100, func() {
		if _, err := Check(b, MaxSize); err == nil {
			t.Fatal("accepted")
		}
	}); n > 1 {
		t.Errorf("%v allocations", n)
	}
}
