package bench

import "github.com/mqd-broker/mqd/bench/drive"

// How I/O is done; see package drive.
type (
	// Platform is what measurements need from the machine that they run on.
	Platform = drive.Platform
	// Idle says what a loop does while it waits.
	Idle = drive.Idle
)

// The idle modes.
const (
	Poll     = drive.Poll
	Block    = drive.Block
	Adaptive = drive.Adaptive
)

// NoCPU in place of a CPU's number means: not pinned.
const NoCPU = drive.NoCPU

// ParseIdle reads an idle mode's name.
func ParseIdle(name string) (Idle, error) { return drive.ParseIdle(name) }
