package rig

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// unfit says why a directory is no place for a broker's data, "" if it is one.
func unfit(dir string) string {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return err.Error()
	}
	if st.Type == unix.TMPFS_MAGIC || st.Type == unix.RAMFS_MAGIC {
		return "a filesystem in memory"
	}
	path := filepath.Join(dir, "probe")
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_DIRECT|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return "O_DIRECT: " + err.Error()
	}
	_ = unix.Close(fd)
	if err := os.Remove(path); err != nil {
		return err.Error()
	}
	return ""
}

// Memory is what a process weighs.
type Memory struct {
	Resident     int64 // bytes, now
	ResidentPeak int64 // bytes, the most there was
}

// ReadMemory reads what a process weighs.
func ReadMemory(pid int) (Memory, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return Memory{}, err
	}
	var m Memory
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		to := map[string]*int64{"VmRSS:": &m.Resident, "VmHWM:": &m.ResidentPeak}[fields[0]]
		if to == nil {
			continue
		}
		kib, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			return m, fmt.Errorf("%q: %w", line, err)
		}
		*to = kib << 10
	}
	return m, nil
}

// OpenSockets is the number of sockets that a process has open.
func OpenSockets(pid int) (n int, err error) {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		// One that has been closed meanwhile is none.
		if to, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil && strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n, err
}
