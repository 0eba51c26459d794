package tuning

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/mqd-broker/mqd/tuning/topology"
)

const (
	// oldestKernel is what io_uring has to come from for the rings that mqd makes.
	oldestMajor, oldestMinor = 6, 1
	// writeKiB is the largest write of the journal and of segments, in KiB.
	writeKiB = 1024
	// leastRequests is how many requests a queue should take before it refuses more.
	leastRequests = 128
	// fewFiles is the limit of open files below which connections are turned away: the
	// default number of them, and what shards and the program need.
	fewFiles = 20_000
	// ringBytes is the locked memory that the rings of a shard take at least, in bytes, with
	// some room: 276 KiB on x86-64.
	ringBytes = 300 << 10
	// capLockMemory is the bit of CAP_IPC_LOCK.
	capLockMemory = 14
)

var servers = []Profile{Metal, Isolated}

// storage are the settings of io_uring, of drives and of filesystems.
func storage() []Setting {
	return []Setting{
		{ID: "kernel.version", Class: Reboot, Matters: Much, Level: Warning, look: kernelVersion,
			Why: "rings with DEFER_TASKRUN, as mqd makes them, need Linux 6.1", Fix: "install a newer kernel; until then the portable driver serves"},
		{ID: "uring.allowed", Class: Unsafe, Matters: Much, Level: Warning,
			look: file("proc/sys/kernel/io_uring_disabled", want{"0", "", func(f string) bool { return f == "0" }}),
			Why:  "without io_uring the portable driver serves, with the same guarantees and more latency",
			Fix:  "if the policy of the machine permits: sysctl kernel.io_uring_disabled=0, or 1 with kernel.io_uring_group set to a group of mqd's"},
		{ID: "uring.works", Class: Manual, Matters: Much, Level: Warning, look: uringWorks,
			Why: "a ring was made for real, since seccomp filters of containers and old kernels refuse it",
			Fix: "in a container: use the seccomp profile of docs/operating/container.md"},
		{ID: "limit.memlock", Class: Manual, Matters: Much, Level: Warning, look: memlock,
			Why: "memory registered with io_uring counts as locked: what the limit leaves out is slower, and when the rings alone do not fit, the broker does not start on io_uring",
			Fix: "LimitMEMLOCK=infinity in the unit, or ulimit -l unlimited"},
		{ID: "limit.nofile", Class: Manual, Matters: Much, Level: Warning, look: openFiles,
			Why: "each connection and each open segment is a file, and the broker lowers its limit of connections to fit",
			Fix: "LimitNOFILE=1048576 in the unit"},
		{ID: "blk.rotational", Class: Manual, Matters: Much, Level: Warning, look: rotational,
			Why: "a disk that turns takes about ten milliseconds for a durable write, whatever else is set",
			Fix: "put the data directory on a drive without moving parts"},
		{ID: "blk.scheduler", Class: HostWide, Matters: Much, Level: Warning, look: queue("scheduler", always(is("none"))),
			Why: "a scheduler queues and sorts what the journal writes one at a time, and costs CPU for each"},
		{ID: "blk.nomerges", Class: Safe, Matters: Little, Level: Note, look: queue("nomerges", always(is("2"))),
			Why: "mqd's writes are as large as they get; the search for neighbours to merge with is lost time"},
		{ID: "blk.rq_affinity", Class: Safe, Matters: Little, Level: Note, look: queue("rq_affinity", completion),
			Why: "where queues are shared by CPUs, completions should come to the CPU that submitted"},
		{ID: "blk.max_sectors", Class: Safe, Matters: Much, Level: Note, look: queue("max_sectors_kb", largestWrite),
			Why: "larger writes are split, and a split round is durable when its last part is"},
		{ID: "blk.nr_requests", Class: HostWide, Matters: Much, Level: Warning, look: queue("nr_requests", requests),
			Why: "when a queue has no request left, io_uring hands operations to kernel threads, which is ten times slower"},
		{ID: "blk.write_cache", Class: Unsafe, Matters: Much, Level: Note, look: writeCache,
			Why: "says what a durable write costs: with a volatile cache and without FUA, a flush of the device each",
			Fix: "never write to queue/write_cache; ask the drive itself, as with nvme id-ctrl (vwc)"},
		{ID: "nvme.apst", Class: Safe, Matters: Much, Level: Warning, On: servers, look: powerStates,
			Why: "a drive that has gone to sleep takes milliseconds to wake, in the middle of a quiet minute"},
		{ID: "pcie.aspm", Class: HostWide, Matters: Much, Level: Warning, On: servers,
			look: file("sys/module/pcie_aspm/parameters/policy", is("performance")),
			Why:  "links that sleep between writes add tens of microseconds to the next one"},
		{ID: "fs.type", Class: Manual, Matters: Much, Level: Note, look: filesystem,
			Why: "O_DIRECT writes to preallocated files are what XFS and ext4 do well; copy on write and network filesystems are not tested",
			Fix: "put the data directory on XFS or ext4"},
		{ID: "fs.barriers", Class: Unsafe, Matters: Much, Level: Critical, look: barriers,
			Why: "without barriers a flush does not reach the device, and what was acknowledged is lost by a power cut",
			Fix: "mount without nobarrier and without data=writeback"},
		{ID: "fs.discard", Class: HostWide, Matters: Much, Level: Note, look: discard,
			Why: "with the option discard each removed segment trims the drive in the middle of the load",
			Fix: "mount without discard, and enable fstrim.timer"},
	}
}

