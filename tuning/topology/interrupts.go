package topology

import (
	"path"
	"strconv"
	"strings"
)

// Interrupt is a line that a device raises.
type Interrupt struct {
	Number int
	// Name is what its driver calls it.
	Name string
	// Count is how often it was handled since the machine started, by all CPUs.
	Count uint64
	// CPUs are those that it goes to.
	CPUs []int
}

// Interrupts are those of the device at a place such as "sys/devices/pci0000:00/...".
func Interrupts(f Files, real string) []Interrupt {
	var all []Interrupt
	for line := range strings.Lines(f.Text("proc/interrupts")) {
		i, ok := parseInterrupt(line)
		if !ok || !i.of(f, real) {
			continue
		}
		dir := "proc/irq/" + strconv.Itoa(i.Number)
		if i.CPUs = Numbers(f.Text(dir + "/effective_affinity_list")); i.CPUs == nil {
			i.CPUs = Numbers(f.Text(dir + "/smp_affinity_list")) // what is asked for, where nobody tells what is
		}
		all = append(all, i)
	}
	return all
}

// parseInterrupt reads a line of /proc/interrupts: the number, a count for each CPU, and
// words, of which the last is the driver's.
func parseInterrupt(line string) (Interrupt, bool) {
	fields := strings.Fields(line)
	if len(fields) < 3 {
		return Interrupt{}, false
	}
	digits, numbered := strings.CutSuffix(fields[0], ":")
	number, err := strconv.Atoi(digits)
	if err != nil || !numbered {
		return Interrupt{}, false
	}
	i := Interrupt{Number: number, Name: fields[len(fields)-1]}
	for _, field := range fields[1:] {
		n, err := strconv.ParseUint(field, 10, 64)
		if err != nil {
			break // the counts are first
		}
		i.Count += n
	}
	return i, true
}

// of reports whether the interrupt is of the device: it is named after it, as drivers do
// ("nvme0q1", "virtio1-req.0", "eth0-TxRx-0"), or it is one of its bus slot's.
func (i Interrupt) of(f Files, real string) bool {
	for dir := real; strings.Contains(dir, "/devices/"); dir = path.Dir(dir) {
		rest, named := strings.CutPrefix(i.Name, path.Base(dir))
		if named && (rest == "" || rest[0] == '-' || rest[0] == 'q') {
			return true
		}
		if f.Exists(dir + "/msi_irqs") {
			return f.Exists(dir + "/msi_irqs/" + strconv.Itoa(i.Number))
		}
	}
	return false
}
