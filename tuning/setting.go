package tuning

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mqd-broker/mqd/tuning/topology"
	"github.com/mqd-broker/mqd/tuning/undo"
)

// Class says what a change would do.
type Class string

// Classes, from harmless to harmful.
const (
	// Safe changes are noticed by no other program, but for the power that they cost.
	Safe Class = "safe"
	// HostWide changes are felt by other programs on the machine.
	HostWide Class = "host"
	// Manual is what a person does: limits of a unit, other programs, hardware. It is told
	// and never made.
	Manual Class = "manual"
	// Reboot needs another kernel, or parameters of it. It is told and never made.
	Reboot Class = "reboot"
	// Unsafe may lose what was acknowledged, hang the machine, or weaken its security.
	// It is reported and never made.
	Unsafe Class = "unsafe"
)

// Matters says how much a setting means for O_DIRECT, io_uring and TCP.
type Matters string

// Degrees.
const (
	Much    Matters = "yes"
	Little  Matters = "little"
	Nothing Matters = "no"
)

// Level is how bad a finding is.
type Level string

// Levels.
const (
	OK Level = "ok"
	// Note is worth knowing, and nothing is wrong.
	Note Level = "note"
	// Warning costs latency.
	Warning Level = "warning"
	// Critical makes the broker fail, or what it acknowledges unsafe.
	Critical Level = "critical"
)

// Levels are all levels, the best first.
var Levels = []Level{OK, Note, Warning, Critical}

// Profile is a kind of machine.
type Profile string

// Profiles.
const (
	Laptop   Profile = "laptop"
	VM       Profile = "vm"
	Metal    Profile = "metal"
	Isolated Profile = "metal-isolated"
)

// Profiles are all profiles.
var Profiles = []Profile{Laptop, VM, Metal, Isolated}

// Detect is the profile that a machine looks like.
func Detect(m *topology.Machine) Profile {
	switch {
	case m.Hypervisor:
		return VM
	case m.Battery:
		return Laptop
	case len(m.Isolated) > 0:
		return Isolated
	}
	return Metal
}

// Setting is a row of the catalogue.
type Setting struct {
	ID      string
	Class   Class
	Matters Matters
	// Level is that of a finding which is not as wanted.
	Level Level
	// On are the profiles that have it; none is all.
	On []Profile
	// Why says what the wanted value does for the broker.
	Why string
	// Fix is what a person does about it, where mqd tune does nothing.
	Fix string

	look func(h *Host) []reading
}

// reading is what a setting is at one place.
type reading struct {
	at    string // the device or the like; "" where there is one only
	path  string // of the file, "" if it is in none
	found string
	want  want
	level Level // other than the setting's
}

// want is a wanted value.
type want struct {
	text string // for a person
	set  string // what is written to have it; "" is nothing
	ok   func(found string) bool
}

// is wants one value.
func is(value string) want {
	return want{value, value, func(found string) bool { return strings.Join(strings.Fields(found), " ") == value }}
}

// among wants one of some values, and sets the first.
func among(values ...string) want {
	return want{strings.Join(values, " or "), values[0], func(found string) bool { return slices.Contains(values, found) }}
}

// atLeast wants a number.
func atLeast(n int64) want {
	return want{fmt.Sprintf("at least %d", n), strconv.FormatInt(n, 10), func(found string) bool {
		have, err := strconv.ParseInt(found, 10, 64)
		return err == nil && have >= n
	}}
}

// atMost wants a number.
func atMost(n int64) want {
	return want{fmt.Sprintf("at most %d", n), strconv.FormatInt(n, 10), func(found string) bool {
		have, err := strconv.ParseInt(found, 10, 64)
		return err == nil && have <= n
	}}
}

// reported is w, but nothing is written to have it.
func (w want) reported() want { w.set = ""; return w }

// judged wants what a condition says.
func judged(text string, ok bool) want {
	return want{text, "", func(string) bool { return ok }}
}

// file reads a file of the kernel. One that is not there is no reading: the machine, or
// its kernel, has no such setting.
func file(path string, w want) func(h *Host) []reading {
	return func(h *Host) []reading { return h.read("", path, w) }
}

// read is a reading of a file.
func (h *Host) read(at, path string, w want) []reading {
	if !h.Files.Exists(path) {
		return nil
	}
	return []reading{{at: at, path: path, found: undo.Chosen(h.Files.Text(path)), want: w}}
}

// queue reads a file of the queue of each drive that the data is on.
func queue(name string, w func(h *Host, d topology.Drive) want) func(h *Host) []reading {
	return func(h *Host) []reading {
		var all []reading
		for _, d := range h.Machine.DataDrives() {
			if real, err := h.Files.Resolve("sys/block/" + d.Name); err == nil {
				all = append(all, h.read(d.Name, real+"/queue/"+name, w(h, d))...)
			}
		}
		return all
	}
}

// always wants the same of every drive.
func always(w want) func(*Host, topology.Drive) want {
	return func(*Host, topology.Drive) want { return w }
}

// number is a file's, or other if it has none.
func (h *Host) number(path string, other int64) int64 {
	n, err := strconv.ParseInt(h.Files.Text(path), 10, 64)
	if err != nil {
		return other
	}
	return n
}
