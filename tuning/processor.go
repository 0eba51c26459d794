package tuning

import (
	"encoding/binary"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mqd-broker/mqd/tuning/topology"
)

const (
	// slowWake is the time, in microseconds, from which on the end of an idle state is
	// felt beside a durable write.
	slowWake = 50
	// slowClock is what a look at the clock may cost.
	slowClock = 100 * time.Nanosecond
	// muchStolen is the share of CPU time, in percent, that other machines may take.
	muchStolen = 1.0
)

var isolated = []Profile{Isolated}

// balancers move interrupts, managers set what CPUs do to save power.
var (
	balancers = []string{"irqbalance"}
	managers  = []string{"tuned", "tlp", "power-profiles-"}
)

// Programs are the programs, as the kernel names them, of which a check looks whether they
// run.
func Programs() []string { return slices.Concat(balancers, managers, synchronizers) }

// processors are the settings of CPUs, clocks and the scheduler.
func processors() []Setting {
	return []Setting{
		// The preference comes before the governor: performance fixes it, and gives it
		// back when that is taken back, which happens in reverse order.
		{ID: "cpu.epp", Class: HostWide, Matters: Much, Level: Warning, On: servers, look: policies("energy_performance_preference", is("performance")),
			Why: "a CPU that prefers to save runs slowly for the first milliseconds of a burst"},
		{ID: "cpu.governor", Class: HostWide, Matters: Much, Level: Warning, On: servers, look: policies("scaling_governor", is("performance")),
			Why: "a CPU that saves runs slowly for the first milliseconds of a burst"},
		{ID: "cpu.idle_states", Class: Safe, Matters: Much, Level: Warning, On: servers, look: idleStates,
			Why: "a CPU in a deep idle state takes 100 us and more to wake for a completion",
			Fix: "mqd serve --pm-qos 10us, which holds /dev/cpu_dma_latency open while it runs; or --idle busy, which keeps shards awake"},
		{ID: "cpu.isolated", Class: Reboot, Matters: Much, Level: Warning, On: isolated, look: isolation,
			Why: "nothing else runs on a shard's CPU when the scheduler leaves it alone",
			Fix: "boot with isolcpus=managed_irq,domain,CPUS, or make a cpuset partition \"isolated\" for the unit"},
		{ID: "cpu.steal", Class: Manual, Matters: Much, Level: Warning, On: []Profile{VM}, look: steal,
			Why: "time that the hypervisor gives to others is missing in every percentile",
			Fix: "take a machine with CPUs of its own"},
		{ID: "clock.source", Class: HostWide, Matters: Much, Level: Warning, look: clockSource,
			Why: "other clocks are read by a system call, or from slow hardware"},
		{ID: "clock.cost", Class: Manual, Matters: Much, Level: Warning, look: clockCost,
			Why: "measured: shards and clients look at the clock in every turn",
			Fix: "see clock.source; a hypervisor that intercepts the time-stamp counter has to be told not to"},
		{ID: "cgroup.cpu_max", Class: Manual, Matters: Much, Level: Warning, look: cpuQuota,
			Why: "a shard that has used up its quota stands still for up to 100 ms",
			Fix: "no CPU limit for the unit or the container: give it CPUs (AllowedCPUs=, cpuset) instead of a quota"},
		{ID: "kern.numa_balancing", Class: HostWide, Matters: Much, Level: Warning, look: onNodes(file("proc/sys/kernel/numa_balancing", is("0"))),
			Why: "it unmaps memory to see who uses it; shards stay where they are, so that all it brings are page faults"},
		{ID: "kern.timer_migration", Class: HostWide, Matters: Much, Level: Note, On: isolated, look: file("proc/sys/kernel/timer_migration", is("0")),
			Why: "timers of idle CPUs are moved to busy ones, which are the shards'"},
		{ID: "kern.nmi_watchdog", Class: HostWide, Matters: Much, Level: Note, On: isolated, look: file("proc/sys/kernel/nmi_watchdog", is("0")),
			Why: "its interrupts come to isolated CPUs too, and it takes a performance counter"},
		{ID: "vm.stat_interval", Class: HostWide, Matters: Much, Level: Note, On: isolated, look: file("proc/sys/vm/stat_interval", atLeast(10)),
			Why: "each second a kernel worker runs on every CPU to add up statistics of memory"},
		{ID: "rt.throttling", Class: Unsafe, Matters: Much, Level: Warning, look: file("proc/sys/kernel/sched_rt_runtime_us", want{"a limit, not -1", "", func(f string) bool { return f != "-1" }}),
			Why: "a thread of a real-time class that spins without this limit stops the kernel's workers on its CPU, those that complete durable writes among them",
			Fix: "sysctl kernel.sched_rt_runtime_us=950000, and no SCHED_FIFO for mqd"},
		{ID: "irq.balance", Class: HostWide, Matters: Much, Level: Note, On: isolated, look: running(balancers...),
			Why: "irqbalance moves interrupts to shards' CPUs, and undoes what is set by hand",
			Fix: "IRQBALANCE_BANNED_CPULIST with the shards' CPUs, or stop it"},
		{ID: "power.manager", Class: HostWide, Matters: Little, Level: Note, On: servers, look: running(managers...),
			Why: "another program sets governors and idle states: two managers undo each other's work",
			Fix: "let one of them rule: either its profile for latency, or mqd tune"},
	}
}

