package history

import (
	"errors"
	"slices"
	"testing"
)

func TestContentsSayWhoTheyAre(t *testing.T) {
	for _, size := range []int{MinSize, MinSize + 1, 27, 28, 29, 180, 512, 70000} {
		m := Message{Stream: 7, Producer: 3, Seq: uint32(size)}
		b := Append([]byte("before"), m, size)
		if len(b) != size+6 {
			t.Fatalf("%d bytes, expected %d", len(b)-6, size)
		}
		if got, err := Identify(b[6:]); err != nil || got != m {
			t.Errorf("size %d: %v, %v", size, got, err)
		}
	}
}

func TestContentsThatDifferInOneBitAreChanged(t *testing.T) {
	for _, size := range []int{MinSize, 29, 180} {
		b := Append(nil, Message{1, 2, 3}, size)
		for bit := range size * 8 {
			c := slices.Clone(b)
			c[bit/8] ^= 1 << (bit % 8)
			m, err := Identify(c)
			// Without noise only the identity is there, and another one is as good.
			if size == MinSize && err == nil && m != (Message{1, 2, 3}) {
				continue
			}
			if !errors.Is(err, ErrChanged) {
				t.Fatalf("size %d: bit %d flipped: message %v, error %v", size, bit, m, err)
			}
		}
	}
}

func TestContentsOfAnotherLengthAreChanged(t *testing.T) {
	b := Append(nil, Message{1, 2, 3}, 180)
	for _, c := range [][]byte{nil, b[:19], b[:179], append(slices.Clone(b), 0), b[1:]} {
		if _, err := Identify(c); !errors.Is(err, ErrChanged) {
			t.Errorf("%d bytes: %v", len(c), err)
		}
	}
}

func TestContentsOfDifferentMessagesDiffer(t *testing.T) {
	seen := map[string]Message{}
	for stream := range uint32(4) {
		for producer := range uint32(16) {
			for seq := range uint32(64) {
				m := Message{stream, producer, seq}
				noise := string(Append(nil, m, 44)[MinSize:])
				if other, twice := seen[noise]; twice {
					t.Fatalf("messages %v and %v have the same noise", m, other)
				}
				seen[noise] = m
			}
		}
	}
}
