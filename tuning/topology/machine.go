// Package topology finds out what a machine is made of: CPUs and how they hang
// together, NUMA nodes, drives and network interfaces, and what holds the data. From
// that it chooses CPUs for shards.
//
// It reads /proc and /sys below a root. The kernel has asked CPUID there already, and
// what it tells is true in a container as well. What cannot be found out is left out.
package topology

import (
	"path"
	"slices"
	"strconv"
	"strings"
)

// NoNode is the NUMA node of what belongs to none.
const NoNode = -1

// Files are those of the machine.
type Files interface {
	Text(path string) string
	Exists(path string) bool
	Glob(pattern string) []string
	Resolve(path string) (string, error)
}

// Machine is what a machine is made of.
type Machine struct {
	Kernel     string `json:"kernel"`
	Processor  string `json:"processor"`
	Hypervisor bool   `json:"hypervisor"` // it is a virtual machine
	Container  bool   `json:"container"`
	Battery    bool   `json:"battery"`
	Memory     int64  `json:"memory_bytes"`

	CPUs []CPU `json:"cpus"`
	// Isolated are CPUs that the scheduler leaves alone.
	Isolated []int   `json:"isolated_cpus"`
	Nodes    []int   `json:"numa_nodes"`
	Drives   []Drive `json:"drives"`
	NICs     []NIC   `json:"nics"`
	// Data holds the data directory.
	Data Mount `json:"data"`
}

// CPU is a logical CPU that is online.
type CPU struct {
	Number  int `json:"number"`
	Core    int `json:"core"`
	Package int `json:"package"`
	Node    int `json:"numa_node"`
}

// Drive is a disk.
type Drive struct {
	Name  string `json:"name"`
	Kind  string `json:"kind"` // nvme, virtio, scsi or other
	Model string `json:"model,omitempty"`
	Node  int    `json:"numa_node"`
	// Queues is how many the kernel uses side by side.
	Queues int `json:"queues"`
	// Controller is the NVMe controller's name.
	Controller string `json:"controller,omitempty"`
	// Data says that the data directory is on it.
	Data bool `json:"data"`
}

// NIC is a network interface of hardware, or of a hypervisor's.
type NIC struct {
	Name   string `json:"name"`
	Driver string `json:"driver"`
	Node   int    `json:"numa_node"`
	Queues int    `json:"receive_queues"`
	// Speed is in Mbit/s, 0 if it is not known.
	Speed int  `json:"speed_mbit"`
	Up    bool `json:"up"`
}

// Read looks at a machine. The data directory need not exist.
func Read(f Files, dataDir string) *Machine {
	m := &Machine{
		Kernel:    f.Text("proc/sys/kernel/osrelease"),
		Container: f.Exists("run/.containerenv") || f.Exists(".dockerenv"),
		Nodes:     Numbers(f.Text("sys/devices/system/node/online")),
		Isolated:  Numbers(f.Text("sys/devices/system/cpu/isolated")),
	}
	m.readProcessor(f)
	m.readMemory(f)
	m.readCPUs(f)
	for _, supply := range f.Glob("sys/class/power_supply/*/type") {
		m.Battery = m.Battery || f.Text(supply) == "Battery" && f.Text(path.Dir(supply)+"/scope") != "Device"
	}
	m.Data = readMount(f, dataDir)
	m.readDrives(f)
	m.readNICs(f)
	return m
}

func (m *Machine) readProcessor(f Files) {
	maker := ""
	for line := range strings.Lines(f.Text("proc/cpuinfo")) {
		key, value, _ := strings.Cut(line, ":")
		switch value = strings.TrimSpace(value); strings.TrimSpace(key) {
		case "model name":
			m.Processor = value
		case "CPU implementer":
			maker = value
		case "CPU part":
			if m.Processor == "" { // arm64 has numbers instead of a name
				m.Processor = "implementer " + maker + ", part " + value
			}
		case "flags":
			m.Hypervisor = slices.Contains(strings.Fields(value), "hypervisor")
			return
		}
	}
	m.Hypervisor = f.Text("sys/hypervisor/type") != "" || virtual(f) // arm64 has no such flag
}

// hypervisors are what virtual machines tell as their maker, or as their model.
var hypervisors = []string{"QEMU", "KVM", "Xen", "VMware", "VMW", "OpenStack", "KubeVirt", "Google Compute Engine", "Amazon EC2",
	"Parallels", "Hyper-V", "Virtual Machine", "VirtualBox", "innotek", "Bochs", "BHYVE", "Apple Virtualization"}