// policies reads a file of each cpufreq policy.
func policies(name string, w want) func(h *Host) []reading {
	return func(h *Host) []reading {
		var all []reading
		for _, dir := range h.Files.Glob("sys/devices/system/cpu/cpufreq/policy*") {
			all = append(all, h.read(path.Base(dir), dir+"/"+name, w)...)
		}
		return all
	}
}

func idleStates(h *Host) []reading {
	const held = "dev/cpu_dma_latency" // reading it tells the least that anybody has asked for
	if b, err := h.Files.Read(held); err == nil && len(b) == 4 {
		if us := int32(binary.NativeEndian.Uint32(b)); us <= slowWake {
			found := fmt.Sprintf("%d us are held", us)
			if h.PID != 0 && h.holds(held) {
				found += fmt.Sprintf(", by process %d", h.PID)
			}
			return []reading{{path: held, found: found, want: judged("at most 50 us to wake", true)}}
		}
	}
	deepest := int64(0)
	for _, dir := range h.Files.Glob("sys/devices/system/cpu/cpu0/cpuidle/state*") {
		if h.Files.Text(dir+"/disable") == "0" {
			deepest = max(deepest, h.number(dir+"/latency", 0))
		}
	}
	if len(h.Files.Glob("sys/devices/system/cpu/cpu0/cpuidle/state*")) == 0 {
		return nil
	}
	return []reading{{found: fmt.Sprintf("%d us to wake", deepest), want: judged("at most 50 us to wake", deepest <= slowWake)}}
}

// holds reports whether the process whose limits count has a file open.
func (h *Host) holds(path string) bool {
	for _, fd := range h.Files.Glob(h.process("fd") + "/*") {
		if real, err := h.Files.Resolve(fd); err == nil && real == path {
			return true
		}
	}
	return false
}

func isolation(h *Host) []reading {
	const at = "sys/devices/system/cpu/isolated"
	found := h.Files.Text(at)
	if found == "" {
		found = "none"
	}
	return []reading{{path: at, found: found, want: judged("CPUs "+topology.List(topology.Choose(h.Machine).Shards), found != "none")}}
}

// steal is the share of time since the start that a hypervisor gave to others; the
// format is that of proc_stat(5).
func steal(h *Host) []reading {
	fields := strings.Fields(strings.SplitN(h.Files.Text("proc/stat"), "\n", 2)[0])
	if len(fields) < 9 || fields[0] != "cpu" {
		return nil
	}
	total, stolen := 0.0, 0.0
	for i, f := range fields[1:9] {
		n, err := strconv.ParseFloat(f, 64)
		if err != nil {
			return nil
		}
		if total += n; i == 7 {
			stolen = n
		}
	}
	share := 100 * stolen / max(total, 1)
	return []reading{{path: "proc/stat", found: fmt.Sprintf("%.1f %% stolen since the start", share), want: judged("less than 1 %", share < muchStolen)}}
}

