package tuning

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mqd-broker/mqd/tuning/topology"
)

const (
	// mostQueues is how many receive queues are enough for any number of shards.
	mostQueues = 16
	// muchMissed is the share of packets, one in so many, that a card may have no room for.
	muchMissed = 100_000
	// longCoalesce is how long a card may wait before it interrupts.
	longCoalesce = 10 * time.Microsecond
	// leastMemory is what a broker takes with its defaults, in bytes: cache, heap, and the
	// memory of some shards.
	leastMemory = 1 << 30
	// boundless is what limits are above that are none, in bytes: the first form of control
	// groups has a number for it.
	boundless = 1 << 60
	// farOff is how far a clock that is disciplined may be from the time.
	farOff = time.Millisecond
)

// TimeSync is what the kernel says of its clock.
type TimeSync struct {
	// Synced says that somebody disciplines it; Off is how far it is off as far as is known.
	Synced bool
	Off    time.Duration
}

// synchronizers are programs that keep clocks.
var synchronizers = []string{"chronyd", "ntpd", "systemd-timesyn", "ptp4l", "phc2sys"}

// neighbours are the settings of network cards, of the time and of the group's memory.
func neighbours() []Setting {
	return []Setting{
		{ID: "net.queues", Class: Manual, Matters: Much, Level: Note, On: servers, look: receiveQueues,
			Why: "packets of one queue are handled by one CPU; with fewer queues than shards some CPUs do the work of all",
			Fix: "ethtool -L INTERFACE combined NUMBER, as far as the card has them"},
		{ID: "net.locality", Class: Manual, Matters: Much, Level: Note, On: servers, look: onNodes(cardLocality),
			Why: "a card of another NUMA node than the drive has the packets of shards cross between sockets",
			Fix: "put the card into a slot of the drive's node, or move the data to a drive of the card's"},
		{ID: "net.missed", Class: Manual, Matters: Much, Level: Warning, look: missedPackets,
			Why: "packets that found the card's ring full are sent again by the peer, which takes 200 ms and more",
			Fix: "ethtool -G INTERFACE rx NUMBER, up to what ethtool -g says; and look who keeps the CPU of its interrupts"},
		{ID: "net.coalesce", Class: Manual, Matters: Much, Level: Note, On: []Profile{VM, Metal, Isolated}, look: coalescing,
			Why: "a card waits before it interrupts, so that one interrupt tells of more packets; each batch waits as long",
			Fix: "ethtool -C INTERFACE adaptive-rx off rx-usecs 0, for more interrupts, which cost CPU when there are many packets; it holds until the next boot"},
		{ID: "time.sync", Class: Manual, Matters: Little, Level: Warning, look: timeSync,
			Why: "a record without a time gets the broker's; retention, lag in seconds and seeks by time believe it, and a clock that jumps moves them",
			Fix: "run chrony or another client of NTP"},
		{ID: "cgroup.memory_max", Class: Manual, Matters: Much, Level: Warning, look: groupMemory,
			Why: "a broker that needs more than its group may have is killed by the kernel",
			Fix: "MemoryMax= of the unit, or the container's limit: cache.size, memory.limit and 32 MiB for each shard together, and some"},
		{ID: "cgroup.swap", Class: Manual, Matters: Little, Level: Note, look: groupSwap,
			Why: "Go's heap may go to swap, and a page that has to come back costs milliseconds",
			Fix: "MemorySwapMax=0 in the unit, as mqd generate systemd has it"},
	}
}

// cards are the network cards that are in use, without those of radio.
func (h *Host) cards() []topology.NIC {
	return slices.DeleteFunc(slices.Clone(h.Machine.NICs), func(n topology.NIC) bool {
		return !n.Up || h.Files.Exists("sys/class/net/"+n.Name+"/wireless")
	})
}

func receiveQueues(h *Host) []reading {
	var all []reading
	shards := min(len(topology.Choose(h.Machine).Shards), mostQueues)
	for _, n := range h.cards() {
		all = append(all, reading{at: n.Name, found: fmt.Sprintf("%d receive queues", n.Queues),
			want: judged(fmt.Sprintf("at least %d, for shards on as many CPUs", shards), n.Queues >= shards)})
	}
	return all
}