// virtual reports whether the firmware says that it is one of a hypervisor.
func virtual(f Files) bool {
	model := f.Text("sys/class/dmi/id/product_name")
	if strings.HasSuffix(model, ".metal") { // Amazon's, on hardware of its own
		return false
	}
	told := f.Text("sys/class/dmi/id/sys_vendor") + " " + model
	for _, h := range hypervisors {
		if strings.Contains(told, h) {
			return true
		}
	}
	return strings.Contains(f.Text("sys/firmware/devicetree/base/compatible"), "linux,dummy-virt")
}

func (m *Machine) readMemory(f Files) {
	for line := range strings.Lines(f.Text("proc/meminfo")) {
		if rest, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			kib, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64) // 0 if it is no number
			m.Memory = kib << 10
		}
	}
}

func (m *Machine) readCPUs(f Files) {
	nodes := map[int]int{}
	for _, node := range m.Nodes {
		for _, cpu := range Numbers(f.Text("sys/devices/system/node/node" + strconv.Itoa(node) + "/cpulist")) {
			nodes[cpu] = node
		}
	}
	for _, cpu := range Numbers(f.Text("sys/devices/system/cpu/online")) {
		dir := topologyDir(cpu)
		node, known := nodes[cpu]
		if !known {
			node = NoNode
		}
		m.CPUs = append(m.CPUs, CPU{Number: cpu, Core: number(f, dir+"core_id", cpu), Package: number(f, dir+"physical_package_id", 0), Node: node})
	}
	m.tellCoresApart(f)
}

// tellCoresApart numbers cores by their first CPUs where the kernel's numbers are not
// enough, as with clusters of CPUs that each begin to count at 0.
func (m *Machine) tellCoresApart(f Files) {
	of, seen, apart := map[int]int{}, map[[2]int]int{}, true
	for _, c := range m.CPUs {
		first := firstThread(f, c.Number)
		if first < 0 {
			return // nobody tells which threads are of one core
		}
		at := [2]int{c.Package, c.Core}
		before, known := seen[at]
		apart = apart && (!known || before == first)
		of[c.Number], seen[at] = first, first
	}
	for i := range m.CPUs {
		if c := &m.CPUs[i]; !apart {
			c.Core = of[c.Number]
		}
	}
}

func topologyDir(cpu int) string {
	return "sys/devices/system/cpu/cpu" + strconv.Itoa(cpu) + "/topology/"
}

// firstThread is the lowest CPU of those on the core of one, -1 if nobody tells.
func firstThread(f Files, cpu int) int {
	for _, name := range []string{"core_cpus_list", "thread_siblings_list"} { // the newer one first
		if all := Numbers(f.Text(topologyDir(cpu) + name)); slices.Contains(all, cpu) {
			return slices.Min(all)
		}
	}
	return -1
}

// Core is a number for the physical core of a CPU, the same for all CPUs on it.
func Core(f Files, cpu int) (core int, known bool) {
	if first := firstThread(f, cpu); first >= 0 {
		return first, true
	}
	core, socket := number(f, topologyDir(cpu)+"core_id", -1), number(f, topologyDir(cpu)+"physical_package_id", noSocket)
	if core < 0 || socket == noSocket {
		return 0, false
	}
	return max(socket, 0)<<16 | core, true
}

// noSocket is no number of one: -1 is what the kernel tells where there is one only.
const noSocket = -2

// number is a file's, or other if it has none.
func number(f Files, path string, other int) int {
	n, err := strconv.Atoi(f.Text(path))
	if err != nil {
		return other
	}
	return n
}

// Numbers reads a list of the kernel's, such as "0-3,8", into its numbers. What is no
// list has none.
func Numbers(list string) []int {
	const most = 1 << 16
	var all []int
	for part := range strings.SplitSeq(strings.TrimSpace(list), ",") {
		first, last, isRange := strings.Cut(part, "-")
		a, err := strconv.Atoi(first)
		if err != nil || a < 0 {
			return nil
		}
		b := a
		if isRange {
			if b, err = strconv.Atoi(last); err != nil || b < a || b > most {
				return nil
			}
		}
		for ; a <= b; a++ {
			all = append(all, a)
		}
	}
	return all
}

// Cores is the number of physical cores.
func (m *Machine) Cores() int {
	cores := map[[2]int]bool{}
	for _, c := range m.CPUs {
		cores[[2]int{c.Package, c.Core}] = true
	}
	return len(cores)
}

// DataDrives are those that the data directory is on.
func (m *Machine) DataDrives() []Drive {
	var all []Drive
	for _, d := range m.Drives {
		if d.Data {
			all = append(all, d)
		}
	}
	return all
}
