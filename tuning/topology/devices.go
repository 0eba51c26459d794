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

// Mounts are all mounted filesystems. The format is that of proc_pid_mountinfo(5).
func Mounts(f Files) []Mount {
	var all []Mount
	for line := range strings.Lines(f.Text("proc/self/mountinfo")) {
		left, right, ok := strings.Cut(line, " - ")
		fields, rest := strings.Fields(left), strings.Fields(right)
		if !ok || len(fields) < 6 || len(rest) < 3 {
			continue
		}
		options := strings.Split(fields[5], ",")
		for o := range strings.SplitSeq(rest[2], ",") {
			if !slices.Contains(options, o) {
				options = append(options, o)
			}
		}
		at := strings.ReplaceAll(fields[4], `\040`, " ")
		all = append(all, Mount{Dir: at, Filesystem: rest[0], Options: options, Device: fields[2]})
	}
	return all
}

// readMount finds the mount that holds a directory, which has to be absolute.
func readMount(f Files, dir string) Mount {
	var best Mount
	for _, m := range Mounts(f) {
		within := m.Dir == "/" || dir == m.Dir || strings.HasPrefix(dir, m.Dir+"/")
		// Of several mounts on one place the last one counts.
		if within && len(m.Dir) >= len(best.Dir) {
			best = m
		}
	}
	return best
}

// Has reports whether it is mounted with an option.
func (m Mount) Has(option string) bool { return slices.Contains(m.Options, option) }

// readDrives finds the disks that are hardware, or a hypervisor's.
func (m *Machine) readDrives(f Files) {
	var data []string
	for _, real := range Disks(f, m.Data.Device) {
		data = append(data, path.Base(real))
	}
	for _, at := range f.Glob("sys/block/*") {
		real, err := f.Resolve(at)
		if err != nil || strings.Contains(real, "/virtual/") {
			continue // loop devices, device mapper, md: their slaves count
		}
		name := path.Base(real)
		if strings.HasPrefix(name, "sr") || strings.HasPrefix(name, "fd") {
			continue // for discs that are put in
		}
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

// Disks are the places, such as "sys/devices/pci0000:00/.../nvme0n1", of the disks that a
// block device is made of, which is given as major:minor: a partition's, those below a
// device mapper's, and of an NVMe drive that has several ways to it, one for each.
func Disks(f Files, device string) []string { return disksOf(f, "sys/dev/block/"+device) }

func disksOf(f Files, at string) []string {
	real, err := f.Resolve(at)
	if err != nil {
		return nil
	}
	below := f.Glob(real + "/slaves/*")
	if len(below) == 0 && !f.Exists(real+"/queue") {
		real = path.Dir(real) // of a partition
		below = f.Glob(real + "/slaves/*")
	}
	if len(below) == 0 {
		below = waysTo(f, real)
	}
	if len(below) == 0 {
		return []string{real}
	}
	var all []string
	for _, b := range below {
		for _, disk := range disksOf(f, b) {
			if !slices.Contains(all, disk) {
				all = append(all, disk)
			}
		}
	}
	return all
}

// waysTo are the disks behind one of the kernel's NVMe multipath, which belongs to a
// subsystem and not to a bus: it has one on each controller, which do the work.
func waysTo(f Files, real string) []string {
	dir, name := path.Split(real)
	_, space, ok := strings.Cut(strings.TrimPrefix(name, "nvme"), "n")
	if !ok || !strings.Contains(dir, "/virtual/nvme-subsystem/") {
		return nil
	}
	var all []string
	for _, controller := range f.Glob(dir + "nvme[0-9]*") {
		if at, err := f.Resolve(controller); err == nil && at != controller {
			all = append(all, f.Glob(at+"/nvme*c*n"+space)...)
		}
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
