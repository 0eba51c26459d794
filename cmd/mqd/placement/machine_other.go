//go:build !linux

package placement

import "runtime"

// Read knows only the number of CPUs, and that no shard can be pinned to one.
func Read(string, string) (Machine, error) {
	m := Machine{Interrupt: -1, Unpinned: true}
	for cpu := range runtime.NumCPU() {
		m.Allowed = append(m.Allowed, cpu)
	}
	return m, nil
}
