package tuning

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/mqd-broker/mqd/tuning/undo"
)

// Files that make kernel values permanent.
const (
	SysctlFile = "etc/sysctl.d/90-mqd.conf"
	UdevFile   = "etc/udev/rules.d/90-mqd.rules"
	TmpFile    = "etc/tmpfiles.d/90-mqd.conf"
)

// banner is the first line of each of them.
const banner = "# Written by mqd tune apply --persist; mqd tune revert takes it away."

// ErrDirectory: what reads a file at boot is not on this machine.
var ErrDirectory = errors.New("tuning: the values cannot be made permanent")

// Selected are the findings that mqd tune would change: those of class safe and, if
// hostWide is set, of class host.
func Selected(r *Report, hostWide bool) []Finding {
	var all []Finding
	for _, f := range r.Findings {
		if f.Set != "" && (f.Class == Safe || hostWide && f.Class == HostWide) {
			all = append(all, f)
		}
	}
	return all
}

// Plan makes changes of findings. With persist it adds the files that make them last
// over a boot, each in the form of whom reads it: sysctl.d for /proc/sys, rules of udev
// for devices, which may come later than the boot, and tmpfiles.d for the rest of /sys.
func Plan(f Files, findings []Finding, persist bool) ([]undo.Change, error) {
	var changes []undo.Change
	lines := map[string][]string{}
	for _, found := range findings {
		changes = append(changes, undo.Change{ID: found.Name(), Kind: undo.Kernel, Path: found.Path, New: found.Set})
		file, line := Permanent(found.Path, found.Set)
		lines[file] = append(lines[file], line)
	}
	if !persist {
		return changes, nil
	}
	for _, file := range []string{SysctlFile, UdevFile, TmpFile} {
		if len(lines[file]) == 0 {
			continue
		}
		if !f.Exists(path.Dir(file)) {
			return nil, fmt.Errorf("%w: there is no directory /%s", ErrDirectory, path.Dir(file))
		}
		before, err := f.Read(file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		changes = append(changes, undo.Change{ID: "persist", Kind: undo.File, Path: file, New: merge(string(before), lines[file])})
	}
	return changes, nil
}

var (
	// pciAddress is that of a device on the bus: it stays when names of drives change.
	pciAddress = regexp.MustCompile(`^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)
	// ofQueue and ofController take apart paths of devices with rules of their own.
	ofQueue      = regexp.MustCompile(`^(sys/devices/.*)/block/[^/]+/(queue/[a-z_]+)$|^(sys/devices/.*)/nvme[0-9]+n[0-9]+/(queue/[a-z_]+)$`)
	ofController = regexp.MustCompile(`^(sys/devices/.*)/nvme/nvme[0-9]+/(power/[a-z_]+)$`)
)

// Permanent is the line that makes a kernel value last, and the file that it is in.
func Permanent(at, value string) (file, line string) {
	if key, ok := strings.CutPrefix(at, "proc/sys/"); ok {
		return SysctlFile, key + " = " + value
	}
	rule := func(dir, subsystem, kind, attr string) string {
		match := ""
		for name := range strings.SplitSeq(dir, "/") {
			if pciAddress.MatchString(name) {
				match = name // the last one is the device's own
			}
		}
		if match == "" {
			return ""
		}
		return fmt.Sprintf(`ACTION=="add|change", SUBSYSTEM=="%s", %sKERNELS=="%s", ATTR{%s}="%s"`, subsystem, kind, match, attr, value)
	}
	if m := ofQueue.FindStringSubmatch(at); m != nil {
		line = rule(m[1]+m[3], "block", `ENV{DEVTYPE}=="disk", `, m[2]+m[4])
	} else if m := ofController.FindStringSubmatch(at); m != nil {
		line = rule(m[1], "nvme", "", m[2])
	}
	if line != "" {
		return UdevFile, line
	}
	return TmpFile, fmt.Sprintf("w /%s - - - - %s", at, value)
}

// key is a line without its value: two lines with one key are about one thing.
func key(line string) string {
	if i := strings.LastIndexAny(line, "= "); i > 0 && !strings.HasPrefix(line, "#") {
		return strings.TrimSpace(line[:i])
	}
	return line
}

// merge adds lines to those that an earlier apply has written.
func merge(before string, lines []string) string {
	all := []string{banner}
	for line := range strings.Lines(before) {
		line = strings.TrimRight(line, "\n")
		if line != banner && !slices.ContainsFunc(lines, func(l string) bool { return key(l) == key(line) }) {
			all = append(all, line)
		}
	}
	return strings.Join(append(all, lines...), "\n") + "\n"
}
