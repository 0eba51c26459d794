package tuning_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/tuning"
	"github.com/mqd-broker/mqd/tuning/ethtool"
	"github.com/mqd-broker/mqd/tuning/fixture"
	"github.com/mqd-broker/mqd/tuning/topology"
)

// found is what a check says of a setting at its first place: the level, and what it is.
func found(t *testing.T, h *tuning.Host, id string) string {
	t.Helper()
	r := tuning.Check(h)
	at := slices.IndexFunc(r.Findings, func(f tuning.Finding) bool { return f.ID == id })
	if at < 0 {
		return ""
	}
	f := r.Findings[at]
	return strings.TrimSpace(string(f.Level) + " " + f.At + ": " + f.Found)
}

// server is a server of which some files are otherwise.
func server(t *testing.T, files fixture.Files) *tuning.Host {
	t.Helper()
	return host(t, fixture.Metal().With(files))
}

// host is a machine that is taken for a server.
func host(t *testing.T, files fixture.Files) *tuning.Host {
	t.Helper()
	m := fixture.Build(t, files)
	return &tuning.Host{Files: m, Machine: topology.Read(m, fixture.DataDir), Profile: tuning.Metal}
}

func TestNetworkCardsAreLookedAt(t *testing.T) {
	const card = "sys/devices/pci0000:97/0000:97:04.0/0000:99:00.0"
	queues := fixture.Files{}
	for _, n := range []string{"4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16", "17", "18", "19", "20", "21", "22", "23", "24", "25", "26", "27", "28", "29", "30", "31"} {
		queues[card+"/net/ens1f0np0/queues/rx-"+n+"/rps_cpus"] = ""
	}
	for _, c := range []struct {
		files    fixture.Files
		id, want string
	}{
		{nil, "net.queues", "ok ens1f0np0: 32 receive queues"},
		{queues, "net.queues", "note ens1f0np0: 4 receive queues"},
		{fixture.Files{card + "/numa_node": "1\n"}, "net.locality", "ok ens1f0np0: node 1"},
		{fixture.Files{card + "/numa_node": "0\n"}, "net.locality", "note ens1f0np0: node 0"},
		{fixture.Files{card + "/numa_node": "-1\n", "sys/devices/pci0000:97/0000:97:04.0/numa_node": "-1\n"}, "net.locality", ""},
		{nil, "net.missed", "ok ens1f0np0: 12 of 99000000 packets"},
		{fixture.Files{card + "/net/ens1f0np0/statistics/rx_missed_errors": "991\n"}, "net.missed", "warning ens1f0np0: 991 of 99000000 packets"},
		{fixture.Files{card + "/net/ens1f0np0/statistics/rx_fifo_errors": "5000\n"}, "net.missed", "warning ens1f0np0: 5012 of 99000000 packets"},
		{fixture.Files{card + "/net/ens1f0np0/operstate": "down\n"}, "net.queues", ""},
		{fixture.Files{card + "/net/ens1f0np0/wireless/x": "1\n"}, "net.queues", ""},
	} {
		if got := found(t, server(t, c.files), c.id); got != c.want {
			t.Errorf("%v: %s is %q, want %q", c.files, c.id, got, c.want)
		}
	}
}

func TestCardsAreAskedHowLongTheyWait(t *testing.T) {
	const us = time.Microsecond
	for _, c := range []struct {
		card    ethtool.Coalescing
		err     error
		profile tuning.Profile
		want    string
	}{
		{ethtool.Coalescing{}, nil, tuning.Metal, "ok ens1f0np0: 0 us"},
		{ethtool.Coalescing{Wait: 10 * us}, nil, tuning.VM, "ok ens1f0np0: 10 us"},
		{ethtool.Coalescing{Wait: 11 * us}, nil, tuning.Isolated, "note ens1f0np0: 11 us"},
		{ethtool.Coalescing{Wait: 8 * us, Adaptive: true}, nil, tuning.VM, "note ens1f0np0: 8 us, adaptive"},
		{ethtool.Coalescing{Wait: 50 * us}, nil, tuning.Laptop, ""},
		{ethtool.Coalescing{}, errors.New("not here"), tuning.Metal, ""},
	} {
		h := server(t, nil)
		h.Profile = c.profile
		var asked []string
		h.Coalescing = func(card string) (ethtool.Coalescing, error) {
			asked = append(asked, card)
			return c.card, c.err
		}
		if got := found(t, h, "net.coalesce"); got != c.want {
			t.Errorf("%+v: %q, want %q", c, got, c.want)
		}
		if c.profile != tuning.Laptop && !slices.Equal(asked, []string{"ens1f0np0"}) { // the other card is down
			t.Errorf("asked about %v", asked)
		}
	}
	if got := found(t, server(t, nil), "net.coalesce"); got != "" {
		t.Errorf("of a copy of a machine: %q", got)
	}
}

// What needs no boot does not say so: a boot is asked for by the kernel and its parameters.
func TestOnlyTheKernelAsksForABoot(t *testing.T) {
	var all []string
	for _, s := range tuning.Catalogue() {
		if s.Class == tuning.Reboot {
			all = append(all, s.ID)
		}
	}
	if want := []string{"kernel.version", "cpu.isolated"}; !slices.Equal(all, want) {
		t.Errorf("%v, want %v", all, want)
	}
}

