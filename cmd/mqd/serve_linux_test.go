package main

import (
	"os"
	"strings"
	"testing"
)

func TestFilesystemsInMemoryAreKnown(t *testing.T) {
	if inMemory("/proc") {
		t.Error("/proc counts as tmpfs")
	}
	mounts, err := os.ReadFile("/proc/mounts")
	if err != nil || !strings.Contains(string(mounts), " /dev/shm tmpfs ") {
		t.Skipf("no tmpfs at /dev/shm: %v", err)
	}
	if !inMemory("/dev/shm/not/there") {
		t.Error("a directory to be made on tmpfs counts as one on a disk")
	}
}
