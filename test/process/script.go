package process

import (
	"os"
	"syscall"
)

// Script writes a program that is a script, for whoever then starts it. The kernel refuses
// to start a file that somebody has open for writing, as "text file busy": a child that
// another goroutine starts meanwhile would have it open, from its fork to its exec.
func Script(path, text string) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(path, []byte(text), 0o700)
}
