package uring

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/engine/aio"
	"golang.org/x/sys/unix"
)

func TestAWaitEndsWithItsTime(t *testing.T) {
	d := open(t, small, Config{})
	start := d.clock.Now()
	n, err := d.Poll(5 * time.Millisecond)
	if n != 0 || err != nil {
		t.Fatal(n, err)
	}
	if waited := d.clock.Now() - start; waited < int64(5*time.Millisecond) {
		t.Fatalf("waited %v, less than asked", time.Duration(waited))
	}
}

func TestPollingWithoutWorkMakesNoSystemCall(t *testing.T) {
	d := open(t, small, Config{})
	f := newFile(t, d, 0)
	b := memory(t, d, 4096)
	// A first wait arms the wake-up and leaves nothing to submit.
	_, err := d.Poll(time.Millisecond)
	check(t, err)
	before := d.Stats().Enters
	for range 1000 {
		_, err := d.Poll(0)
		check(t, err)
	}
	if n := d.Stats().Enters - before; n != 0 {
		t.Fatalf("%d calls", n)
	}
	// Completions of the device are seen by polling alone.
	op := aio.Op{Kind: aio.KindWrite, File: f, Buf: b, Flags: aio.FlagDSYNC, Owner: &log{}}
	d.Submit(&op)
	for op.InFlight() {
		_, err := d.Poll(0)
		check(t, err)
		SchedYield()
	}
	check(t, op.Err)
	if n := d.Stats().Enters - before; n < 1 || n > 4 {
		t.Fatalf("%d calls for one write", n)
	}
}

// TestSignalsDoNotEndAWait storms the sleeping thread with signals; only the wake
// at the end may end its wait.
func TestSignalsDoNotEndAWait(t *testing.T) {
	d := open(t, small, Config{})
	tid := unix.Gettid()
	var woken atomic.Bool
	var sent sync.WaitGroup
	sent.Add(1)
	go func() {
		defer sent.Done()
		for !d.waker.asleep.Load() {
			runtime.Gosched()
		}
		for i := range 2000 {
			_ = unix.Tgkill(unix.Getpid(), tid, unix.SIGURG)
			if i%100 == 0 {
				runtime.GC()
			}
		}
		woken.Store(true)
		d.Wake()
	}()
	n, err := d.Poll(time.Hour)
	if n != 0 || err != nil || !woken.Load() {
		t.Fatalf("the wait ended before the wake: %d, %v", n, err)
	}
	sent.Wait()
	if d.Stats().Sleeps < 2 {
		t.Skip("no signal met the wait")
	}
}

func TestNoWakeIsLostAndMostCostNothing(t *testing.T) {
	const wakers, each = 8, 1600
	d := open(t, small, Config{})
	var asked, served [wakers]atomic.Int64
	var all sync.WaitGroup
	for w := range wakers {
		all.Add(1)
		go func() {
			defer all.Done()
			for i := int64(1); i <= each; i++ {
				asked[w].Store(i)
				d.Wake()
				for i%8 == 0 && served[w].Load() < i {
					runtime.Gosched()
				}
			}
		}()
	}
	// A lost wake would leave the loop waiting for ever, and its waker too.
	polls := 0
	for left := wakers; left > 0; polls++ {
		_, err := d.Poll(math.MaxInt64)
		check(t, err)
		left = 0
		for w := range wakers {
			n := asked[w].Load()
			served[w].Store(n)
			if n < each {
				left++
			}
		}
	}
	all.Wait()
	calls := d.Stats().WakeCalls
	if calls > uint64(polls) {
		t.Fatalf("%d system calls woke %d polls", calls, polls)
	}
	t.Logf("%d wakes, %d polls, %d system calls", wakers*each, polls, calls)
}

func TestTheWakeUpIsArmedAgainWhenTheKernelEndsIt(t *testing.T) {
	d := open(t, small, Config{})
	_, err := d.Poll(time.Millisecond)
	check(t, err)
	e := d.sqe()
	prepareCancel(e, wakeData)
	for d.wakeArmed {
		_, err := d.Poll(0)
		check(t, err)
	}
	go func() {
		for !d.waker.asleep.Load() {
			runtime.Gosched()
		}
		d.Wake()
	}()
	_, err = d.Poll(time.Hour)
	check(t, err)
}

func TestAWakeAfterCloseTouchesNoDescriptor(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	d, err := New(small, Config{})
	check(t, err)
	var stop atomic.Bool
	var all sync.WaitGroup
	for range 4 {
		all.Add(1)
		go func() {
			defer all.Done()
			for !stop.Load() {
				d.Wake()
			}
		}()
	}
	for range 200 {
		_, err := d.Poll(time.Hour)
		check(t, err)
	}
	fd := d.waker.fd
	check(t, d.Close())
	// The descriptor's number goes to a pipe, which stays empty.
	var p [2]int
	check(t, unix.Pipe2(p[:], unix.O_NONBLOCK|unix.O_CLOEXEC))
	if p[1] != fd {
		check(t, unix.Dup3(p[1], fd, unix.O_CLOEXEC))
		check(t, unix.Close(p[1]))
	}
	for range 1000 {
		d.Wake()
	}
	stop.Store(true)
	all.Wait()
	if n, err := unix.Read(p[0], make([]byte, 8)); err != unix.EAGAIN {
		t.Fatalf("a wake-up wrote %d bytes to a descriptor that was closed: %v", n, err)
	}
	check(t, unix.Close(p[0]))
	check(t, unix.Close(fd))
	if _, err := d.Poll(0); err != aio.ErrClosed {
		t.Fatalf("Poll after Close: %v", err)
	}
}
