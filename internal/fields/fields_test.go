package fields

import (
	"encoding/binary"
	"testing"
)

func TestFieldsAreReadInOrder(t *testing.T) {
	b := []byte{7}
	b = binary.BigEndian.AppendUint16(b, 8)
	b = binary.BigEndian.AppendUint32(b, 9)
	b = binary.BigEndian.AppendUint64(b, 1<<63)
	b = append(b, "0123456789abcdef"...)
	b = append(b, 0, 2, 'o', 'k', 0, 0, 0, 1, 'x')
	r := Of(b)
	if v := r.U8("a"); v != 7 {
		t.Error(v)
	}
	if v := r.U16("b"); v != 8 {
		t.Error(v)
	}
	if v := r.U32("c"); v != 9 {
		t.Error(v)
	}
	if v := r.I64("d"); v != -1<<63 {
		t.Error(v)
	}
	if v := r.ID("e"); string(v[:]) != "0123456789abcdef" {
		t.Errorf("%x", v)
	}
	if v := r.Bytes("f"); string(v) != "ok" {
		t.Errorf("%q", v)
	}
	if n := r.Count(1, "g"); n != 1 || r.At() != len(b)-1 || r.Left() != 1 {
		t.Error(n, r.At(), r.Left())
	}
	if err := r.End(); err == nil || err.Field != "bytes after the end" || err.Found != 1 {
		t.Errorf("%+v", err)
	}
}

// Whatever is cut off, the first field that is missing is named, nothing is made by an
// unchecked count, and all that is read later is zero.
func TestTheFirstFailureSticks(t *testing.T) {
	whole := []byte{0, 0, 0, 2, 0, 1, 'a', 0, 1, 'b'}
	for n := range whole {
		r := Of(whole[:n])
		count := r.Count(3, "count")
		for range count {
			r.Bytes("element")
		}
		err := r.End()
		if err == nil {
			t.Fatalf("%d bytes of %d are taken for whole", n, len(whole))
		}
		if n < 10 && n >= 4 && (count != 0 || err.Field != "count" || err.At != 0 || err.Expected != int64((n-4)/3) || err.Found != 2) {
			t.Fatalf("%d bytes: %d elements, %+v", n, count, err)
		}
		if r.I64("more") != 0 || r.Take(1, "more") != nil || r.Err() != err {
			t.Fatalf("%d bytes: read on behind the failure", n)
		}
	}
	r := Of(whole)
	if r.Take(-1, "length") != nil || r.Err() == nil {
		t.Fatal("a negative length was taken")
	}
	r = Of(whole)
	r.FailNewer("kind", 0, 1, 2)
	r.Fail("other", 1, 1, 1)
	if err := r.Err(); !err.Newer || err.Field != "kind" {
		t.Fatalf("%+v", err)
	}
}
