//go:build !linux

package placement

import "runtime"

// Read knows only the number of CPUs.
func Read(string, string) (Machine, error) {
	m := Machine{Interrupt: -1}
	for cpu := range runtime.NumCPU() {
		m.Allowed = append(m.Allowed, cpu)
	}
	return m, nil
}
