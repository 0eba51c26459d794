package ethtool

import (
	"errors"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

func TestCardsThatAreNotThereAreErrors(t *testing.T) {
	for _, card := range []string{"", strings.Repeat("x", unix.IFNAMSIZ)} {
		if c, err := Ask(card); !errors.Is(err, unix.ENODEV) {
			t.Errorf("%q: %+v, %v", card, c, err)
		}
	}
	// A kernel that is asked says ENODEV, a filter in front of it what it likes.
	for _, card := range []string{"mqd-none", "lo"} {
		if c, err := Ask(card); err == nil || c != (Coalescing{}) {
			t.Errorf("%q: %+v, %v", card, c, err)
		}
	}
}

func TestARequestIsAsLongAsTheKernels(t *testing.T) {
	if size := unsafe.Sizeof(request{}); size != unix.IFNAMSIZ+24 {
		t.Errorf("%d bytes", size)
	}
}