// fastClocks are read without a system call.
var fastClocks = []string{"tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter"}

func clockSource(h *Host) []reading {
	dir := "sys/devices/system/clocksource/clocksource0/"
	w := among(fastClocks...)
	w.set = ""
	for _, c := range strings.Fields(h.Files.Text(dir + "available_clocksource")) {
		for _, fast := range fastClocks {
			if c == fast && w.set == "" {
				w.set = c
			}
		}
	}
	return h.read("", dir+"current_clocksource", w)
}

func clockCost(h *Host) []reading {
	if h.Clock == nil {
		return nil
	}
	cost := h.Clock()
	return []reading{{found: cost.String(), want: judged("at most "+slowClock.String(), cost <= slowClock)}}
}

// cpuQuota looks at the control group and those above it, in both forms of them.
func cpuQuota(h *Host) []reading {
	dirs, ok := h.groups("cpu")
	if !ok {
		return nil
	}
	for _, dir := range dirs {
		if text := h.Files.Text(dir + "/cpu.max"); text != "" && !strings.HasPrefix(text, "max") {
			return []reading{{at: dir, path: dir + "/cpu.max", found: text, want: judged("max", false)}}
		}
		if quota := h.number(dir+"/cpu.cfs_quota_us", -1); quota > 0 {
			found := fmt.Sprintf("%d %d", quota, h.number(dir+"/cpu.cfs_period_us", 100_000))
			return []reading{{at: dir, path: dir + "/cpu.cfs_quota_us", found: found, want: judged("-1", false)}}
		}
	}
	return []reading{{found: "no limit", want: judged("no limit", true)}}
}

// groups are the directories of the process's control group, and of those above it, that
// have the files of a controller: in the second form, and in the first, where a controller
// has a tree of its own. ok says that there is such a group at all.
func (h *Host) groups(controller string) (dirs []string, ok bool) {
	at := map[string]string{} // where trees are mounted, by controller; "" has all
	for _, m := range topology.Mounts(h.Files) {
		switch {
		case m.Filesystem == "cgroup2":
			at[""] = strings.TrimPrefix(m.Dir, "/")
		case m.Filesystem == "cgroup" && m.Has(controller):
			at[controller] = strings.TrimPrefix(m.Dir, "/")
		}
	}
	if at[""] == "" {
		at[""] = "sys/fs/cgroup"
	}
	for line := range strings.Lines(h.Files.Text(h.process("cgroup"))) {
		part := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(part) != 3 || part[1] != "" && !slices.Contains(strings.Split(part[1], ","), controller) {
			continue
		}
		root := at[controller]
		if part[1] == "" {
			root = at[""]
		}
		ok = ok || root != ""
		for dir := path.Join(root, part[2]); root != "" && strings.HasPrefix(dir, root); dir = path.Dir(dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs, ok
}

// onNodes asks only where there is more than one NUMA node.
func onNodes(look func(h *Host) []reading) func(h *Host) []reading {
	return func(h *Host) []reading {
		if len(h.Machine.Nodes) < 2 {
			return nil
		}
		return look(h)
	}
}

// running tells whether one of some programs runs.
func running(names ...string) func(h *Host) []reading {
	return func(h *Host) []reading {
		found := "does not run"
		for _, comm := range h.Files.Glob("proc/[0-9]*/comm") {
			name := h.Files.Text(comm)
			for _, n := range names {
				if name == n || strings.HasSuffix(n, "-") && strings.HasPrefix(name, n) {
					found = name + " runs"
				}
			}
		}
		return []reading{{found: found, want: is("does not run").reported()}}
	}
}
