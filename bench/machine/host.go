// Package machine finds out what measurements depend on beside the program: the
// host, the CPUs that threads run on, the CPU time that a process uses. It also
// starts a broker process of a measurement's own and ends it.
//
// It reads the text files of proc(5) and sysfs. Where there are none, as on other
// systems than Linux, what they would have said is missing.
package machine

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// Host is what a figure depends on beside the program: it stands above every
// report. What cannot be found out is empty.
type Host struct {
	Hostname    string `json:"hostname"`
	Kernel      string `json:"kernel"`
	CPU         string `json:"cpu"`
	CPUs        int    `json:"cpus"`
	Governor    string `json:"governor"`
	ClockSource string `json:"clocksource"`
	// Filesystem and Device hold the data; WriteCache and FUA say what a durable
	// write costs there: with "write back" and without FUA, a flush.
	Filesystem   string `json:"filesystem"`
	Device       string `json:"device"`
	DeviceModel  string `json:"device_model"`
	WriteCache   string `json:"write_cache"`
	FUA          string `json:"fua"`
	Scheduler    string `json:"io_scheduler"`
	InterruptCPU int    `json:"interrupt_cpu"`
	// Network are the interfaces that are up, with driver, MTU and speed.
	Network     string `json:"network"`
	Go          string `json:"go"`
	MaxProcs    int    `json:"gomaxprocs"`
	Revision    string `json:"revision"`
	LoadAverage string `json:"load_average"`
}

// ReadHost looks at the machine; root is "/" outside tests, dir the directory of
// the data, interrupt the CPU that takes its device's interrupts or NoCPU, and
// revision the program's.
func ReadHost(root, dir string, interrupt int, revision string) Host {
	read := func(path string) string { return readLine(filepath.Join(root, path)) }
	h := Host{
		Hostname:     read("proc/sys/kernel/hostname"),
		Network:      networks(filepath.Join(root, "sys/class/net")),
		Kernel:       read("proc/sys/kernel/osrelease"),
		CPU:          cpuModel(filepath.Join(root, "proc/cpuinfo")),
		CPUs:         runtime.NumCPU(),
		Governor:     read("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
		ClockSource:  read("sys/devices/system/clocksource/clocksource0/current_clocksource"),
		InterruptCPU: interrupt,
		Go:           runtime.Version(),
		MaxProcs:     runtime.GOMAXPROCS(0),
		Revision:     revision,
		LoadAverage:  read("proc/loadavg"),
	}
	var number string
	h.Filesystem, number = mountOf(filepath.Join(root, "proc/self/mountinfo"), dir)
	if disk, err := filepath.EvalSymlinks(filepath.Join(root, "sys/dev/block", number)); err == nil && number != "" {
		h.Device = filepath.Base(disk)
		if _, err := os.Stat(filepath.Join(disk, "queue")); err != nil {
			disk = filepath.Dir(disk) // of a partition
		}
		h.DeviceModel = readLine(filepath.Join(disk, "device/model"))
		if h.DeviceModel == "" {
			h.DeviceModel = driverOf(filepath.Join(disk, "device"))
		}
		h.WriteCache = readLine(filepath.Join(disk, "queue/write_cache"))
		h.FUA = readLine(filepath.Join(disk, "queue/fua"))
		h.Scheduler = chosen(readLine(filepath.Join(disk, "queue/scheduler")))
	}
	return h
}

// String is the host in a few lines.
func (h Host) String() string {
	or := func(s, other string) string {
		if s == "" {
			return other
		}
		return s
	}
	irq := "unknown"
	if h.InterruptCPU != NoCPU {
		irq = fmt.Sprint(h.InterruptCPU)
	}
	return fmt.Sprintf(`host     kernel %s · %d × %s · governor %s · clocksource %s · load %s
storage  %s on %s (%s) · write cache %s · FUA %s · scheduler %s · interrupts on CPU %s
network  %s
program  %s · %s · GOMAXPROCS %d
`,
		or(h.Kernel, "unknown"), h.CPUs, or(h.CPU, "unknown CPU"), or(h.Governor, "none"), or(h.ClockSource, "unknown"), or(h.LoadAverage, "unknown"),
		or(h.Filesystem, "unknown filesystem"), or(h.Device, "unknown device"), or(h.DeviceModel, "unknown model"), or(h.WriteCache, "unknown"), or(h.FUA, "unknown"),
		or(h.Scheduler, "unknown"), irq, or(h.Network, "unknown"), or(h.Revision, "unknown revision"), h.Go, h.MaxProcs)
}

// driverOf names the driver of a device, "" if it has none.
func driverOf(device string) string {
	target, err := os.Readlink(filepath.Join(device, "driver"))
	if err != nil {
		return ""
	}
	return filepath.Base(target)
}

// networks describes the interfaces below a directory that are up, in order of their names.
func networks(dir string) string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return ""
	}
	var all []string
	for _, e := range entries {
		at := filepath.Join(dir, e.Name())
		if state := readLine(filepath.Join(at, "operstate")); state != "up" && state != "unknown" {
			continue
		}
		words := []string{e.Name()}
		if driver := driverOf(filepath.Join(at, "device")); driver != "" {
			words = append(words, driver)
		}
		words = append(words, "mtu "+readLine(filepath.Join(at, "mtu")))
		if speed, err := strconv.Atoi(readLine(filepath.Join(at, "speed"))); err == nil && speed > 0 {
			words = append(words, fmt.Sprintf("%d Mb/s", speed))
		}
		all = append(all, strings.Join(words, " "))
	}
	return strings.Join(all, ", ")
}

// readLine is the first line of a file, "" if it cannot be read.
func readLine(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(b), "\n")
	return strings.TrimSpace(line)
}

func cpuModel(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// mountOf finds the mount that holds dir: its filesystem's type and the number,
// major:minor, of its device. The format is that of proc_pid_mountinfo(5).
func mountOf(mountinfo, dir string) (fstype, number string) {
	b, err := os.ReadFile(mountinfo)
	if err != nil {
		return "", ""
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", ""
	}
	best := -1
	for line := range strings.Lines(string(b)) {
		left, right, ok := strings.Cut(line, " - ")
		fields, rest := strings.Fields(left), strings.Fields(right)
		if !ok || len(fields) < 5 || len(rest) < 1 {
			continue
		}
		at := fields[4]
		within := at == "/" || dir == at || strings.HasPrefix(dir, at+"/")
		// Of several mounts on one place the last one counts.
		if within && len(at) >= best {
			best, fstype, number = len(at), rest[0], fields[2]
		}
	}
	return fstype, number
}

// chosen is the word in brackets of a list in sysfs, or the whole.
func chosen(list string) string {
	if _, rest, ok := strings.Cut(list, "["); ok {
		if word, _, ok := strings.Cut(rest, "]"); ok {
			return word
		}
	}
	return list
}
