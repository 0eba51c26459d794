package tuning

import (
	"fmt"
	"strconv"
	"strings"
)

// pageBytes is the unit of net.ipv4.tcp_mem.
const pageBytes = 4096

// Advice is a piece of advice that circulates and is not followed here.
type Advice struct {
	// ID begins with "refused.".
	ID string
	// Text is the advice, as it is written.
	Text string
	// Why says why not.
	Why string

	look func(h *Host) []reading
}

// Refused are pieces of advice that are wrong, or do nothing for mqd.
func Refused() []Advice {
	return []Advice{
		{"refused.dirty_ratio", "set vm.dirty_ratio and vm.dirty_background_ratio, or their bytes",
			"mqd writes with O_DIRECT past the page cache, which these bound. They are percent: 1024 is refused by the kernel. A background ratio above the other one is halved in silence. To keep the backups of neighbours from filling the device's queue, bound them in bytes",
			changed("proc/sys/vm/dirty_ratio", "20", "proc/sys/vm/dirty_background_ratio", "10")},
		{"refused.dirty_writeback", "raise vm.dirty_writeback_centisecs to make writes faster",
			"it moves the time at which buffered writes of other programs go out; mqd has none",
			changed("proc/sys/vm/dirty_writeback_centisecs", "500")},
		{"refused.tcp_mem", "set net.ipv4.tcp_mem to sizes in bytes",
			"its unit is pages of 4 KiB: such values are terabytes, and take away the limit at which TCP stops to take memory. The kernel's default fits the machine",
			tcpMemory},
		{"refused.tcp_wmem", "set net.ipv4.tcp_wmem to 4096 16384 4194304",
			"that is the kernel's default", nil},
		{"refused.aio_max_nr", "raise fs.aio-max-nr",
			"it bounds libaio, which mqd does not use; io_uring has no such limit",
			changed("proc/sys/fs/aio-max-nr", "65536")},
		{"refused.write_cache", "write \"write through\" to queue/write_cache to make flushes free",
			"it makes the kernel leave out flushes, also where the drive's cache is volatile: acknowledged messages are lost by a power cut. Drives with capacitors say so themselves", nil},
		{"refused.nobarrier", "mount with nobarrier or data=writeback",
			"see fs.barriers: the same loss, a layer higher", nil},
		{"refused.ulimit", "ulimit -n 1000000 in a shell, or limits.conf, for a service",
			"neither reaches a systemd service: LimitNOFILE= does. fs.nr_open bounds it", nil},
		{"refused.sysctl_echo", "echo KEY VALUE /etc/sysctl.conf",
			"without >> nothing is written, without = nothing is read, and without sysctl --system nothing is loaded", nil},
		{"refused.read_ahead", "raise read_ahead_kb",
			"read-ahead is the page cache's; mqd reads ahead itself, with O_DIRECT", nil},
		{"refused.nvme_irq", "write to the smp_affinity of NVMe interrupts",
			"they are managed by the kernel, which refuses; each queue's interrupt is on the CPUs that use it already", nil},
		{"refused.io_poll", "enable queue/io_poll, or nvme.poll_queues",
			"mqd's rings do not poll devices (no IOPOLL): these queues would stay empty", nil},
		{"refused.sched_fifo", "run the broker with SCHED_FIFO and kernel.sched_rt_runtime_us=-1",
			"a shard that polls would starve the kernel worker that completes its own durable writes; see rt.throttling", nil},
		{"refused.tmpfs", "put the data directory, or temporary files, on tmpfs",
			"what is there is gone with a restart whatever was acknowledged, and mqd has no temporary files", nil},
		{"refused.mitigations", "boot with mitigations=off",
			"it gives every program on the machine a way to read the others' memory; measure first, and decide knowingly", nil},
	}
}

// changed finds values that are not the kernel's defaults, given as pairs.
func changed(pairs ...string) func(h *Host) []reading {
	return func(h *Host) []reading {
		var all []reading
		for i := 0; i < len(pairs); i += 2 {
			for _, r := range h.read("", pairs[i], is(pairs[i+1]).reported()) {
				if r.want.text = "no matter; the default is " + pairs[i+1]; !r.want.ok(r.found) {
					all = append(all, r)
				}
			}
		}
		return all
	}
}

// tcpMemory finds limits that are more than the machine has.
func tcpMemory(h *Host) []reading {
	const at = "proc/sys/net/ipv4/tcp_mem"
	fields := strings.Fields(h.Files.Text(at))
	if len(fields) != 3 || h.Machine.Memory == 0 {
		return nil
	}
	pages, err := strconv.ParseInt(fields[2], 10, 64)
	if err != nil || pages*pageBytes <= h.Machine.Memory {
		return nil
	}
	found := fmt.Sprintf("%s: up to %d GiB", strings.Join(fields, " "), pages*pageBytes>>30)
	return []reading{{path: at, found: found, want: judged(fmt.Sprintf("less than the machine has, %d GiB", h.Machine.Memory>>30), false), level: Warning}}
}
