package placement

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/mqd-broker/mqd/cmd/mqd/settings"
	"github.com/mqd-broker/mqd/tuning/topology"
	"github.com/mqd-broker/mqd/tuning/tree"
	"golang.org/x/sys/unix"
)

// Read looks at the machine; root is "/" outside tests. What cannot be
// found out is left out.
func Read(root, dataDir string) (Machine, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return Machine{Interrupt: -1}, fmt.Errorf("sched_getaffinity: %w", err)
	}
	var allowed []int
	for cpu := range settings.MaxCPU + 1 {
		if set.IsSet(cpu) {
			allowed = append(allowed, cpu)
		}
	}
	device, _ := deviceOf(dataDir) // there is none with an empty name
	m := Look(tree.New(root), allowed, device)
	// The runtime has read the control group's limit already.
	if n := runtime.GOMAXPROCS(0); os.Getenv("GOMAXPROCS") == "" && n < len(m.Allowed) {
		m.Quota = n
	}
	return m, nil
}

// Look reads files of a machine: which of the CPUs that are allowed share cores, and where
// the interrupts of a block device go, which is given as major:minor.
func Look(f topology.Files, allowed []int, device string) Machine {
	m := Machine{Allowed: allowed, Core: map[int]int{}, Interrupt: interruptCPU(f, device)}
	for _, cpu := range allowed {
		if core, ok := topology.Core(f, cpu); ok {
			m.Core[cpu] = core
		}
	}
	return m
}

// deviceOf is major:minor of the device of the filesystem that holds, or will
// hold, dir.
func deviceOf(dir string) (string, bool) {
	for {
		var st unix.Stat_t
		if unix.Stat(dir, &st) == nil {
			return fmt.Sprintf("%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev)), true
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", false
		}
		dir = parent
	}
}

// interruptCPU is the CPU that handles more than half of the interrupts of a block
// device, given as major:minor, -1 if none does.
func interruptCPU(f topology.Files, device string) int {
	disks := topology.Disks(f, device)
	if len(disks) != 1 {
		return -1
	}
	counts, total := map[int]uint64{}, uint64(0)
	for _, i := range topology.Interrupts(f, disks[0]) {
		if total += i.Count; len(i.CPUs) == 1 {
			counts[i.CPUs[0]] += i.Count
		}
	}
	for cpu, n := range counts {
		if n > total/2 {
			return cpu
		}
	}
	return -1
}
