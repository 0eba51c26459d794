package placement

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/mqd-broker/mqd/cmd/mqd/settings"
	"golang.org/x/sys/unix"
)

// Read looks at the machine; root is "/" outside tests. What cannot be
// found out is left out.
func Read(root, dataDir string) (Machine, error) {
	m := Machine{Core: map[int]int{}, Interrupt: -1}
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return m, fmt.Errorf("sched_getaffinity: %w", err)
	}
	for cpu := range settings.MaxCPU + 1 {
		if set.IsSet(cpu) {
			m.Allowed = append(m.Allowed, cpu)
		}
	}
	for _, cpu := range m.Allowed {
		if core, ok := coreOf(root, cpu); ok {
			m.Core[cpu] = core
		}
	}
	// The runtime has read the control group's limit already.
	if n := runtime.GOMAXPROCS(0); os.Getenv("GOMAXPROCS") == "" && n < len(m.Allowed) {
		m.Quota = n
	}
	if device, ok := deviceOf(dataDir); ok {
		m.Interrupt = interruptCPU(root, device)
	}
	return m, nil
}

// coreOf is a number for the physical core of a CPU.
func coreOf(root string, cpu int) (int, bool) {
	dir := filepath.Join(root, "sys/devices/system/cpu", "cpu"+strconv.Itoa(cpu), "topology")
	core, err := readNumber(filepath.Join(dir, "core_id"))
	socket, err2 := readNumber(filepath.Join(dir, "physical_package_id"))
	if err != nil || err2 != nil || core < 0 {
		return 0, false
	}
	return max(socket, 0)<<16 | core, true
}

func readNumber(path string) (int, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
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

// interruptCPU is the CPU that handles more than half of a block device's
// interrupts, -1 if none does.
func interruptCPU(root, device string) int {
	path, err := filepath.EvalSymlinks(filepath.Join(root, "sys/dev/block", device))
	if err != nil {
		return -1
	}
	// A device made of one other is where that one is.
	for {
		below, err := filepath.Glob(filepath.Join(path, "slaves", "*"))
		if err != nil || len(below) != 1 {
			break
		}
		if path, err = filepath.EvalSymlinks(below[0]); err != nil {
			return -1
		}
	}
	table, err := os.ReadFile(filepath.Join(root, "proc/interrupts"))
	if err != nil {
		return -1
	}
	counts, total := map[int]uint64{}, uint64(0)
	for _, line := range parseInterrupts(string(table)) {
		if !line.belongsTo(path) {
			continue
		}
		total += line.count
		text, err := os.ReadFile(filepath.Join(root, "proc/irq", line.number, "effective_affinity_list"))
		if cpus, bad := settings.ParseCPUs(string(text)); err == nil && bad == nil && len(cpus) == 1 {
			counts[cpus[0]] += line.count
		}
	}
	for cpu, n := range counts {
		if n > total/2 {
			return cpu
		}
	}
	return -1
}

// interruptLine is one interrupt of /proc/interrupts.
type interruptLine struct {
	number, name string
	count        uint64 // handled by all CPUs since the machine started
}

func parseInterrupts(table string) []interruptLine {
	var lines []interruptLine
	for text := range strings.Lines(table) {
		fields := strings.Fields(text)
		if len(fields) < 3 {
			continue
		}
		number, numbered := strings.CutSuffix(fields[0], ":")
		if _, err := strconv.Atoi(number); err != nil || !numbered {
			continue
		}
		line := interruptLine{number: number, name: fields[len(fields)-1]}
		for _, f := range fields[1:] {
			n, err := strconv.ParseUint(f, 10, 64)
			if err != nil {
				break // the counts are first
			}
			line.count += n
		}
		lines = append(lines, line)
	}
	return lines
}

// belongsTo reports whether the interrupt is of the device at path in sysfs: it is
// named after it, as drivers do ("nvme0q1", "virtio1-req.0"), or it is one of its
// bus slot's.
func (l interruptLine) belongsTo(path string) bool {
	for dir := path; strings.Contains(dir, "/devices/"); dir = filepath.Dir(dir) {
		name := filepath.Base(dir)
		rest, named := strings.CutPrefix(l.name, name)
		if named && (rest == "" || rest[0] == '-' || rest[0] == 'q') {
			return true
		}
		if _, err := os.Stat(filepath.Join(dir, "msi_irqs")); err == nil {
			_, err := os.Stat(filepath.Join(dir, "msi_irqs", l.number))
			return err == nil
		}
	}
	return false
}
