package machine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// root makes a tree of files as proc and sysfs have them.
func root(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestHostNamesTheDeviceOfTheData(t *testing.T) {
	dir := root(t, map[string]string{
		"proc/sys/kernel/osrelease": "6.12.1\n",
		"proc/cpuinfo":              "processor\t: 0\nmodel name\t: Some CPU @ 3 GHz\n",
		"proc/loadavg":              "0.10 0.20 0.30 1/100 4242\n",
		"proc/self/mountinfo": "22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n" +
			"40 22 259:2 / /data rw,noatime shared:1 - xfs /dev/nvme0n1p2 rw\n" +
			"41 22 0:30 / /database rw - tmpfs tmpfs rw\n",
		"sys/block/nvme0n1/queue/write_cache":                             "write through\n",
		"sys/block/nvme0n1/queue/fua":                                     "1\n",
		"sys/block/nvme0n1/queue/scheduler":                               "[none] mq-deadline\n",
		"sys/block/nvme0n1/nvme0n1p2/partition":                           "2\n",
		"sys/devices/system/cpu/cpu0/cpufreq/scaling_governor":            "performance\n",
		"sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
		"sys/dev/block/.keep":                                             "",
		"sys/block/nvme0n1/device/model":                                  "Fast Drive 1T \n",
		"proc/sys/kernel/hostname":                                        "ten\n",
		"sys/class/net/eth0/operstate":                                    "up\n",
		"sys/class/net/eth0/mtu":                                          "9000\n",
		"sys/class/net/eth0/speed":                                        "25000\n",
		"sys/class/net/eth1/operstate":                                    "down\n",
		"sys/class/net/lo/operstate":                                      "unknown\n",
		"sys/class/net/lo/mtu":                                            "65536\n",
	})
	if err := os.Symlink("../../block/nvme0n1/nvme0n1p2", filepath.Join(dir, "sys/dev/block/259:2")); err != nil {
		t.Fatal(err)
	}
	h := ReadHost(dir, "/data/broker", 3, "v1")
	if h.Kernel != "6.12.1" || h.CPU != "Some CPU @ 3 GHz" || h.Governor != "performance" || h.ClockSource != "tsc" {
		t.Errorf("%+v", h)
	}
	if h.Filesystem != "xfs" || h.Device != "nvme0n1p2" || h.WriteCache != "write through" || h.FUA != "1" || h.Scheduler != "none" {
		t.Errorf("%+v", h)
	}
	if h.DeviceModel != "Fast Drive 1T" || h.Hostname != "ten" || h.Network != "eth0 mtu 9000 25000 Mb/s, lo mtu 65536" {
		t.Errorf("%+v", h)
	}
	for _, want := range []string{"xfs on nvme0n1p2 (Fast Drive 1T)", "network  eth0", "write through", "CPU 3", "v1"} {
		if !strings.Contains(h.String(), want) {
			t.Errorf("%q is not in %s", want, h)
		}
	}
}

func TestAHostThatTellsNothingIsStillAHost(t *testing.T) {
	h := ReadHost(t.TempDir(), "/data", NoCPU, "")
	if h.Kernel != "" || h.CPUs < 1 || !strings.Contains(h.String(), "interrupts on CPU unknown") {
		t.Errorf("%+v: %s", h, h)
	}
}

func TestCPUTimeComesFromThreadsElseFromTicks(t *testing.T) {
	stat := "7 (a (b) c) S 1 1 1 0 -1 0 0 0 0 0 150 50 0 0 20 0 3 0 100"
	dir := root(t, map[string]string{"proc/7/stat": stat})
	if used, err := CPUTime(dir, 7); err != nil || used != 2*time.Second {
		t.Errorf("%v, error %v", used, err)
	}
	dir = root(t, map[string]string{
		"proc/7/stat": stat, "proc/7/task/7/schedstat": "1000 5 6\n", "proc/7/task/8/schedstat": "234 5 6\n",
	})
	if used, err := CPUTime(dir, 7); err != nil || used != 1234*time.Nanosecond {
		t.Errorf("%v, error %v", used, err)
	}
	if _, err := CPUTime(dir, 9); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	dir = root(t, map[string]string{"proc/7/stat": "7 (a) S 1"})
	if _, err := CPUTime(dir, 7); err == nil {
		t.Error("a short stat was read")
	}
}

func TestPinnedCPUsAreThoseOfThreadsTiedToOne(t *testing.T) {
	status := func(cpus string) string { return "Name:\tx\nCpus_allowed_list:\t" + cpus + "\nMems_allowed:\t1\n" }
	dir := root(t, map[string]string{
		"proc/self/status":          status("0-2,5"),
		"proc/100/task/100/status":  status("0-3"),
		"proc/100/task/99/status":   status("3"),
		"proc/100/task/1000/status": status("1"),
		"proc/100/task/1001/status": status("1"),
	})
	if got := PinnedCPUs(dir, 100); !slices.Equal(got, []int{3, 1}) {
		t.Errorf("pinned to %v", got)
	}
	if got := AllowedCPUs(dir); !slices.Equal(got, []int{0, 1, 2, 5}) {
		t.Errorf("allowed %v", got)
	}
	for _, bad := range []string{"", "a", "1-", "1-x", "0-99999999"} {
		if got := cpuRange(bad); got != nil {
			t.Errorf("%q gives %v", bad, got)
		}
	}
}

func TestTurnsTellPinnedThreadsWaitsFromTheRunsOfOthers(t *testing.T) {
	pinned, free := "Cpus_allowed_list:\t1\n", "Cpus_allowed_list:\t0-1\n"
	read := func(files map[string]string) Turns {
		t.Helper()
		turns, err := ReadTurns(root(t, files), 7)
		if err != nil {
			t.Fatal(err)
		}
		return turns
	}
	before := read(map[string]string{
		"proc/7/task/7/schedstat": "1000 50 6\n", "proc/7/task/7/status": free,
		"proc/7/task/8/schedstat": "5000 300 6\n", "proc/7/task/8/status": pinned,
		"proc/7/task/9/schedstat": "90000 1 6\n", "proc/7/task/9/status": free, // it ends
	})
	after := read(map[string]string{
		"proc/7/task/7/schedstat": "1700 99 6\n", "proc/7/task/7/status": free,
		"proc/7/task/8/schedstat": "9000 340 6\n", "proc/7/task/8/status": pinned,
		"proc/7/task/10/schedstat": "30 1 6\n", "proc/7/task/10/status": free,
		"proc/7/task/11/status": free, // it ended between the two files
	})
	if waited, others := after.Since(before); waited != 40 || others != 730 {
		t.Errorf("pinned threads waited %v, others ran %v, want 40ns and 730ns", waited, others)
	}
	if turns := read(nil); len(turns) != 0 {
		t.Errorf("%v of no process", turns)
	}
	if _, err := ReadTurns(root(t, map[string]string{"proc/7/task/7/schedstat": "much\n"}), 7); err == nil {
		t.Error("nonsense was read")
	}
}

func TestClientsAndServersDoNotShareACPU(t *testing.T) {
	for _, c := range []struct {
		allowed, shards []int
		interrupt       int
		server, client  int
	}{
		{[]int{0}, nil, 0, NoCPU, NoCPU},
		{[]int{0, 1}, []int{0}, 1, 0, 1},
		{[]int{0, 1}, nil, 0, 0, 1},
		{[]int{0, 1}, nil, NoCPU, 1, 0},
		{[]int{2, 3}, nil, 1, 3, 2},
		{[]int{0, 1}, []int{0, 1}, 0, 0, NoCPU},
	} {
		if p := Place(c.allowed, c.shards, c.interrupt); p.Server != c.server || p.Client() != c.client {
			t.Errorf("%+v: %+v", c, p)
		}
	}
}

// The test binary stands in for a broker when this variable is set.
const standIn = "MQD_TEST_STAND_IN"

func TestMain(m *testing.M) {
	switch os.Getenv(standIn) {
	case "":
		os.Exit(m.Run())
	case "serve":
		os.Exit(serve())
	default:
		fmt.Println("no broker today")
		os.Exit(3)
	}
}

// serve writes the address to the file of --ready-file and waits for a signal.
func serve() int {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT)
	i := slices.Index(os.Args, "--ready-file")
	if os.Args[1] != "serve" || i < 0 || !slices.Contains(os.Args, "--extra") {
		return 2
	}
	if err := os.WriteFile(os.Args[i+1], []byte("127.0.0.1:1234\n"), 0o644); err != nil {
		return 2
	}
	<-signals
	return 0
}

