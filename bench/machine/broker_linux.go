package machine

import (
	"os/exec"
	"syscall"
)

// childEndsWithParent has the kernel end the process in order when the thread
// that starts it ends, however that comes about.
func childEndsWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
}
