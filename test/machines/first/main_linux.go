// Command first is the first process of a virtual machine: it makes the machine ready,
// writes what mqd check and mqd tune read of it to the console, tries what mqd tune
// changes, and turns the machine off. See the README beside it.
package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mqd-broker/mqd/tuning"
	"github.com/mqd-broker/mqd/tuning/capture"
	"github.com/mqd-broker/mqd/tuning/topology"
	"github.com/mqd-broker/mqd/tuning/tree"
	"github.com/mqd-broker/mqd/tuning/undo"
	"golang.org/x/sys/unix"
)

// The environment has, from the kernel's command line:
//
//	LINEAR=NAME:DEVICE,... mappings of whole devices
//	DATA=DEVICE:FS:DIR,... what is mounted where
//
// A device is a name in /dev, or @ and parts of the path of a disk in /sys with + between
// them, as @/ata or @80+n2: names of disks depend on who is found first. A
// partition is one too.
const patience = 60 * time.Second

func main() {
	if err := run(); err != nil {
		fmt.Println("FAILED:", err)
	}
	fmt.Println("END")
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

func run() error {
	if err := system(); err != nil {
		return err
	}
	if err := modules(); err != nil {
		return err
	}
	if err := interfaces(); err != nil {
		return err
	}
	for _, m := range fields("LINEAR") {
		name, device, _ := strings.Cut(m, ":")
		at, err := await(device)
		if err == nil {
			err = linear(name, at)
		}
		if err != nil {
			return fmt.Errorf("mapping %s: %w", name, err)
		}
	}
	var dirs []string
	for _, d := range fields("DATA") {
		part := strings.Split(d, ":")
		if len(part) != 3 {
			return fmt.Errorf("DATA has %q", d)
		}
		at, err := await(part[0])
		if err == nil {
			err = mount(at, part[2], part[1])
		}
		if err != nil {
			return err
		}
		dirs = append(dirs, part[2])
	}
	machine := tree.New("/")
	var archive bytes.Buffer
	if err := capture.Write(&archive, capture.Take(machine, dirs, "")); err != nil {
		return err
	}
	text := base64.StdEncoding.EncodeToString(archive.Bytes())
	for chunk := range slices.Chunk([]byte(text), 76) {
		fmt.Printf("ARCHIVE %s\n", chunk)
	}
	for _, dir := range dirs {
		tune(machine, dir)
	}
	return nil
}

// tune changes what is not as wanted, as every kind of machine, and takes it back. What
// the kernel thinks of it stands on the console.
func tune(m *tree.Tree, dir string) {
	for _, p := range []tuning.Profile{tuning.VM, tuning.Isolated} {
		parts := topology.Read(m, dir)
		look := func() *tuning.Report {
			return tuning.Check(&tuning.Host{Files: m, Machine: parts, Profile: p})
		}
		changes, err := tuning.Plan(m, tuning.Selected(look(), true), true)
		r := &undo.Record{Began: time.Now(), Changes: changes}
		if err == nil {
			err = undo.Apply(m, r)
		}
		fmt.Printf("TUNE %s %s: %d changes, refused: %v\n", dir, p, len(changes), err)
		for _, f := range tuning.Selected(look(), true) {
			fmt.Printf("TUNE %s %s: %s is still %s, not %s\n", dir, p, f.Name(), f.Found, f.Set)
		}
		err = undo.Revert(m, r, false)
		fmt.Printf("TUNE %s %s: reverted: %v\n", dir, p, err)
		for _, c := range r.Changes {
			if state, err := c.State(m); state != undo.Back {
				fmt.Printf("TUNE %s %s: %s is %s: %v\n", dir, p, c.ID, state, err)
			}
		}
	}
}

func fields(name string) []string {
	return strings.FieldsFunc(os.Getenv(name), func(r rune) bool { return r == ',' })
}

// system mounts what every machine has.
func system() error {
	for _, m := range [][2]string{{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}, {"cgroup2", "/sys/fs/cgroup"}} {
		if err := mount(m[0], m[1], m[0]); err != nil {
			return err
		}
	}
	for _, dir := range []string{"/etc/sysctl.d", "/etc/udev/rules.d", "/etc/tmpfiles.d", "/var/lib"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	return nil
}

func mount(device, dir, filesystem string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(device, dir, filesystem, 0, ""); err != nil {
		return fmt.Errorf("mount %s at %s: %w", device, dir, err)
	}
	return nil
}

// modules loads those that were given, in the order of their names. One that finds no
// hardware is none.
func modules() error {
	all, err := filepath.Glob("/modules/*.ko")
	if err != nil {
		return err
	}
	slices.Sort(all)
	for _, name := range all {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		if err := unix.FinitModule(int(f.Fd()), "", 0); err != nil {
			fmt.Printf("%s: %v\n", name, err)
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}

// await waits for a device, since drivers look for them in the background, and is the file
// that it has.
func await(device string) (string, error) {
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		if at := find(device); at != "" {
			return at, nil
		}
		if time.Now().After(end) {
			all, _ := filepath.Glob("/sys/block/*") // for who reads the error
			for i, at := range all {
				all[i], _ = os.Readlink(at)
			}
			return "", fmt.Errorf("there is no device %s, but %q", device, all)
		}
	}
}

// find is a device's file, "" if there is none.
func find(device string) string {
	parts, search := strings.CutPrefix(device, "@")
	if !search {
		if _, err := os.Stat("/dev/" + device); err != nil {
			return ""
		}
		return "/dev/" + device
	}
	all, err := filepath.Glob("/sys/class/block/*")
	if err != nil {
		return ""
	}
	for _, at := range all {
		real, err := filepath.EvalSymlinks(at)
		other := func(part string) bool { return !strings.Contains(real, part) }
		if err == nil && !slices.ContainsFunc(strings.Split(parts, "+"), other) && !strings.Contains(real, "/sr") {
			return "/dev/" + filepath.Base(real)
		}
	}
	return ""
}

// interfaces turns network interfaces on, and waits until they have a carrier.
func interfaces() error {
	all, err := filepath.Glob("/sys/class/net/*/device")
	if err != nil {
		return err
	}
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	end := time.Now().Add(patience)
	for _, device := range all {
		name := filepath.Base(filepath.Dir(device))
		request, err := unix.NewIfreq(name)
		if err != nil {
			return err
		}
		request.SetUint16(unix.IFF_UP)
		if err := unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, request); err != nil {
			return fmt.Errorf("%s up: %w", name, err)
		}
		for {
			state, err := os.ReadFile("/sys/class/net/" + name + "/operstate")
			if err != nil {
				return err
			}
			if strings.TrimSpace(string(state)) == "up" {
				break
			}
			if time.Now().After(end) {
				fmt.Printf("%s is %s", name, state)
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	return unix.Close(socket)
}