func kernelVersion(h *Host) []reading {
	var major, minor int
	if n, _ := fmt.Sscanf(h.Machine.Kernel, "%d.%d", &major, &minor); n < 2 {
		return nil
	}
	good := major > oldestMajor || major == oldestMajor && minor >= oldestMinor
	return []reading{{path: "proc/sys/kernel/osrelease", found: h.Machine.Kernel, want: judged("6.1 or newer", good)}}
}

func uringWorks(h *Host) []reading {
	if h.Probe == nil {
		return nil
	}
	found, err := "it does", h.Probe()
	if err != nil {
		found = err.Error()
	}
	return []reading{{found: found, want: judged("it does", err == nil)}}
}

// limit is the soft limit that a line of proc_pid_limits(5) names.
func (h *Host) limit(name string) (string, bool) {
	for line := range strings.Lines(h.Files.Text(h.process("limits"))) {
		if rest, ok := strings.CutPrefix(line, name); ok && len(strings.Fields(rest)) > 1 {
			return strings.Fields(rest)[0], true
		}
	}
	return "", false
}

func memlock(h *Host) []reading {
	found, ok := h.limit("Max locked memory")
	if !ok {
		return nil
	}
	good := found == "unlimited"
	for line := range strings.Lines(h.Files.Text(h.process("status"))) {
		if rest, ok := strings.CutPrefix(line, "CapEff:"); ok && !good {
			caps, err := strconv.ParseUint(strings.TrimSpace(rest), 16, 64)
			if good = err == nil && caps&(1<<capLockMemory) != 0; good {
				found += ", and CAP_IPC_LOCK"
			}
		}
	}
	r := reading{path: h.process("limits"), found: found, want: judged("unlimited, or CAP_IPC_LOCK", good)}
	if n, err := strconv.ParseInt(found, 10, 64); err == nil && n < ringBytes*int64(len(topology.Choose(h.Machine).Shards)) {
		r.level = Critical // it counts for all that the user runs
	}
	return []reading{r}
}

func openFiles(h *Host) []reading {
	found, ok := h.limit("Max open files")
	if !ok {
		return nil
	}
	n, err := strconv.ParseInt(found, 10, 64)
	good := found == "unlimited" || err == nil && n >= fewFiles
	return []reading{{path: h.process("limits"), found: found, want: judged(fmt.Sprintf("at least %d, better 1048576", fewFiles), good)}}
}

// completion wants what the number of queues asks for.
func completion(h *Host, d topology.Drive) want {
	if d.Queues >= len(h.Machine.CPUs) {
		return among("1", "2").reported()
	}
	return is("2")
}

// rotational looks for disks that turn. Virtual ones often say so, and know nothing.
func rotational(h *Host) []reading {
	if h.Machine.Hypervisor {
		return nil
	}
	return queue("rotational", func(_ *Host, d topology.Drive) want {
		if d.Kind == "virtio" {
			return judged("0", true)
		}
		return is("0").reported()
	})(h)
}

// requests wants as many as are enough, or as many as the drive takes: more are refused,
// unless a scheduler has them wait.
func requests(h *Host, d topology.Drive) want {
	most := int64(leastRequests)
	if real, err := h.Files.Resolve("sys/block/" + d.Name); err == nil {
		most = min(most, h.number(real+"/device/queue_depth", most))
	}
	return atLeast(most)
}

// largestWrite wants writes whole, as far as the drive takes them.
func largestWrite(h *Host, d topology.Drive) want {
	most := int64(writeKiB)
	if real, err := h.Files.Resolve("sys/block/" + d.Name); err == nil {
		most = min(most, h.number(real+"/queue/max_hw_sectors_kb", most))
	}
	return atLeast(most)
}

func writeCache(h *Host) []reading {
	var all []reading
	for _, r := range queue("write_cache", always(judged("", true)))(h) {
		fua := h.Files.Text(path.Dir(r.path) + "/fua")
		r.found += ", FUA " + fua
		switch {
		case strings.HasPrefix(r.found, "write through"):
			r.want = judged("known from the drive: this says that it has no volatile cache, or that somebody has told the kernel so", false)
			if h.Profile == VM {
				r.want = judged("what the hypervisor promises", true)
			}
		case fua == "0":
			r.want = judged("FUA; here each durable write costs a flush", false)
		default:
			r.want = judged("write back with FUA, or no cache", true)
		}
		all = append(all, r)
	}
	return all
}

func powerStates(h *Host) []reading {
	var all []reading
	for _, d := range h.Machine.DataDrives() {
		if real, err := h.Files.Resolve("sys/class/nvme/" + d.Controller); err == nil && d.Controller != "" {
			all = append(all, h.read(d.Controller, real+"/power/pm_qos_latency_tolerance_us", is("0"))...)
		}
	}
	return all
}

func filesystem(h *Host) []reading {
	m := h.Machine.Data
	if m.Filesystem == "" {
		return nil
	}
	r := reading{at: m.Dir, found: m.Filesystem, want: among("xfs", "ext4").reported()}
	if m.Filesystem == "tmpfs" || m.Filesystem == "ramfs" {
		r.level = Critical // everything is gone with the next restart
	}
	return []reading{r}
}

func barriers(h *Host) []reading {
	m := h.Machine.Data
	if m.Filesystem == "" {
		return nil
	}
	found := "on"
	for _, o := range []string{"nobarrier", "barrier=0", "data=writeback"} {
		if m.Has(o) {
			found = "mounted with " + o
		}
	}
	return []reading{{at: m.Dir, found: found, want: is("on").reported()}}
}

func discard(h *Host) []reading {
	m := h.Machine.Data
	if m.Filesystem == "" {
		return nil
	}
	found := "off"
	if m.Has("discard") {
		found = "on"
	}
	return []reading{{at: m.Dir, found: found, want: is("off").reported()}}
}
