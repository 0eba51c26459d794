package tuning_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/tuning"
	"github.com/mqd-broker/mqd/tuning/fixture"
	"github.com/mqd-broker/mqd/tuning/topology"
	"github.com/mqd-broker/mqd/tuning/undo"
)

// look checks a machine; an empty profile is what it looks like.
func look(t *testing.T, files fixture.Files, profile tuning.Profile) (*fixture.Machine, *tuning.Report) {
	t.Helper()
	m := fixture.Build(t, files)
	return m, check(m, profile)
}

func check(m *fixture.Machine, profile tuning.Profile) *tuning.Report {
	parts := topology.Read(m, fixture.DataDir)
	if profile == "" {
		profile = tuning.Detect(parts)
	}
	return tuning.Check(&tuning.Host{Files: m, Machine: parts, Profile: profile})
}

// bad are the names of what is not right, with levels.
func bad(r *tuning.Report) []string {
	var all []string
	for _, f := range r.Findings {
		if text := fmt.Sprintf("%s %s", f.Level, f.ID); f.Level != tuning.OK && !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return all
}

func TestMachinesThatNobodyHasTuned(t *testing.T) {
	for name, c := range map[string]struct {
		files   fixture.Files
		profile tuning.Profile
		want    []string
	}{
		"server": {fixture.Metal(), tuning.Metal, []string{
			"note blk.nomerges", "warning nvme.apst", "warning pcie.aspm", "warning cpu.epp", "warning cpu.governor", "warning cpu.idle_states",
			"warning kern.numa_balancing", "note vm.swappiness", "note net.syn_backlog", "note net.slow_start",
		}},
		"virtual machine": {fixture.VM(), tuning.VM, []string{
			"warning limit.memlock", "warning limit.nofile", "warning blk.scheduler", "note blk.nomerges", "note blk.rq_affinity", "note blk.write_cache",
			"note fs.discard", "warning cpu.steal", "note vm.swappiness",
		}},
		"laptop": {fixture.Laptop(), tuning.Laptop, []string{"note blk.nomerges", "note vm.swappiness"}},
	} {
		_, r := look(t, c.files, "")
		if got := bad(r); r.Profile != c.profile || !slices.Equal(got, c.want) {
			t.Errorf("%s is a %s with %q, want a %s with %q", name, r.Profile, got, c.profile, c.want)
		}
	}
}

// bent are changes to a machine that a check has to find.
var bent = []struct {
	files fixture.Files
	want  string
}{
	{fixture.Files{"proc/sys/kernel/osrelease": "5.15.0\n"}, "warning kernel.version"},
	{fixture.Files{"proc/sys/kernel/io_uring_disabled": "2\n"}, "warning uring.allowed"},
	// The rings of the machine's 15 shards take 276 KiB each.
	{fixture.Files{"proc/self/limits": "Max locked memory 8388608 8388608 bytes\n"}, "warning limit.memlock"},
	{fixture.Files{"proc/self/limits": "Max locked memory 1048576 1048576 bytes\n"}, "critical limit.memlock"},
	{fixture.Files{"proc/self/mountinfo": "22 1 259:1 / / rw - xfs /dev/nvme1n1 rw,nobarrier\n"}, "critical fs.barriers"},
	{fixture.Files{"proc/self/mountinfo": "22 1 259:1 / / rw - ext4 /dev/nvme1n1 rw,data=writeback\n"}, "critical fs.barriers"},
	{fixture.Files{"proc/self/mountinfo": "22 1 259:1 / / rw - btrfs /dev/nvme1n1 rw\n"}, "note fs.type"},
	{fixture.Files{"proc/self/mountinfo": "22 1 0:20 / / rw - tmpfs none rw\n"}, "critical fs.type"},
	{fixture.Files{"sys/fs/cgroup/system.slice/cpu.max": "200000 100000\n"}, "warning cgroup.cpu_max"},
	{fixture.Files{"proc/sys/kernel/sched_rt_runtime_us": "-1\n"}, "warning rt.throttling"},
	{fixture.Files{"sys/devices/system/clocksource/clocksource0/current_clocksource": "hpet\n"}, "warning clock.source"},
	{fixture.Files{"sys/kernel/mm/transparent_hugepage/enabled": "always madvise [never]\n"}, "warning thp.enabled"},
	{fixture.Files{"sys/kernel/mm/transparent_hugepage/defrag": "[always] defer madvise never\n"}, "warning thp.defrag"},
	{fixture.Files{"proc/sys/vm/zone_reclaim_mode": "1\n"}, "warning vm.zone_reclaim"},
	{fixture.Files{"proc/sys/vm/overcommit_memory": "2\n"}, "note vm.overcommit"},
	{fixture.Files{"proc/sys/net/core/somaxconn": "128\n"}, "note net.somaxconn"},
	{fixture.Files{"proc/655/comm": "sshd\n"}, "warning time.sync"},
	{fixture.Files{"sys/fs/cgroup/system.slice/memory.max": "536870912\n"}, "warning cgroup.memory_max"},
	{fixture.Files{"proc/swaps": "Filename Type Size Used Priority\n/dev/sda2 partition 8388604 0 -2\n", "sys/fs/cgroup/system.slice/mqd.service/memory.swap.max": "max\n"}, "note cgroup.swap"},
	{fixture.Files{"proc/33/comm": "tuned\n"}, "note power.manager"},
	{fixture.Files{"proc/sys/vm/dirty_background_ratio": "5\n"}, "note refused.dirty_ratio"},
	{fixture.Files{"proc/sys/vm/dirty_writeback_centisecs": "100\n"}, "note refused.dirty_writeback"},
	{fixture.Files{"proc/sys/net/ipv4/tcp_mem": "94500000\t915000000\t927000000\n"}, "warning refused.tcp_mem"},
	{fixture.Files{"proc/sys/fs/aio-max-nr": "1048576\n"}, "note refused.aio_max_nr"},
	{fixture.Files{"sys/devices/pci0000:97/0000:97:02.0/0000:98:00.0/nvme/nvme1/nvme1n1/queue/write_cache": "write through\n"}, "note blk.write_cache"},
	{fixture.Files{"sys/devices/pci0000:97/0000:97:02.0/0000:98:00.0/nvme/nvme1/nvme1n1/queue/nr_requests": "32\n"}, "warning blk.nr_requests"},
	{fixture.Files{"sys/devices/pci0000:97/0000:97:02.0/0000:98:00.0/nvme/nvme1/nvme1n1/queue/max_sectors_kb": "128\n"}, "note blk.max_sectors"},
}

func TestEachThingThatIsOffIsFound(t *testing.T) {
	m, plain := look(t, fixture.Metal(), "")
	usual, whole := bad(plain), fixture.Metal()
	for _, c := range bent {
		m.Put(t, c.files)
		if got := bad(check(m, "")); slices.Contains(usual, c.want) || !slices.Contains(got, c.want) {
			t.Errorf("%v: found %q, want %q among them", c.files, got, c.want)
		}
		for path := range c.files {
			if text, was := whole[path]; was {
				m.Put(t, fixture.Files{path: text})
			} else if err := m.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := bad(check(m, "")); !slices.Equal(got, usual) {
		t.Errorf("what was bent has stayed: %q", got)
	}
}

func TestASettingOfTheOtherDriveIsNotLookedAt(t *testing.T) {
	_, r := look(t, fixture.Metal().With(fixture.Files{
		"sys/devices/pci0000:16/0000:16:02.0/0000:17:00.0/nvme/nvme0/nvme0n1/queue/scheduler": "none [mq-deadline]\n"}), "")
	for _, f := range r.Findings {
		if strings.Contains(f.Path, "nvme0") {
			t.Errorf("%s looks at %s", f.Name(), f.Path)
		}
	}
}

func TestProbesAndProcessesCount(t *testing.T) {
	m := fixture.Build(t, fixture.VM().With(fixture.Files{
		"proc/77/limits": "Max open files 1048576 1048576 files\nMax locked memory 8388608 8388608 bytes\n",
		"proc/77/status": "CapEff:\t0000000000004000\n",
	}))
	r := tuning.Check(&tuning.Host{
		Files: m, Machine: topology.Read(m, fixture.DataDir), Profile: tuning.VM, PID: 77,
		Probe: func() error { return errors.New("not permitted") }, Clock: func() time.Duration { return time.Microsecond },
	})
	got := bad(r)
	for want, there := range map[string]bool{
		"critical limit.memlock": false, "warning limit.memlock": false, "warning limit.nofile": false, "warning uring.works": true, "warning clock.cost": true,
	} {
		if slices.Contains(got, want) != there {
			t.Errorf("found %q; %q expected: %v", got, want, there)
		}
	}
}

func TestALimitThatABrokerHoldsIsEnough(t *testing.T) {
	for name, c := range map[string]struct {
		files fixture.Files
		found string
		ok    bool
	}{
		"held by the broker":        {fixture.Files{"dev/cpu_dma_latency": "\x0a\x00\x00\x00", "proc/77/fd/9": "->../../../dev/cpu_dma_latency"}, "10 us are held, by process 77", true},
		"held by somebody":          {fixture.Files{"dev/cpu_dma_latency": "\x0a\x00\x00\x00", "proc/77/fd/9": "->../comm"}, "10 us are held", true},
		"too much":                  {fixture.Files{"dev/cpu_dma_latency": "\x00\x94\x35\x77"}, "133 us to wake", false},
		"the device cannot be read": {nil, "133 us to wake", false},
	} {
		m := fixture.Build(t, fixture.Metal().With(fixture.Files{"proc/77/limits": "", "proc/77/comm": "mqd\n"}).With(c.files))
		r := tuning.Check(&tuning.Host{Files: m, Machine: topology.Read(m, fixture.DataDir), Profile: tuning.Metal, PID: 77})
		at := slices.IndexFunc(r.Findings, func(f tuning.Finding) bool { return f.ID == "cpu.idle_states" })
		if at < 0 || r.Findings[at].Found != c.found || (r.Findings[at].Level == tuning.OK) != c.ok {
			t.Errorf("%s: %+v", name, r.Findings[max(at, 0)])
		}
	}
}

// tune changes what is not as wanted.
func tune(t *testing.T, m *fixture.Machine, profile tuning.Profile, persist bool) *undo.Record {
	t.Helper()
	changes, err := tuning.Plan(m, tuning.Selected(check(m, profile), true), persist)
	if err != nil {
		t.Fatal(err)
	}
	r := &undo.Record{Changes: changes}
	if err := undo.Apply(m, r); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestApplyThenRevertRestoresEveryByte(t *testing.T) {
	for name, c := range map[string]struct {
		files   fixture.Files
		profile tuning.Profile
	}{
		"server":          {fixture.Metal(), tuning.Metal},
		"isolated server": {fixture.Metal(), tuning.Isolated},
		"virtual machine": {fixture.VM(), tuning.VM},
		"laptop":          {fixture.Laptop(), tuning.Laptop},
	} {
		m := fixture.Build(t, c.files)
		before := m.Contents(t)
		r := tune(t, m, c.profile, true)
		for _, f := range check(m, c.profile).Findings {
			if f.Set != "" {
				t.Errorf("%s: %s is still %s", name, f.Name(), f.Found)
			}
		}
		for _, change := range r.Changes {
			if strings.Contains(change.Path, "write_cache") || strings.HasPrefix(change.Path, "boot") {
				t.Errorf("%s: /%s was changed", name, change.Path)
			}
		}
		if err := undo.Revert(m, r, false); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, d := range fixture.Differences(before, m.Contents(t)) {
			t.Errorf("%s: %s", name, d)
		}
	}
}

func TestWhatLastsOverABootIsInTheFormOfWhoReadsIt(t *testing.T) {
	for at, want := range map[string][2]string{
		"proc/sys/vm/swappiness": {tuning.SysctlFile, "vm/swappiness = 1"},
		"sys/devices/pci0000:97/0000:97:02.0/0000:98:00.0/nvme/nvme1/nvme1n1/queue/nomerges": {tuning.UdevFile,
			`ACTION=="add|change", SUBSYSTEM=="block", ENV{DEVTYPE}=="disk", KERNELS=="0000:98:00.0", ATTR{queue/nomerges}="1"`},
		"sys/devices/pci0000:00/0000:00:04.0/virtio1/block/vda/queue/scheduler": {tuning.UdevFile,
			`ACTION=="add|change", SUBSYSTEM=="block", ENV{DEVTYPE}=="disk", KERNELS=="0000:00:04.0", ATTR{queue/scheduler}="1"`},
		"sys/devices/pci0000:97/0000:97:02.0/0000:98:00.0/nvme/nvme1/power/pm_qos_latency_tolerance_us": {tuning.UdevFile,
			`ACTION=="add|change", SUBSYSTEM=="nvme", KERNELS=="0000:98:00.0", ATTR{power/pm_qos_latency_tolerance_us}="1"`},
		"sys/devices/system/cpu/cpufreq/policy0/scaling_governor": {tuning.TmpFile, "w /sys/devices/system/cpu/cpufreq/policy0/scaling_governor - - - - 1"},
		"sys/devices/virtio-mmio.0/virtio0/block/vda/queue/scheduler": {tuning.TmpFile,
			"w /sys/devices/virtio-mmio.0/virtio0/block/vda/queue/scheduler - - - - 1"},
	} {
		if file, line := tuning.Permanent(at, "1"); file != want[0] || line != want[1] {
			t.Errorf("%s: %s in %s, want %s in %s", at, line, file, want[1], want[0])
		}
	}
}

func TestASecondApplyKeepsTheLinesOfTheFirst(t *testing.T) {
	m := fixture.Build(t, fixture.VM())
	before := m.Contents(t)
	swap := tuning.Finding{ID: "a", Path: "proc/sys/vm/swappiness", Set: "10"}
	conn := tuning.Finding{ID: "b", Path: "proc/sys/net/core/somaxconn", Set: "8192"}
	var all []*undo.Record
	for _, findings := range [][]tuning.Finding{{swap}, {conn}, {{ID: "a", Path: swap.Path, Set: "1"}}} {
		changes, err := tuning.Plan(m, findings, true)
		if err != nil {
			t.Fatal(err)
		}
		r := &undo.Record{Changes: changes}
		if err := undo.Apply(m, r); err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	_, text, _ := strings.Cut(m.Text(tuning.SysctlFile), "\n")
	if want := "net/core/somaxconn = 8192\nvm/swappiness = 1"; text != want {
		t.Errorf("the file has %q, want %q", text, want)
	}
	for _, r := range slices.Backward(all) {
		if err := undo.Revert(m, r, false); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range fixture.Differences(before, m.Contents(t)) {
		t.Error(d)
	}
}

func TestWithoutADirectoryToWriteToNothingIsPlanned(t *testing.T) {
	m := fixture.Build(t, fixture.VM().With(fixture.Files{"etc/udev/rules.d/README": ""}))
	_, err := tuning.Plan(m, tuning.Selected(check(m, ""), true), true)
	if !errors.Is(err, tuning.ErrDirectory) {
		t.Errorf("error %v", err)
	}
}

// Whatever the table says is held to a form: a row without a reason is no advice.
func TestEveryRowSaysWhy(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range tuning.Catalogue() {
		if seen[s.ID] || s.Why == "" || s.Class == "" || s.Matters == "" || s.Level == "" || strings.HasSuffix(s.Why, ".") {
			t.Errorf("row %+v", s)
		}
		if (s.Class == tuning.Manual || s.Class == tuning.Reboot || s.Class == tuning.Unsafe) && s.Fix == "" {
			t.Errorf("%s: nobody changes it, and nothing says what to do", s.ID)
		}
		seen[s.ID] = true
	}
	for _, a := range tuning.Refused() {
		if seen[a.ID] || a.Text == "" || a.Why == "" || !strings.HasPrefix(a.ID, "refused.") {
			t.Errorf("advice %+v", a)
		}
		seen[a.ID] = true
	}
}

func TestABriefSaysWhatIsOffOnce(t *testing.T) {
	m := fixture.Build(t, fixture.Metal())
	r := check(m, tuning.Metal)
	b := r.Brief()
	governors := 0
	for _, o := range b.Off {
		if o.Level == tuning.OK || o.Name == "" || o.Why == "" {
			t.Errorf("%+v", o)
		}
		if strings.HasPrefix(o.Name, "cpu.governor") {
			governors++
		}
	}
	if governors != 1 || b.Counts[tuning.Warning] != r.Counts[tuning.Warning] || b.Profile != tuning.Metal {
		t.Errorf("%+v", b)
	}
	if text := b.String(); !strings.HasPrefix(text, tuning.Summary(r)+": ") || !strings.Contains(text, "cpu.governor (64 times) is ") || strings.Contains(text, "\n") {
		t.Errorf("in a line: %s", text)
	}
	if text := (&tuning.Brief{Counts: map[tuning.Level]int{tuning.OK: 3}}).String(); text != "3 ok, 0 notes, 0 warnings, 0 critical" {
		t.Errorf("of a machine that is as it should be: %s", text)
	}
	one := map[tuning.Level]int{tuning.OK: 1, tuning.Note: 1, tuning.Warning: 1, tuning.Critical: 1}
	if text := (&tuning.Brief{Counts: one}).String(); text != "1 ok, 1 note, 1 warning, 1 critical" {
		t.Errorf("one of each: %s", text)
	}
}
