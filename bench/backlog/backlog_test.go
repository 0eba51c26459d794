package backlog

import (
	"context"
	"errors"
	"strings"
	"testing"
)

func TestTheBareConnectionCarriesEveryByte(t *testing.T) {
	for _, n := range []int64{1, pieceBytes, 3*pieceBytes + 7} {
		if rate, err := loopback(t.Context(), n); err != nil || rate <= 0 {
			t.Fatalf("%d bytes: %v, %v", n, rate, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := loopback(ctx, 1<<40); !errors.Is(err, context.Canceled) {
		t.Fatalf("cancelled: %v", err)
	}
}

func TestTheSummaryIsOfMediansAndRatiosOfPairs(t *testing.T) {
	r := Result{Rounds: []Round{
		{PerSecond: 1, BytesPerSecond: 10, Raw: 20}, {PerSecond: 5, BytesPerSecond: 30, Raw: 40}, {PerSecond: 2, BytesPerSecond: 90, Raw: 100},
	}}
	r.sum()
	if r.PerSecond != 2 || r.Raw != 40 || r.Ratio != 0.75 || r.Err() != nil {
		t.Fatalf("%+v", r)
	}
	r.Rounds[1].Wrong = 3
	if !errors.Is(r.Err(), ErrWrong) {
		t.Fatal("messages out of place pass")
	}
}

func TestOptionsOutsideTheirRangeAreNamed(t *testing.T) {
	_, err := Run(t.Context(), Options{Addr: "127.0.0.1:1", Size: 15})
	if err == nil || !strings.Contains(err.Error(), "size: 15, expected 16 to") {
		t.Fatal(err)
	}
}
