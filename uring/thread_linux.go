package uring

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxCPU is one more than the highest CPU that an affinity mask of the kernel
// interface used here can name.
const maxCPU = 1024

// PinThread lets the calling thread run on one CPU only. The goroutine must be
// locked to its thread, and stay so: the pin does not leave the thread.
func PinThread(cpu int) error {
	if cpu < 0 || cpu >= maxCPU {
		return fmt.Errorf("uring: pinning to CPU %d: %w", cpu, unix.EINVAL)
	}
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("uring: pinning to CPU %d: %w", cpu, err)
	}
	return nil
}

// SchedYield lets another thread of this CPU run, if one wants to: kernel workers
// that complete durable writes do, and a thread that polls without yielding
// delays them to the scheduler's next tick.
func SchedYield() {
	_, _, _ = syscall.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
}

// Thread is the calling thread as a shard's loop sees it.
type Thread struct{}

// Yield is SchedYield.
func (Thread) Yield() { SchedYield() }
