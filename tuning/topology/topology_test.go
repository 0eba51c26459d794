package topology_test

import (
	"slices"
	"testing"

	"github.com/mqd-broker/mqd/tuning/fixture"
	"github.com/mqd-broker/mqd/tuning/topology"
)

func read(t *testing.T, files fixture.Files) *topology.Machine {
	t.Helper()
	return topology.Read(fixture.Build(t, files), fixture.DataDir)
}

func TestAServersPartsAreFound(t *testing.T) {
	m := read(t, fixture.Metal())
	if len(m.CPUs) != 64 || m.Cores() != 32 || !slices.Equal(m.Nodes, []int{0, 1}) || m.Hypervisor || m.Battery || m.Memory != 256<<30 {
		t.Errorf("%d CPUs, %d cores, nodes %v, memory %d: %+v", len(m.CPUs), m.Cores(), m.Nodes, m.Memory, m)
	}
	if c := m.CPUs[50]; c != (topology.CPU{Number: 50, Core: 2, Package: 1, Node: 1}) {
		t.Errorf("CPU 50 is %+v", c)
	}
	data := m.DataDrives()
	if len(data) != 1 || data[0] != (topology.Drive{Name: "nvme1n1", Kind: "nvme", Model: "SAMSUNG MZQL21T9HCJR-00A07", Node: 1, Queues: 64, Controller: "nvme1", Data: true}) {
		t.Errorf("the data is on %+v", data)
	}
	if m.Data.Filesystem != "xfs" || m.Data.Dir != fixture.DataDir || !m.Data.Has("noatime") || !m.Data.Has("inode64") {
		t.Errorf("mount %+v", m.Data)
	}
	if len(m.NICs) != 2 || m.NICs[1] != (topology.NIC{Name: "ens1f0np0", Driver: "mlx5_core", Node: 1, Queues: 32, Speed: 25000, Up: true}) || m.NICs[0].Speed != 0 || m.NICs[0].Up {
		t.Errorf("interfaces %+v", m.NICs)
	}
}

func TestPartitionsAndLayersLeadToTheirDrive(t *testing.T) {
	for name, c := range map[string]struct {
		files fixture.Files
		drive string
		kind  string
	}{
		"partition":        {fixture.VM(), "vda", "virtio"},
		"encrypted volume": {fixture.Laptop(), "nvme0n1", "nvme"},
	} {
		m := read(t, c.files)
		if d := m.DataDrives(); len(d) != 1 || d[0].Name != c.drive || d[0].Kind != c.kind {
			t.Errorf("%s: the data is on %+v of %+v", name, d, m.Drives)
		}
		if len(m.Drives) != 1 {
			t.Errorf("%s: drives %+v", name, m.Drives)
		}
	}
}

func TestKindsOfMachinesAreTold(t *testing.T) {
	if m := read(t, fixture.VM()); !m.Hypervisor || m.Battery {
		t.Error("a virtual machine is not recognized")
	}
	if m := read(t, fixture.Laptop()); m.Hypervisor || !m.Battery {
		t.Error("a laptop is not recognized")
	}
	// The battery of a mouse makes no laptop.
	if m := read(t, fixture.Laptop().With(fixture.Files{"sys/class/power_supply/BAT0/type": ""})); m.Battery {
		t.Error("a mouse is taken for a battery")
	}
}

func TestShardsGoToTheDrivesNodeOneOnACore(t *testing.T) {
	for name, c := range map[string]struct {
		files          fixture.Files
		shards, others string
	}{
		"server":               {fixture.Metal(), "17-31", "0-16,32-63"},
		"isolated CPUs":        {fixture.Metal().With(fixture.Files{"sys/devices/system/cpu/isolated": "20-23,52-55\n"}), "20-23", "0-19,24-63"},
		"isolated, other node": {fixture.Metal().With(fixture.Files{"sys/devices/system/cpu/isolated": "2-3\n"}), "2-3", "0-1,4-63"},
		"virtual machine":      {fixture.VM(), "1", "0,2-3"},
		"laptop":               {fixture.Laptop(), "1-5", "0,6-11"},
		"one CPU":              {fixture.VM().With(fixture.Files{"sys/devices/system/cpu/online": "0\n"}), "0", ""},
	} {
		ch := topology.Choose(read(t, c.files))
		if got := topology.List(ch.Shards); got != c.shards {
			t.Errorf("%s: shards on %q, want %q; %v", name, got, c.shards, ch.Reasons)
		}
		if got := topology.List(ch.Others); got != c.others {
			t.Errorf("%s: others on %q, want %q", name, got, c.others)
		}
	}
}

