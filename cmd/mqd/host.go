package main

import (
	"bytes"
	"runtime"

	"golang.org/x/sys/unix"
)

// kernel names the operating system.
func kernel() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return runtime.GOOS
	}
	text := func(b []byte) string { return string(b[:max(0, bytes.IndexByte(b, 0))]) }
	return text(u.Sysname[:]) + " " + text(u.Release[:])
}

// openFilesLimit is the number of files that this process may have open, 0 if it
// is not known.
func openFilesLimit() int {
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim); err != nil || lim.Cur > 1<<30 {
		return 0
	}
	return int(lim.Cur)
}
