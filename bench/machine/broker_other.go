//go:build !linux

package machine

import "os/exec"

// childEndsWithParent does nothing where there is no such thing.
func childEndsWithParent(*exec.Cmd) {}