func TestAnEmptyTreeIsNoFailure(t *testing.T) {
	m := read(t, fixture.Files{"x": "y"})
	if ch := topology.Choose(m); len(ch.Shards) != 0 || m.Cores() != 0 {
		t.Errorf("%+v %+v", m, ch)
	}
}

func TestListsOfNumbers(t *testing.T) {
	for _, text := range []string{"0", "0-3", "0,2-3,8", "5-6"} {
		if got := topology.List(topology.Numbers(text + "\n")); got != text {
			t.Errorf("%q becomes %q", text, got)
		}
	}
	for _, text := range []string{"", "x", "3-1", "1-", "-1", "0-99999999"} {
		if got := topology.Numbers(text); got != nil {
			t.Errorf("%q becomes %v", text, got)
		}
	}
}

func TestWaysToADriveAreFound(t *testing.T) {
	const head = "sys/devices/virtual/nvme-subsystem/nvme-subsys1/nvme1n2"
	files := fixture.Files{"proc/self/mountinfo": "22 1 259:4 / / rw - ext4 /dev/nvme1n2p1 rw\n",
		"sys/dev/block/259:4": "->../../" + head[4:] + "/nvme1n2p1", head + "/nvme1n2p1/partition": "1\n", head + "/queue/nomerges": "0\n"}
	for i, bus := range []string{"20", "80"} {
		ctrl := "devices/pci0000:" + bus + "/0000:" + bus + ":00.0/nvme/nvme" + string(rune('0'+i))
		disk := ctrl + "/nvme1c" + string(rune('0'+i)) + "n2"
		files["sys/devices/virtual/nvme-subsystem/nvme-subsys1/nvme"+string(rune('0'+i))] = "->../../../../" + ctrl
		files["sys/block/nvme1c"+string(rune('0'+i))+"n2"] = "->../" + disk
		files["sys/"+disk+"/queue/nomerges"] = "0\n"
		files["sys/devices/pci0000:"+bus+"/0000:"+bus+":00.0/numa_node"] = string(rune('0'+i)) + "\n"
	}
	data := read(t, files).DataDrives()
	if len(data) != 2 || data[0].Name != "nvme1c0n2" || data[0].Node != 0 || data[1].Name != "nvme1c1n2" || data[1].Node != 1 {
		t.Errorf("the data is on %+v", data)
	}
}

func TestCoresOfClustersAreToldApart(t *testing.T) {
	files := fixture.Files{"sys/devices/system/cpu/online": "0-3\n"}
	for cpu, core := range map[string]string{"0": "0", "1": "1", "2": "0", "3": "1"} {
		dir := "sys/devices/system/cpu/cpu" + cpu + "/topology/"
		files[dir+"core_id"], files[dir+"physical_package_id"], files[dir+"thread_siblings_list"] = core+"\n", "0\n", cpu+"\n"
	}
	if m := read(t, files); m.Cores() != 4 {
		t.Errorf("%d cores: %+v", m.Cores(), m.CPUs)
	}
}

func TestVirtualMachinesOfArmAreKnown(t *testing.T) {
	for _, c := range []struct {
		files fixture.Files
		want  bool
	}{
		{fixture.Files{}, false},
		{fixture.Files{"sys/class/dmi/id/sys_vendor": "Ampere(R)\n", "sys/class/dmi/id/product_name": "Mt. Jade\n"}, false},
		{fixture.Files{"sys/class/dmi/id/sys_vendor": "QEMU\n", "sys/class/dmi/id/product_name": "KVM Virtual Machine\n"}, true},
		{fixture.Files{"sys/class/dmi/id/sys_vendor": "Amazon EC2\n", "sys/class/dmi/id/product_name": "m7g.large\n"}, true},
		{fixture.Files{"sys/class/dmi/id/sys_vendor": "Amazon EC2\n", "sys/class/dmi/id/product_name": "m7g.metal\n"}, false},
		{fixture.Files{"sys/firmware/devicetree/base/compatible": "linux,dummy-virt\x00"}, true},
		{fixture.Files{"sys/hypervisor/type": "xen\n"}, true},
	} {
		m := read(t, c.files.With(fixture.Files{"proc/cpuinfo": "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n"}))
		if m.Hypervisor != c.want || m.Processor != "implementer 0x41, part 0xd0c" {
			t.Errorf("%v: %+v", c.files, m)
		}
	}
}
