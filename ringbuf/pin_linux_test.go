package ringbuf

import (
	"runtime"
	"syscall"
	"testing"
	"unsafe"
)

// pin locks the calling goroutine to its thread and the thread to one CPU, and
// returns what undoes both. CPUs are counted among those allowed to the process.
func pin(tb testing.TB, cpu int) (undo func()) {
	tb.Helper()
	runtime.LockOSThread()
	var before, one [16]uint64 // 1024 CPUs
	if err := affinity(syscall.SYS_SCHED_GETAFFINITY, &before); err != 0 {
		tb.Errorf("reading the CPUs of a thread: %v", err)
	}
	nth := 0
	for i := range len(before) * 64 {
		if before[i/64]&(1<<(i%64)) == 0 {
			continue
		}
		if nth == cpu {
			one[i/64] = 1 << (i % 64)
		}
		nth++
	}
	if err := affinity(syscall.SYS_SCHED_SETAFFINITY, &one); err != 0 {
		tb.Errorf("pinning a thread to CPU %d of %d allowed: %v", cpu, nth, err)
	}
	return func() {
		if err := affinity(syscall.SYS_SCHED_SETAFFINITY, &before); err != 0 {
			tb.Errorf("unpinning a thread: %v", err)
		}
		runtime.UnlockOSThread()
	}
}

func affinity(call uintptr, mask *[16]uint64) syscall.Errno {
	_, _, err := syscall.RawSyscall(call, 0, unsafe.Sizeof(*mask), uintptr(unsafe.Pointer(mask)))
	return err
}

// relax gives the CPU to whoever else wants it.
func relax() { syscall.RawSyscall(syscall.SYS_SCHED_YIELD, 0, 0, 0) }
