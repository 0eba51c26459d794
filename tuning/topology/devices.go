package topology

import (
	"path"
	"slices"
	"strings"
)

// Mount is a mounted filesystem.
type Mount struct {
	Dir        string   `json:"dir"`
	Filesystem string   `json:"filesystem"`
	Options    []string `json:"options"`
	// Device is major:minor.
	Device string `json:"device"`
}

// readMount finds the mount that holds a directory, which has to be absolute. The
// format is that of proc_pid_mountinfo(5).
func readMount(f Files, dir string) Mount {
	var best Mount
	for line := range strings.Lines(f.Text("proc/self/mountinfo")) {
		left, right, ok := strings.Cut(line, " - ")
		fields, rest := strings.Fields(left), strings.Fields(right)
		if !ok || len(fields) < 6 || len(rest) < 3 {
			continue
		}
		at := strings.ReplaceAll(fields[4], `\040`, " ")
		within := at == "/" || dir == at || strings.HasPrefix(dir, at+"/")
		// Of several mounts on one place the last one counts.
		if !within || len(at) < len(best.Dir) {
			continue
		}
		options := strings.Split(fields[5], ",")
		for o := range strings.SplitSeq(rest[2], ",") {
			if !slices.Contains(options, o) {
				options = append(options, o)
			}
		}
		best = Mount{Dir: at, Filesystem: rest[0], Options: options, Device: fields[2]}
	}
	return best
}

// Has reports whether it is mounted with an option.
func (m Mount) Has(option string) bool { return slices.Contains(m.Options, option) }

// readDrives finds the disks that are hardware, or a hypervisor's.
func (m *Machine) readDrives(f Files) {
	data := disksOf(f, "sys/dev/block/"+m.Data.Device)
	for _, at := range f.Glob("sys/block/*") {
		real, err := f.Resolve(at)
		if err != nil || strings.Contains(real, "/virtual/") {
			continue // loop devices, device mapper, md: their slaves count
		}
		name := path.Base(real)
		d := Drive{
			Name: name, Kind: kindOf(name, real), Node: nodeOf(f, real),
			Queues: len(f.Glob(real + "/mq/*")), Data: slices.Contains(data, name),
		}
		if d.Model = f.Text(real + "/device/model"); d.Kind == "nvme" {
			d.Controller = path.Base(path.Dir(real))
		}
		m.Drives = append(m.Drives, d)
	}
}

// disksOf are the names of the disks that a block device is made of: a partition's, and
// those below a device mapper's.
func disksOf(f Files, at string) []string {
	real, err := f.Resolve(at)
	if err != nil {
		return nil
	}
	slaves := f.Glob(real + "/slaves/*")
	if len(slaves) == 0 {
		if !f.Exists(real + "/queue") {
			real = path.Dir(real)
		}
		return []string{path.Base(real)}
	}
	var all []string
	for _, s := range slaves {
		all = append(all, disksOf(f, s)...)
	}
	return all
}

func kindOf(name, real string) string {
	switch {
	case strings.HasPrefix(name, "nvme"):
		return "nvme"
	case strings.HasPrefix(name, "vd") || strings.Contains(real, "/virtio"):
		return "virtio"
	case strings.HasPrefix(name, "sd"):
		return "scsi"
	}
	return "other"
}

// nodeOf is the NUMA node that a device tells of, or one that it is part of.
func nodeOf(f Files, real string) int {
	for dir := real; dir != "." && dir != "sys"; dir = path.Dir(dir) {
		if f.Exists(dir + "/numa_node") {
			return number(f, dir+"/numa_node", NoNode)
		}
	}
	return NoNode
}

func (m *Machine) readNICs(f Files) {
	for _, at := range f.Glob("sys/class/net/*") {
		real, err := f.Resolve(at)
		if err != nil || strings.Contains(real, "/virtual/") {
			continue
		}
		n := NIC{
			Name: path.Base(real), Node: nodeOf(f, real), Queues: len(f.Glob(real + "/queues/rx-*")),
			Speed: max(number(f, real+"/speed", 0), 0), Up: f.Text(real+"/operstate") == "up",
		}
		if driver, err := f.Resolve(real + "/device/driver"); err == nil {
			n.Driver = path.Base(driver)
		}
		m.NICs = append(m.NICs, n)
	}
}
