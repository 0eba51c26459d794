package process

import "syscall"

// childAttributes put the child into a process group of its own, so that Ctrl-C
// reaches it only through us, and have the kernel kill it when we die.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
