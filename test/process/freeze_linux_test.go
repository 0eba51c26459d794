package process

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"testing"
)

// A thread may end when its file is open already.
func TestAThreadThatEndsWhileItIsLookedAtIsGone(t *testing.T) {
	end := make(chan struct{})
	tid := lockedThread(end)
	if tid == os.Getpid() { // Go never ends this one: it is kept, and another taken
		defer close(end)
		end = make(chan struct{})
		tid = lockedThread(end)
	}
	f, err := os.Open(fmt.Sprintf("/proc/self/task/%d/stat", tid))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	close(end)
	for err == nil {
		_, err = f.ReadAt(make([]byte, 1), 0)
	}
	if !gone(err) {
		t.Errorf("a thread that has ended is %v", err)
	}
	if _, err := os.ReadFile(f.Name()); !gone(err) {
		t.Errorf("later it is %v", err)
	}
}

// lockedThread is a thread that ends, if it may, when end is closed.
func lockedThread(end chan struct{}) int {
	tid := make(chan int)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		tid <- syscall.Gettid()
		<-end
	}()
	return <-tid
}