func cardLocality(h *Host) []reading {
	var all []reading
	for _, n := range h.cards() {
		for _, d := range h.Machine.DataDrives() {
			if n.Node != topology.NoNode && d.Node != topology.NoNode {
				all = append(all, reading{at: n.Name, found: fmt.Sprintf("node %d", n.Node), want: judged(fmt.Sprintf("node %d, that of %s", d.Node, d.Name), n.Node == d.Node)})
			}
		}
	}
	return all
}

// missedPackets looks at what the card has had no room for since it was made.
func missedPackets(h *Host) []reading {
	var all []reading
	for _, n := range h.cards() {
		dir := "sys/class/net/" + n.Name + "/statistics/"
		packets := h.number(dir+"rx_packets", -1)
		missed := h.number(dir+"rx_missed_errors", 0) + h.number(dir+"rx_fifo_errors", 0)
		if packets < 0 {
			continue
		}
		all = append(all, reading{at: n.Name, path: dir + "rx_missed_errors", found: fmt.Sprintf("%d of %d packets", missed, packets),
			want: judged(fmt.Sprintf("less than one in %d", muchMissed), missed <= packets/muchMissed)})
	}
	return all
}

// coalescing asks the drivers of cards. Those that do not know are left out.
func coalescing(h *Host) []reading {
	if h.Coalescing == nil {
		return nil
	}
	var all []reading
	for _, n := range h.cards() {
		c, err := h.Coalescing(n.Name)
		if err != nil {
			continue
		}
		found := fmt.Sprintf("%d us", c.Wait.Microseconds())
		if c.Adaptive {
			found += ", adaptive"
		}
		all = append(all, reading{at: n.Name, found: found,
			want: judged(fmt.Sprintf("at most %d us, not adaptive", longCoalesce.Microseconds()), !c.Adaptive && c.Wait <= longCoalesce)})
	}
	return all
}

// timeSync asks the kernel, or looks for a program that keeps the clock. On a virtual machine
// and on a laptop it may be the host's business, or nobody's.
func timeSync(h *Host) []reading {
	r := reading{want: judged("kept, within 1 ms", true)}
	if h.Profile == VM || h.Profile == Laptop {
		r.level = Note
	}
	if h.Sync != nil {
		s, err := h.Sync()
		if err != nil {
			return nil
		}
		good := s.Synced && s.Off.Abs() <= farOff
		if r.found = fmt.Sprintf("kept, %v off", s.Off.Round(time.Microsecond)); !s.Synced {
			r.found = "nobody keeps it"
		}
		r.want = judged("kept, within 1 ms", good)
		return []reading{r}
	}
	r.found, r.want = "nobody keeps it", judged("kept", false)
	for _, comm := range h.Files.Glob("proc/[0-9]*/comm") {
		if name := h.Files.Text(comm); slices.Contains(synchronizers, name) {
			r.found, r.want = name+" keeps it", judged("kept", true)
		}
	}
	return []reading{r}
}

// group finds files of the memory's control group of the process, or of one above it, whose
// value is a number: the least one. It is -1 without any, ok says that there is such a group
// at all.
func (h *Host) group(names ...string) (at string, least int64, ok bool) {
	dirs, ok := h.groups("memory")
	least = -1
	for _, dir := range dirs {
		for _, name := range names {
			n, err := strconv.ParseInt(h.Files.Text(dir+"/"+name), 10, 64)
			if err == nil && n < boundless && (least < 0 || n < least) {
				at, least = dir+"/"+name, n
			}
		}
	}
	return at, least, ok
}

func groupMemory(h *Host) []reading {
	at, least, ok := h.group("memory.max", "memory.limit_in_bytes")
	switch {
	case !ok:
		return nil
	case least < 0:
		return []reading{{found: "no limit", want: judged("no limit, or at least 1 GiB", true)}}
	}
	return []reading{{path: at, found: fmt.Sprintf("%d MiB", least>>20), want: judged("no limit, or at least 1 GiB", least >= leastMemory)}}
}

func groupSwap(h *Host) []reading {
	if strings.Count(h.Files.Text("proc/swaps"), "\n") == 0 { // a line of titles, and one for each
		return nil
	}
	at, least, ok := h.group("memory.swap.max")
	if !ok {
		return nil
	}
	found := "may be used"
	if least >= 0 {
		found = fmt.Sprintf("%d MiB may be used", least>>20)
	}
	return []reading{{path: at, found: found, want: judged("0", least == 0)}}
}