func TestABrokerIsStartedAndEndedWithItsData(t *testing.T) {
	t.Setenv(standIn, "serve")
	dir := t.TempDir()
	b, err := StartBroker(context.Background(), os.Args[0], dir, "--extra")
	if err != nil {
		t.Fatal(err)
	}
	if b.Addr != "127.0.0.1:1234" || b.PID == 0 {
		t.Errorf("%+v", b)
	}
	if err := b.Stop(); err != nil {
		t.Error(err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, error %v", left, err)
	}
}

func TestABrokerThatDoesNotStartSaysWhy(t *testing.T) {
	t.Setenv(standIn, "no")
	dir := t.TempDir()
	_, err := StartBroker(context.Background(), os.Args[0], dir)
	if !errors.Is(err, ErrStart) || strings.Count(err.Error(), "no broker today") != 1 || strings.Contains(err.Error(), "ended by itself") {
		t.Errorf("error %v", err)
	}
	if _, err = StartBroker(context.Background(), filepath.Join(dir, "missing"), dir); !errors.Is(err, ErrStart) {
		t.Errorf("error %v", err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, error %v", left, err)
	}
}

func TestAWaitForABrokerEndsWithItsContext(t *testing.T) {
	t.Setenv(standIn, "serve")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	// Without --extra it ends at once by itself: either reason will do.
	if _, err := StartBroker(ctx, os.Args[0], t.TempDir()); !errors.Is(err, ErrStart) {
		t.Errorf("error %v", err)
	}
}

func TestTheScheduleOfThisThreadIsRead(t *testing.T) {
	root := t.TempDir()
	if _, ok := ThreadSchedule(root); ok {
		t.Error("read from nothing")
	}
	dir := filepath.Join(root, "proc/thread-self")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{"1500000000 2000 77\n": true, "x 1 2\n": false, "": false} {
		if err := os.WriteFile(filepath.Join(dir, "schedstat"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		got, ok := ThreadSchedule(root)
		if ok != want || ok && got != (Scheduled{Run: 1500 * time.Millisecond, Waited: 2 * time.Microsecond}) {
			t.Errorf("%q: %+v, %v", text, got, ok)
		}
	}
}

func TestThePeakOfAProcessIsRead(t *testing.T) {
	root := t.TempDir()
	if _, err := PeakMemory(root, 7); err == nil {
		t.Error("read from nothing")
	}
	dir := filepath.Join(root, "proc/7")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]int64{"Name:\tx\nVmHWM:\t  123456 kB\nVmRSS:\t 1 kB\n": 123456 << 10, "VmRSS:\t 1 kB\n": 0, "VmHWM:\tmuch\n": 0} {
		if err := os.WriteFile(filepath.Join(dir, "status"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got, err := PeakMemory(root, 7); (err == nil) != (want > 0) || got != want {
			t.Errorf("%q: %d, error %v", text, got, err)
		}
	}
}
