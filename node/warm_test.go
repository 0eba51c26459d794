package node

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/mqd-broker/mqd/engine/aio"
)

// warmer is a driver that has to be warmed up.
type warmer struct {
	aio.Driver
	warm *atomic.Int32
	err  error
}

func (w warmer) Warm() error {
	w.warm.Add(1)
	return w.err
}

func TestEveryDriverIsWarmBeforeItServes(t *testing.T) {
	r := newMachine(t, small(3))
	var warm atomic.Int32
	r.p.wrap = func(_ int, d aio.Driver) aio.Driver { return warmer{d, &warm, nil} }
	r.start()
	if n := warm.Load(); n != 3 {
		t.Fatalf("%d drivers of 3 are warm", n)
	}
}

func TestADriverThatDoesNotGetWarmIsNotServedWith(t *testing.T) {
	r := newMachine(t, small(2))
	failed := errors.New("no memory")
	r.p.wrap = func(shard int, d aio.Driver) aio.Driver {
		if shard == 0 {
			return d
		}
		return warmer{d, new(atomic.Int32), failed}
	}
	if err := r.tryStart(); !errors.Is(err, failed) {
		t.Fatalf("start: %v", err)
	}
}
