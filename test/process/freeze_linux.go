package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// Freeze stops the process by SIGSTOP and waits until each of its threads stands still:
// the signal is only noted when it is sent, and a thread that runs goes on for a while.
func (b *Broker) Freeze(ctx context.Context) error {
	if err := b.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return Frozen(ctx, b.cmd.Process.Pid)
}

// Frozen waits until each thread of a process that has been sent SIGSTOP stands still.
func Frozen(ctx context.Context, pid int) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		running, err := anyRuns(pid)
		if err != nil || !running {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("process %d has not stopped: %w", pid, ctx.Err())
		case <-tick.C:
		}
	}
}

// anyRuns reports whether a thread is not stopped. The kernel's own, which work for
// io_uring, do only what they have been given before.
func anyRuns(pid int) (bool, error) {
	tasks, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/stat")
	if err == nil && len(tasks) == 0 {
		err = os.ErrProcessDone
	}
	for _, path := range tasks {
		stat, err := os.ReadFile(path)
		if gone(err) {
			continue
		}
		if err != nil {
			return false, err
		}
		_, name, _ := bytes.Cut(stat, []byte("("))
		end := bytes.LastIndexByte(name, ')')
		if end < 0 || len(name) < end+3 {
			return false, fmt.Errorf("%s: %q", path, stat)
		}
		if state := name[end+2]; state != 'T' && !bytes.HasPrefix(name, []byte("iou-")) {
			return true, nil
		}
	}
	return false, err
}

// gone reports whether an error in reading a thread's file says that the thread has ended:
// before the file was opened, or between that and the reading of it.
func gone(err error) bool { return errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) }
