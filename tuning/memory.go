package tuning

// memory are the settings of memory and of the network.
func memoryAndNetwork() []Setting {
	return []Setting{
		{ID: "thp.enabled", Class: HostWide, Matters: Much, Level: Warning, look: file("sys/kernel/mm/transparent_hugepage/enabled", among("madvise", "always")),
			Why: "mqd asks for huge pages for its I/O memory, and for nothing else; \"never\" gives it small ones, of which registering takes longer"},
		{ID: "thp.defrag", Class: HostWide, Matters: Much, Level: Warning, look: file("sys/kernel/mm/transparent_hugepage/defrag", among("madvise", "defer+madvise", "defer", "never")),
			Why: "with \"always\" any page fault may stop to move memory around, also one of a broker's"},
		{ID: "vm.swappiness", Class: HostWide, Matters: Little, Level: Note, look: file("proc/sys/vm/swappiness", atMost(10)),
			Why: "registered memory is never swapped, Go's heap is; a page that has to come back costs milliseconds"},
		{ID: "vm.zone_reclaim", Class: HostWide, Matters: Little, Level: Warning, look: onNodes(file("proc/sys/vm/zone_reclaim_mode", is("0"))),
			Why: "a node that is short of memory would stop to look for some, instead of taking another node's"},
		{ID: "vm.overcommit", Class: HostWide, Matters: Little, Level: Note, look: file("proc/sys/vm/overcommit_memory", among("0", "1").reported()),
			Why: "Go reserves address space that it does not use; with 2 such reservations count, and may be refused",
			Fix: "sysctl vm.overcommit_memory=0, if nothing else on the machine needs 2"},
		{ID: "net.somaxconn", Class: HostWide, Matters: Little, Level: Note, look: file("proc/sys/net/core/somaxconn", atLeast(4096)),
			Why: "connections that come at once wait in this queue; when it is full they are tried again after a second"},
		{ID: "net.syn_backlog", Class: HostWide, Matters: Little, Level: Note, On: servers, look: file("proc/sys/net/ipv4/tcp_max_syn_backlog", atLeast(4096)),
			Why: "the same for connections that are not complete yet"},
		{ID: "net.slow_start", Class: HostWide, Matters: Little, Level: Note, On: servers, look: file("proc/sys/net/ipv4/tcp_slow_start_after_idle", is("0")),
			Why: "connections that were silent for a moment begin again with ten packets a round trip, which is felt by bursts on slow paths"},
	}
}
