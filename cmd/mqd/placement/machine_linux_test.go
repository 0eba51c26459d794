package placement

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/mqd-broker/mqd/tuning/topology"
	"github.com/mqd-broker/mqd/tuning/tree"
)

// files makes files below a new root. A text that begins with "->" is a link.
func files(t *testing.T, files map[string]string) *tree.Tree {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		err := error(nil)
		if len(text) > 2 && text[:2] == "->" {
			err = os.Symlink(text[2:], path)
		} else {
			err = os.WriteFile(path, []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return tree.New(root)
}

const interrupts = `           CPU0       CPU1
 24:          1          0  IO-APIC   5-edge      ACPI:Ged
 35:          3          1 PCI-MSIX-0000:00:02.0   0-edge      virtio1-config
 36:         10     202802 PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0
 41:     900000          0 PCI-MSIX-0000:00:04.0   0-edge      virtio10-rx
 50:        100        100 PCI-MSI 1048576-edge      nvme0q0
 51:       5000          0 PCI-MSI 1048577-edge      nvme0q1
 52:          0       5100 PCI-MSI 1048578-edge      nvme0q2
 60:         70          0 PCI-MSI 2048576-edge      ahci[0000:00:1f.2]
NMI:          0          0   Non-maskable interrupts
LOC:    4272179    4391923   Local timer interrupts
`

func TestTheInterruptsOfTheDataDeviceAreFound(t *testing.T) {
	const slot = "sys/devices/pci0000:00/"
	root := files(t, map[string]string{
		"proc/interrupts":                                              interrupts,
		"proc/irq/35/effective_affinity_list":                          "0\n",
		"proc/irq/36/effective_affinity_list":                          "1\n",
		"proc/irq/41/effective_affinity_list":                          "0\n",
		"proc/irq/50/effective_affinity_list":                          "0-1\n",
		"proc/irq/51/effective_affinity_list":                          "0\n",
		"proc/irq/52/effective_affinity_list":                          "1\n",
		"proc/irq/60/effective_affinity_list":                          "0\n",
		slot + "0000:00:02.0/msi_irqs/35":                              "msix",
		slot + "0000:00:02.0/msi_irqs/36":                              "msix",
		slot + "0000:00:02.0/virtio1/block/vda/vda1/dev":               "254:1",
		slot + "0000:00:03.0/msi_irqs/50":                              "msix",
		slot + "0000:00:03.0/msi_irqs/51":                              "msix",
		slot + "0000:00:03.0/msi_irqs/52":                              "msix",
		slot + "0000:00:03.0/nvme/nvme0/nvme0n1/dev":                   "259:0",
		slot + "0000:00:1f.2/msi_irqs/60":                              "msi",
		slot + "0000:00:1f.2/ata1/host0/target0/0:0:0:0/block/sda/dev": "8:0",
		"sys/devices/virtual/block/dm-0/slaves/dm-1":                   "->../../dm-1",
		"sys/devices/virtual/block/dm-1/slaves/vda1":                   "->../../../../pci0000:00/0000:00:02.0/virtio1/block/vda/vda1",
		"sys/devices/virtual/block/md0/slaves/vda1":                    "->../../../../pci0000:00/0000:00:02.0/virtio1/block/vda/vda1",
		"sys/devices/virtual/block/md0/slaves/sda":                     "->../../../../pci0000:00/0000:00:1f.2/ata1/host0/target0/0:0:0:0/block/sda",
		"sys/devices/virtual/block/loop0/dev":                          "7:0",
		"sys/dev/block/254:1":                                          "->../../devices/pci0000:00/0000:00:02.0/virtio1/block/vda/vda1",
		"sys/dev/block/259:0":                                          "->../../devices/pci0000:00/0000:00:03.0/nvme/nvme0/nvme0n1",
		"sys/dev/block/8:0":                                            "->../../devices/pci0000:00/0000:00:1f.2/ata1/host0/target0/0:0:0:0/block/sda",
		"sys/dev/block/253:0":                                          "->../../devices/virtual/block/dm-0",
		"sys/dev/block/9:0":                                            "->../../devices/virtual/block/md0",
		"sys/dev/block/7:0":                                            "->../../devices/virtual/block/loop0",
	})
	for name, c := range map[string]struct {
		device string
		want   int
	}{
		"a partition of a virtio disk":         {"254:1", 1},
		"an NVMe drive with a queue for each":  {"259:0", -1},
		"a disk behind a controller":           {"8:0", 0},
		"a mapping of a mapping of one device": {"253:0", 1},
		"a mapping of two devices":             {"9:0", -1},
		"no interrupts":                        {"7:0", -1},
		"no such device":                       {"1:1", -1},
	} {
		if got := interruptCPU(root, c.device); got != c.want {
			t.Errorf("%s: CPU %d, want %d", name, got, c.want)
		}
	}
}

func TestPhysicalCoresAreReadFromTheTopology(t *testing.T) {
	const dir = "sys/devices/system/cpu/"
	root := files(t, map[string]string{
		dir + "cpu0/topology/core_id": "0\n", dir + "cpu0/topology/physical_package_id": "0\n",
		dir + "cpu1/topology/core_id": "0\n", dir + "cpu1/topology/physical_package_id": "1\n",
		dir + "cpu2/topology/core_id": "0\n", dir + "cpu2/topology/physical_package_id": "0\n",
		dir + "cpu3/topology/core_id": "1\n", dir + "cpu3/topology/physical_package_id": "-1\n",
		dir + "cpu4/topology/core_id": "-1\n", dir + "cpu4/topology/physical_package_id": "0\n",
		dir + "cpu5/topology/core_id": "x\n",
	})
	core := func(cpu int) int {
		n, ok := topology.Core(root, cpu)
		if !ok {
			return -1
		}
		return n
	}
	if core(0) != core(2) || core(0) == core(1) || core(3) == core(0) {
		t.Errorf("cores %d %d %d %d", core(0), core(1), core(2), core(3))
	}
	if core(4) != -1 || core(5) != -1 || core(6) != -1 {
		t.Errorf("cores that nobody tells: %d %d %d", core(4), core(5), core(6))
	}
}

func TestThisMachineCanBeRead(t *testing.T) {
	m, err := Read("/", filepath.Join(t.TempDir(), "not", "there"))
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Allowed) != runtime.NumCPU() {
		t.Errorf("CPUs %v, the runtime sees %d", m.Allowed, runtime.NumCPU())
	}
	if p, err := Place(configure(t), m); err != nil || p.Shards < 1 {
		t.Errorf("%+v: %+v, %v", m, p, err)
	}
}
