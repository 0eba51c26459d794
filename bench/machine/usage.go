package machine

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// clockTick is the unit of times in /proc/<pid>/stat.
const clockTick = 10 * time.Millisecond

// CPUTime is the CPU time that a process has used, as proc(5) tells: from its
// threads' schedstat, to the nanosecond, else from stat, in ticks of 10 ms. root
// is "/" outside tests.
func CPUTime(root string, pid int) (time.Duration, error) {
	dir := filepath.Join(root, "proc", strconv.Itoa(pid))
	if used, ok := scheduled(dir); ok {
		return used, nil
	}
	text, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return 0, err
	}
	// The name, in parentheses, may hold anything.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	const user, system = 11, 12 // after the name
	if len(fields) <= system {
		return 0, fmt.Errorf("%s/stat: %d fields after the name, expected more than %d", dir, len(fields), system)
	}
	var ticks int64
	for _, f := range []string{fields[user], fields[system]} {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s/stat: %w", dir, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * clockTick, nil
}

// PeakMemory is the most memory, in bytes, that a process has had resident. root is
// "/" outside tests.
func PeakMemory(root string, pid int) (int64, error) { return memory(root, pid, "VmHWM:") }

// ResidentMemory is the memory, in bytes, that a process has resident. root is "/" outside
// tests.
func ResidentMemory(root string, pid int) (int64, error) { return memory(root, pid, "VmRSS:") }

// SocketMemory is the memory, in bytes, that the kernel has for the buffers of all TCP
// sockets of the machine, which is in no process's. root is "/" outside tests.
func SocketMemory(root string) (int64, error) {
	path := filepath.Join(root, "proc/net/sockstat")
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 2 && fields[0] == "TCP:" && fields[len(fields)-2] == "mem" {
			pages, err := strconv.ParseInt(fields[len(fields)-1], 10, 64)
			return pages * int64(os.Getpagesize()), err
		}
	}
	return 0, fmt.Errorf("%s: no TCP memory", path)
}

// memory is a line of a process's status.
func memory(root string, pid int, name string) (int64, error) {
	path := filepath.Join(root, "proc", strconv.Itoa(pid), "status")
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("%s: no line %s", path, name)
}

// Scheduled is what the kernel's scheduler has given a thread.
type Scheduled struct {
	// Run is how long it has run, Waited how long it wanted to and others had the
	// CPU.
	Run, Waited time.Duration
}

// ThreadSchedule tells of the calling thread, which the goroutine must be locked
// to; ok is false where that is not known. root is "/" outside tests.
func ThreadSchedule(root string) (s Scheduled, ok bool) {
	text, err := os.ReadFile(filepath.Join(root, "proc/thread-self/schedstat"))
	if err != nil {
		return s, false
	}
	_, err = fmt.Sscan(string(text), (*int64)(&s.Run), (*int64)(&s.Waited))
	return s, err == nil
}

// scheduled sums the run times of a process's threads.
func scheduled(dir string) (time.Duration, bool) {
	files, err := filepath.Glob(filepath.Join(dir, "task", "*", "schedstat"))
	if err != nil || len(files) == 0 {
		return 0, false
	}
	var sum time.Duration
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			continue // the thread has ended
		}
		first, _, _ := strings.Cut(string(text), " ")
		ns, err := strconv.ParseInt(first, 10, 64)
		if err != nil {
			return 0, false
		}
		sum += time.Duration(ns)
	}
	return sum, true
}
