//go:build !linux

package ringbuf

import (
	"runtime"
	"testing"
)

// pin cannot choose a CPU here; it only locks the goroutine to its thread.
func pin(_ testing.TB, _ int) (undo func()) {
	runtime.LockOSThread()
	return runtime.UnlockOSThread
}

// relax gives the CPU to whoever else wants it.
func relax() { runtime.Gosched() }
