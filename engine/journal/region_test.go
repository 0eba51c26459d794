package journal

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/aio/sim"
)

// pollStopper stops the machine at the n-th turn of a blocking call.
type pollStopper struct {
	*sim.Driver
	left int
	stop func()
}

func (p *pollStopper) Poll(wait time.Duration) (int, error) {
	if p.left--; p.left == 0 {
		p.stop()
	}
	return p.Driver.Poll(wait)
}

func TestACrashDuringCreationLeavesNoJournalOrAWholeOne(t *testing.T) {
	const size = 300 * BlockSize
	absent, whole := 0, 0
	for step := 1; step < 200; step++ {
		w := sim.New(sim.Options{Seed: uint64(step)})
		p := &pollStopper{Driver: w.Driver(driverOptions), left: step, stop: func() { w.Crash(sim.Keep(step % 4)) }}
		_, err := CreateFile(p, crashFile, size, Identity{Shard: 3})
		if err == nil {
			w.Crash(sim.KeepNone)
		}
		d := w.Driver(driverOptions)
		r, openErr := OpenFileRegionReadOnly(d, crashFile)
		if aio.IsNotExist(openErr) && err != nil {
			absent++
			if r, openErr = CreateFile(d, crashFile, size, Identity{Shard: 3}); openErr != nil {
				t.Fatalf("step %d: create again: %v", step, openErr)
			}
		} else {
			whole++
		}
		if openErr != nil {
			t.Fatalf("step %d: creation said %v, then: %v", step, err, openErr)
		}
		res, _, scanErr := scanAll(d, r)
		if scanErr != nil || r.Size() != size || res.Anchor.Shard != 3 || res.Anchor.Size != size {
			t.Fatalf("step %d: %v, %d bytes, anchor %+v", step, scanErr, r.Size(), res)
		}
		if err == nil {
			break
		}
	}
	if absent < 5 || whole == 0 {
		t.Fatalf("%d crashes left nothing, %d a journal: the test does not test", absent, whole)
	}
}

func TestAnExistingFileIsNotReplaced(t *testing.T) {
	w := sim.New(sim.Options{})
	d := w.Driver(driverOptions)
	r, err := CreateFile(d, crashFile, MinRegion, Identity{})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := CreateFileRegion(d, crashFile, MinRegion); !errors.Is(err, ErrExists) {
		t.Fatalf("create over a journal: %v", err)
	}
	if _, err := CreateFileRegion(d, "/small", MinRegion-1); !errors.Is(err, ErrRegion) {
		t.Fatalf("create of less than the minimum: %v", err)
	}
	if _, err := OpenFileRegion(d, "/none"); !aio.IsNotExist(err) {
		t.Fatalf("open of a missing file: %v", err)
	}
}

func TestAFullDiskLeavesNoFile(t *testing.T) {
	w := sim.New(sim.Options{Capacity: MinRegion})
	d := w.Driver(driverOptions)
	if _, err := CreateFileRegion(d, crashFile, 10*MinRegion); !aio.IsNoSpace(err) {
		t.Fatalf("create on a small disk: %v", err)
	}
	list, err := w.FS().ReadDir("/")
	if err != nil || len(list) != 0 {
		t.Fatalf("left behind: %v, %v", list, err)
	}
	if _, err := CreateFileRegion(d, crashFile, MinRegion); err != nil {
		t.Fatalf("create of what fits: %v", err)
	}
}

// slowRegion costs a fixed time a call.
type slowRegion struct {
	*memRegion
	d            *memDriver
	dsync, flush int64
	refuseDSYNC  error
}

func newSlowRegion(dsync, flush int64) (*memDriver, *slowRegion) {
	m := newMemRegion(MinRegion)
	d := &memDriver{region: m}
	r := &slowRegion{memRegion: m, d: d, dsync: dsync, flush: flush}
	m.refuse = func(op *aio.Op) error {
		if op.Flags&aio.FlagDSYNC != 0 {
			return r.refuseDSYNC
		}
		return nil
	}
	return d, r
}

func (r *slowRegion) Write(op *aio.Op, buf []byte, off int64, how aio.Flags) {
	if how&aio.FlagDSYNC != 0 {
		r.d.now += r.dsync
	}
	r.memRegion.Write(op, buf, off, how)
}

func (r *slowRegion) Flush(op *aio.Op) {
	r.d.now += r.flush
	r.memRegion.Flush(op)
}

func TestTheFasterMethodIsChosen(t *testing.T) {
	for name, c := range map[string]struct {
		dsync, flush int64
		refuse       error
		want         Method
	}{
		"dsync faster":  {50e3, 90e3, nil, MethodDSYNC},
		"flush faster":  {90e3, 50e3, nil, MethodWriteFlush},
		"equal":         {50e3, 50e3, nil, MethodDSYNC},
		"nearly equal":  {50e3, 45e3, nil, MethodDSYNC},
		"dsync refused": {1, 50e3, syscall.EOPNOTSUPP, MethodWriteFlush},
	} {
		d, r := newSlowRegion(c.dsync, c.flush)
		r.refuseDSYNC = c.refuse
		m, timing, err := ProbeMethod(d, r, nil)
		if err != nil || m != c.want || timing.WriteFlush < c.flush {
			t.Errorf("%s: %v, %+v, %v", name, m, timing, err)
		}
		if !zero(r.data[:scratchPos]) || !zero(r.data[RingStart:]) {
			t.Errorf("%s: the probe wrote outside the scratch block", name)
		}
	}
	d, r := newSlowRegion(1, 1)
	r.refuseDSYNC = syscall.EIO
	if _, _, err := ProbeMethod(d, r, nil); !errors.Is(err, syscall.EIO) {
		t.Errorf("a device that fails: %v", err)
	}
}

func TestTheProbeOfASlowDeviceIsNotMostOfAStart(t *testing.T) {
	const call = 40 * time.Millisecond
	d, r := newSlowRegion(int64(call), int64(2*call))
	before := d.now
	m, timing, err := ProbeMethod(d, r, nil)
	if err != nil || m != MethodDSYNC || timing.DSYNC < int64(call) {
		t.Fatalf("%v, %+v, %v", m, timing, err)
	}
	if took := time.Duration(d.now - before); took > fewestProbeRuns*4*call {
		t.Fatalf("%v of a device's time", took)
	}
}

// sleepy is a driver that must not sleep.
type sleepy struct {
	*memDriver
	t     *testing.T
	polls int
}

// Poll finds something every third time.
func (d *sleepy) Poll(wait time.Duration) (int, error) {
	if wait != 0 {
		d.t.Errorf("slept for up to %v", wait)
	}
	if d.polls++; d.polls%3 != 0 {
		return 0, nil
	}
	return d.memDriver.Poll(0)
}

func TestTheProbeWaitsAsTheLoopWill(t *testing.T) {
	d, r := newSlowRegion(50e3, 90e3)
	yields := 0
	s := &sleepy{memDriver: d, t: t}
	if m, _, err := ProbeMethod(s, r, func() { yields++ }); m != MethodDSYNC || err != nil {
		t.Fatalf("%v, %v", m, err)
	}
	if yields == 0 || yields != s.polls/3*2 {
		t.Fatalf("%d yields for %d polls", yields, s.polls)
	}
}