func TestTheClockIsAskedAbout(t *testing.T) {
	for _, c := range []struct {
		sync    tuning.TimeSync
		err     error
		profile tuning.Profile
		want    string
	}{
		{tuning.TimeSync{Synced: true, Off: -30 * time.Microsecond}, nil, tuning.Metal, "ok : kept, -30µs off"},
		{tuning.TimeSync{Synced: true, Off: -2 * time.Millisecond}, nil, tuning.Metal, "warning : kept, -2ms off"},
		{tuning.TimeSync{}, nil, tuning.Metal, "warning : nobody keeps it"},
		{tuning.TimeSync{}, nil, tuning.VM, "note : nobody keeps it"},
		{tuning.TimeSync{Synced: true}, nil, tuning.VM, "ok : kept, 0s off"},
		{tuning.TimeSync{}, errors.New("not here"), tuning.Metal, ""},
	} {
		h := host(t, fixture.VM())
		h.Profile, h.Sync = c.profile, func() (tuning.TimeSync, error) { return c.sync, c.err }
		if got := found(t, h, "time.sync"); got != c.want {
			t.Errorf("%+v: %q, want %q", c.sync, got, c.want)
		}
	}
	if got := found(t, server(t, nil), "time.sync"); got != "ok : chronyd keeps it" {
		t.Errorf("by its files: %q", got)
	}
}

func TestTheGroupsMemoryIsItsLeastLimit(t *testing.T) {
	const slice, unit = "sys/fs/cgroup/system.slice/", "sys/fs/cgroup/system.slice/mqd.service/"
	swap := fixture.Files{"proc/swaps": "Filename Type Size Used Priority\n/dev/sda2 partition 8388604 0 -2\n"}
	for _, c := range []struct {
		files    fixture.Files
		id, want string
	}{
		{nil, "cgroup.memory_max", "ok : no limit"},
		{fixture.Files{unit + "memory.max": "max\n", slice + "memory.max": "2147483648\n"}, "cgroup.memory_max", "ok : 2048 MiB"},
		{fixture.Files{unit + "memory.max": "2147483648\n", slice + "memory.max": "536870912\n"}, "cgroup.memory_max", "warning : 512 MiB"},
		{fixture.Files{"proc/self/cgroup": "5:memory:/x\n"}, "cgroup.memory_max", ""},
		{nil, "cgroup.swap", ""},
		{fixture.Files{"proc/swaps": "Filename Type Size Used Priority\n"}, "cgroup.swap", ""},
		{swap, "cgroup.swap", "note : may be used"},
		{swap.With(fixture.Files{unit + "memory.swap.max": "0\n"}), "cgroup.swap", "ok : 0 MiB may be used"},
		{swap.With(fixture.Files{unit + "memory.swap.max": "1073741824\n"}), "cgroup.swap", "note : 1024 MiB may be used"},
	} {
		if got := found(t, host(t, fixture.VM().With(c.files)), c.id); got != c.want {
			t.Errorf("%v: %s is %q, want %q", c.files, c.id, got, c.want)
		}
	}
}

func TestGroupsOfTheFirstFormHaveLimitsToo(t *testing.T) {
	first := fixture.Files{
		"proc/self/cgroup": "4:memory:/a/b\n1:cpu,cpuacct:/a\n0::/\n",
		"proc/self/mountinfo": "22 1 253:1 / / rw - ext4 /dev/vda1 rw\n1 1 0:1 / /sys/fs/cgroup/memory rw - cgroup none rw,memory\n" +
			"1 1 0:2 / /sys/fs/cgroup/cpu rw - cgroup none rw,cpu,cpuacct\n1 1 0:3 / /sys/fs/cgroup/unified rw - cgroup2 none rw\n",
		"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
	}
	for _, c := range []struct {
		files    fixture.Files
		id, want string
	}{
		{nil, "cgroup.memory_max", "ok : no limit"},
		{fixture.Files{"sys/fs/cgroup/memory/a/memory.limit_in_bytes": "536870912\n"}, "cgroup.memory_max", "warning : 512 MiB"},
		{fixture.Files{"sys/fs/cgroup/cpu/a/cpu.cfs_quota_us": "-1\n"}, "cgroup.cpu_max", "ok : no limit"},
		{fixture.Files{"sys/fs/cgroup/cpu/a/cpu.cfs_quota_us": "150000\n"}, "cgroup.cpu_max", "warning sys/fs/cgroup/cpu/a: 150000 100000"},
		{fixture.Files{"sys/fs/cgroup/unified/cpu.max": "100000 100000\n"}, "cgroup.cpu_max", "warning sys/fs/cgroup/unified: 100000 100000"},
	} {
		if got := found(t, host(t, fixture.VM().With(first).With(c.files)), c.id); got != c.want {
			t.Errorf("%v: %s is %q, want %q", c.files, c.id, got, c.want)
		}
	}
}
