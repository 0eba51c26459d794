package journal

import (
	"errors"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/mqd-broker/mqd/engine/aio"
)

// refuseNth makes the n-th operation of a kind fail, counted from now.
func (r *memRegion) refuseNth(n int, kind aio.Kind, err error) {
	r.refuse = func(op *aio.Op) error {
		if op.Kind != kind {
			return nil
		}
		n--
		if n == 0 {
			return err
		}
		return nil
	}
}

func TestAFailedWriteEndsTheJournal(t *testing.T) {
	b := newBench(t, testSize, Options{MaxInFlight: 2})
	b.add(100, NeedWritten)
	b.turn()
	b.add(100, NeedWritten)
	b.turn()
	b.region.refuseNth(1, aio.KindWrite, syscall.EIO)
	b.region.settle()
	var write *WriteError
	if !errors.As(b.obs.err, &write) || write.LSN != 1 || !errors.Is(b.obs.err, syscall.EIO) {
		t.Fatalf("reported %v", b.obs.err)
	}
	if errors.Is(b.obs.err, ErrDeviceFailed) || b.j.opts.DeviceFailed.Load() {
		t.Fatal("a failed plain write is not an error of the device")
	}
	if b.obs.calls != 0 {
		t.Fatalf("progress %d/%d behind a hole", b.obs.written, b.obs.flushed)
	}
	if _, err := b.try(10, NeedNone); !errors.Is(err, ErrFailed) {
		t.Fatalf("append after a failure: %v", err)
	}
	b.region.took()
	b.silence(10)
	b.j.Flush()
	b.j.Release(1)
	b.wantLog()
	if !b.j.Idle() {
		t.Fatal("a failed journal with nothing in flight is idle")
	}
	b.region.refuse = nil
	res := b.reopen()
	if res.LastLSN != 0 {
		t.Fatalf("reopened at round %d: round 1 was never written", res.LastLSN)
	}
	b.write(10, NeedFlushed)
}

func TestAShortDSYNCWriteIsNoErrorOfTheDevice(t *testing.T) {
	b := newBench(t, testSize, Options{})
	b.region.refuseNth(1, aio.KindWrite, &aio.Error{Op: "write", Err: aio.ErrShort})
	b.add(100, NeedFlushed)
	b.run()
	var write *WriteError
	if !errors.As(b.obs.err, &write) || b.j.opts.DeviceFailed.Load() {
		t.Fatalf("reported %v, device failed: %v", b.obs.err, b.j.opts.DeviceFailed.Load())
	}
}

func TestAFailedFlushStopsEveryJournalOfTheDevice(t *testing.T) {
	for name, fails := range map[string]struct {
		method Method
		kind   aio.Kind
	}{
		"fdatasync": {MethodWriteFlush, aio.KindFdatasync},
		"dsync":     {MethodDSYNC, aio.KindWrite},
	} {
		t.Run(name, func(t *testing.T) {
			device := new(atomic.Bool)
			o := Options{DeviceFailed: device, Method: fails.method}
			a, b, idle := newBench(t, testSize, o), newBench(t, testSize, o), newBench(t, testSize, o)
			b.add(100, NeedWritten)
			b.turn()
			a.add(100, NeedFlushed)
			a.region.refuseNth(1, fails.kind, syscall.EIO)
			a.run()
			var flush *FlushError
			if !errors.As(a.obs.err, &flush) || !errors.Is(a.obs.err, syscall.EIO) || a.obs.flushed != 0 {
				t.Fatalf("reported %v, flushed watermark %d", a.obs.err, a.obs.flushed)
			}
			if !device.Load() {
				t.Fatal("the device's flag is not set")
			}
			b.region.settle()
			if b.obs.calls != 0 || !errors.Is(b.obs.err, ErrDeviceFailed) {
				t.Fatalf("the other journal reported progress %d times and %v", b.obs.calls, b.obs.err)
			}
			idle.turn()
			if !errors.Is(idle.obs.err, ErrDeviceFailed) {
				t.Fatalf("the idle journal reported %v", idle.obs.err)
			}
			// A later flush would succeed and mean nothing.
			a.region.took()
			a.j.Flush()
			a.silence(10)
			a.wantLog()
		})
	}
}

func TestAFailedAnchorFreesNothing(t *testing.T) {
	b := newBench(t, testSize, Options{})
	for range 5 {
		b.write(3000, NeedFlushed)
	}
	fill := b.j.Fill()
	b.region.refuseNth(1, aio.KindWrite, syscall.EIO)
	b.j.Release(3)
	b.region.settle()
	var flush *FlushError
	if !errors.As(b.obs.err, &flush) || b.j.Released() != 0 || b.j.Fill() != fill {
		t.Fatalf("reported %v, released %d", b.obs.err, b.j.Released())
	}
}

func TestOpeningOnAFailingDeviceSetsTheFlag(t *testing.T) {
	b := newBench(t, testSize, Options{})
	res, _ := b.scan()
	b.region.refuseNth(1, aio.KindFdatasync, syscall.EIO)
	device := new(atomic.Bool)
	if _, err := Open(b.d, b.region, res, Options{Observer: b.obs, DeviceFailed: device}); !errors.Is(err, ErrDeviceFailed) || !device.Load() {
		t.Fatalf("open: %v, flag %v", err, device.Load())
	}
}
