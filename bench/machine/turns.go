package machine

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// Turns are what the scheduler has given the threads of a process, by their ids.
type Turns map[int]Turn

// Turn is one thread's.
type Turn struct {
	Scheduled
	// Pinned says that it may run on one CPU only: a shard's, or a client's, is.
	Pinned bool
}

// ReadTurns tells of a process. root is "/" outside tests.
func ReadTurns(root string, pid int) (Turns, error) {
	dirs, err := filepath.Glob(filepath.Join(root, "proc", strconv.Itoa(pid), "task", "*"))
	if err != nil {
		return nil, err
	}
	turns := Turns{}
	for _, dir := range dirs {
		id, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			return nil, err
		}
		text, err := os.ReadFile(filepath.Join(dir, "schedstat"))
		if err != nil {
			continue // the thread has ended, or the kernel has no such file
		}
		t := Turn{Pinned: len(allowedCPUs(filepath.Join(dir, "status"))) == 1}
		if _, err := fmt.Sscan(string(text), (*int64)(&t.Run), (*int64)(&t.Waited)); err != nil {
			return nil, fmt.Errorf("%s/schedstat: %w", dir, err)
		}
		turns[id] = t
	}
	return turns, nil
}

// Since says what has become since before: how long the pinned threads waited for their
// CPUs, all together, and how long the other threads ran.
func (t Turns) Since(before Turns) (waited, others time.Duration) {
	for id, now := range t {
		was := before[id].Scheduled // none of a thread that is new
		if now.Pinned {
			waited += now.Waited - was.Waited
		} else {
			others += now.Run - was.Run
		}
	}
	return waited, others
}
