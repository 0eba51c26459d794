package batch

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/mqd-broker/mqd/internal/invariant"
)

// A batch with reserved records is the batch that appending them makes, byte for byte, and
// what was withdrawn leaves no trace.
func TestReservedRecordsAreThoseThatAppendMakes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(HeaderSize, 2000).Draw(t, "limit")
		codec := rapid.SampledFrom(allCodecs).Draw(t, "codec")
		a, b := NewBuilder(nil, limit), NewBuilder(bytes.Repeat([]byte{0xff}, 100)[:0], limit)
		for _, r := range rapid.SliceOfN(genRecord(), 1, 30).Draw(t, "records") {
			if r.Headers = nil; r.Value == nil {
				r.Value = []byte{}
			}
			how := rapid.IntRange(0, 2).Draw(t, "append, reserve or withdraw")
			if how == 0 {
				if x, y := a.Append(&r), b.Append(&r); !errors.Is(x, y) && !errors.Is(y, ErrTooLarge) {
					t.Fatalf("%v, %v", x, y)
				}
				continue
			}
			size, need := b.Size(), b.SizeOfReserved(r.Timestamp, r.Key, len(r.Value))
			if need != a.SizeOf(&r) {
				t.Fatalf("a reservation of %d bytes, the record takes %d", need, a.SizeOf(&r))
			}
			key, value, err := b.Reserve(r.Timestamp, r.Key, len(r.Value))
			if fits := a.Fits(&r); fits != (err == nil) || b.Size() != size {
				t.Fatalf("fits %v, error %v, size %d of %d", fits, err, b.Size(), size)
			}
			if err != nil {
				if want := a.Append(&r); want.Error() != err.Error() {
					t.Fatalf("%v, expected %v", err, want)
				}
				continue
			}
			if !bytes.Equal(key, r.Key) || (key == nil) != (r.Key == nil) || value == nil || len(value) != len(r.Value) || cap(value) != len(value) {
				t.Fatalf("key %x, value of %d bytes and room for %d", key, len(value), cap(value))
			}
			if bytes.Trim(value, "\x00") != nil {
				t.Fatalf("the value begins as %x", value)
			}
			if copy(value, r.Value); how == 2 {
				b.Withdraw()
				continue
			}
			b.Commit()
			if err := a.Append(&r); err != nil {
				t.Fatal(err)
			}
		}
		if a.Count() == 0 {
			return
		}
		// One that is open when the batch ends is left out, and can still be read.
		_, open, err := b.Reserve(a.baseTime, nil, 5)
		copy(open, "later")
		out := b.Finish(codec)
		if want := a.Finish(codec); !bytes.Equal(out, want) {
			t.Fatalf("reserved\n%x, appended\n%x", out, want)
		}
		if err == nil && string(open) != "later" {
			t.Fatalf("the open one became %q", open)
		}
	})
}

func TestADiscardedBatchGivesItsMemoryBack(t *testing.T) {
	b := NewBuilder(make([]byte, 7, 500), 400)
	if _, _, err := b.Reserve(1, []byte("k"), 100); err != nil {
		t.Fatal(err)
	}
	if got := b.Discard(); len(got) != 7 || cap(got) != 500 {
		t.Fatalf("%d of %d bytes", len(got), cap(got))
	}
}

func TestReservationsOutOfOrderPanic(t *testing.T) {
	reserve := func(b *Builder) { _, _, _ = b.Reserve(1, nil, 1) }
	r := Record{Value: []byte("x")}
	for name, f := range map[string]func(b *Builder){
		"two":                    func(b *Builder) { reserve(b); reserve(b) },
		"append behind one":      func(b *Builder) { reserve(b); _ = b.Append(&r) },
		"commit without one":     func(b *Builder) { b.Commit() },
		"commit twice":           func(b *Builder) { reserve(b); b.Commit(); b.Commit() },
		"commit after the end":   func(b *Builder) { _ = b.Append(&r); reserve(b); b.Finish(0); b.Commit() },
		"reserve after the end":  func(b *Builder) { _ = b.Append(&r); b.Finish(0); reserve(b) },
		"end without a record":   func(b *Builder) { reserve(b); b.Finish(0) },
		"append after a discard": func(b *Builder) { b.Discard(); _ = b.Append(&r) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if _, ok := recover().(invariant.Violation); !ok {
					t.Error("no invariant was violated")
				}
			}()
			f(NewBuilder(nil, 400))
		})
	}
}

func TestReserveDoesNotAllocate(t *testing.T) {
	out := make([]byte, 0, 4096)
	b := NewBuilder(out, 4096)
	key := []byte("key")
	if n := testing.AllocsPerRun(100, func() {
		b.Reset(out)
		for range 10 {
			_, v, err := b.Reserve(5, key, 180)
			if err != nil {
				t.Fatal(err)
			}
			v[0] = 1
			b.Commit()
		}
		b.Finish(CodecNone)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
