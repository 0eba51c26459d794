//go:build !linux

package main

import (
	"errors"
	"runtime"
)

// errNoLinux: this system has none of the drivers.
var errNoLinux = errors.New("the broker runs on Linux only so far; the other verbs work here")

func newPlatform(string) (p platform, instead, err error) { return nil, nil, errNoLinux }

func driverStates() []driverState {
	return []driverState{{Name: "io_uring", State: "Linux only"}}
}

func kernel() string { return runtime.GOOS }

var driverErrors []error

func openFilesLimit() int { return 0 }

func inMemory(string) bool { return false }
