//go:build !linux

package process

import "syscall"

// Attributes put a child into a process group of its own, so that Ctrl-C
// reaches it only through us.
func Attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
