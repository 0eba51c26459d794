package ethtool

import (
	"encoding/binary"
	"testing"
	"time"
)

func TestTheAnswerIsReadAsTheKernelWritesIt(t *testing.T) {
	var b [4 * coalesceNumbers]byte
	for i := range coalesceNumbers {
		binary.NativeEndian.PutUint32(b[4*i:], uint32(100+i))
	}
	if got := coalescing(&b); got != (Coalescing{Wait: 101 * time.Microsecond, Adaptive: true}) {
		t.Errorf("%+v", got)
	}
	binary.NativeEndian.PutUint32(b[4*10:], 0)
	if got := coalescing(&b); got.Adaptive {
		t.Errorf("%+v", got)
	}
}
