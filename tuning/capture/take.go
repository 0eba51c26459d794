package capture

import (
	"github.com/mqd-broker/mqd/tuning"
	"github.com/mqd-broker/mqd/tuning/topology"
)

// bootID is read by mqd tune apply.
const bootID = "proc/sys/kernel/random/boot_id"

// Take keeps what is read of a machine by checks of every profile, by the plans that
// follow, and by the choice of CPUs for shards, with the data in one of some directories.
// What names the machine, its people or its files is taken out, and so is the host's name
// wherever it stands.
func Take(of tuning.Files, dirs []string, host string) []Entry {
	f := New(of)
	f.Read(bootID)
	for _, dir := range dirs {
		m := topology.Read(f, dir)
		for _, p := range tuning.Profiles {
			r := tuning.Check(&tuning.Host{Files: f, Machine: m, Profile: p})
			// A machine without the directories for it is one too.
			_, _ = tuning.Plan(f, tuning.Selected(r, true), true)
		}
		for _, disk := range topology.Disks(f, m.Data.Device) {
			topology.Interrupts(f, disk)
		}
		for _, n := range m.NICs {
			if real, err := f.Resolve("sys/class/net/" + n.Name); err == nil {
				topology.Interrupts(f, real)
			}
		}
	}
	for _, c := range topology.Read(f, "/").CPUs {
		topology.Core(f, c.Number)
	}
	return redact(f.Entries(), dirs, host)
}
