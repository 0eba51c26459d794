package machine

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// NoCPU in place of a CPU's number means: not pinned, or not known.
const NoCPU = -1

// PinnedCPUs are the CPUs that threads of a process are tied to, one each: those
// of a broker's shards, in order of their threads. root is "/" outside tests.
func PinnedCPUs(root string, pid int) []int {
	files, err := filepath.Glob(filepath.Join(root, "proc", strconv.Itoa(pid), "task", "*", "status"))
	if err != nil {
		return nil
	}
	slices.SortFunc(files, func(a, b string) int { return taskOf(a) - taskOf(b) })
	var cpus []int
	for _, f := range files {
		// A shard's workers in the kernel are tied to its CPU as well.
		if list := allowedCPUs(f); len(list) == 1 && !slices.Contains(cpus, list[0]) {
			cpus = append(cpus, list[0])
		}
	}
	return cpus
}

// taskOf is the thread's id in the path of its status file.
func taskOf(path string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(path))) // 0 sorts first
	return n
}

// AllowedCPUs are the CPUs that this process may run on, ascending; nil where
// that cannot be found out.
func AllowedCPUs(root string) []int { return allowedCPUs(filepath.Join(root, "proc/self/status")) }

func allowedCPUs(status string) []int {
	text, err := os.ReadFile(status)
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		if list, ok := strings.CutPrefix(line, "Cpus_allowed_list:"); ok {
			return cpuRange(strings.TrimSpace(list))
		}
	}
	return nil
}

// cpuRange reads a list as "0-3,8", nil if it is none.
func cpuRange(list string) []int {
	var cpus []int
	for part := range strings.SplitSeq(list, ",") {
		from, to, span := strings.Cut(part, "-")
		first, err := strconv.Atoi(from)
		last := first
		if err == nil && span {
			last, err = strconv.Atoi(to)
		}
		if err != nil || last-first > 1<<16 {
			return nil
		}
		for cpu := first; cpu <= last; cpu++ {
			cpus = append(cpus, cpu)
		}
	}
	return cpus
}

// Placement is where the threads of a measurement run.
type Placement struct {
	// Server is the CPU of floors that stand for the broker, NoCPU for any.
	Server int `json:"server"`
	// Clients are the CPUs of client threads.
	Clients []int `json:"clients"`
}

// Place puts clients on CPUs that no shard is tied to. Without known shards it
// takes the CPU of the data device's interrupts for the server, as a broker does
// by itself; interrupt is NoCPU if that is not known. On a single CPU nothing is
// tied.
func Place(allowed, shards []int, interrupt int) Placement {
	p := Placement{Server: NoCPU}
	if len(allowed) < 2 {
		return p
	}
	if len(shards) == 0 {
		shards = []int{allowed[len(allowed)-1]}
		if slices.Contains(allowed, interrupt) {
			shards = []int{interrupt}
		}
	}
	p.Server = shards[0]
	for _, cpu := range allowed {
		if !slices.Contains(shards, cpu) {
			p.Clients = append(p.Clients, cpu)
		}
	}
	return p
}

// Client is the first client CPU, NoCPU if there is none.
func (p Placement) Client() int {
	if len(p.Clients) == 0 {
		return NoCPU
	}
	return p.Clients[0]
}
