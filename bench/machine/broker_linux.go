package machine

import (
	"os/exec"
	"syscall"
)

// childEndsWithParent has the kernel end the process in order when the thread
// that starts it ends, however that comes about. A signal from a terminal, which
// goes to a whole group, does not reach it: it ends by Stop.
func childEndsWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
}
