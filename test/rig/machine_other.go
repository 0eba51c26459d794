//go:build !linux

package rig

import "errors"

// unfit says that a directory is no place for a broker's data: the rigs are made for
// Linux.
func unfit(string) string { return "not Linux" }

// Memory is what a process weighs.
type Memory struct {
	Resident     int64 // bytes, now
	ResidentPeak int64 // bytes, the most there was
}

// errNotLinux: what is asked for is known on Linux only.
var errNotLinux = errors.New("rig: not Linux")

// ReadMemory is for Linux.
func ReadMemory(int) (Memory, error) { return Memory{}, errNotLinux }

// OpenSockets is for Linux.
func OpenSockets(int) (int, error) { return 0, errNotLinux }
