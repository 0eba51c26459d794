package tuning

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mqd-broker/mqd/tuning/ethtool"
	"github.com/mqd-broker/mqd/tuning/topology"
)

// Files are those of the machine, below its root.
type Files interface {
	topology.Files
	Read(path string) ([]byte, error)
}

// Host is a machine to look at.
type Host struct {
	Files   Files
	Machine *topology.Machine
	Profile Profile
	// PID is the process whose limits count, 0 for this one.
	PID int
	// Probe makes an io_uring for real; nil where that would tell nothing.
	Probe func() error
	// Clock measures what a look at the clock costs; nil where that would tell nothing.
	Clock func() time.Duration
	// Sync tells what the kernel says of its clock; nil where that would tell nothing.
	Sync func() (TimeSync, error)
	// Coalescing asks the driver of a network card; nil where that would tell nothing.
	Coalescing func(card string) (ethtool.Coalescing, error)
}

// process is a file of the process whose limits count.
func (h *Host) process(name string) string {
	if h.PID == 0 {
		return "proc/self/" + name
	}
	return fmt.Sprintf("proc/%d/%s", h.PID, name)
}

// Catalogue are all settings, in the order in which they are changed.
func Catalogue() []Setting {
	all := append(storage(), processors()...)
	return slices.Concat(all, memoryAndNetwork(), neighbours())
}

// Finding is what a setting is at one place.
type Finding struct {
	ID      string  `json:"id"`
	At      string  `json:"at,omitempty"`
	Level   Level   `json:"level"`
	Found   string  `json:"found"`
	Want    string  `json:"want"`
	Class   Class   `json:"class"`
	Matters Matters `json:"matters"`
	Why     string  `json:"why"`
	// Fix is what a person does about it; empty when mqd tune does it, or nothing is
	// to do.
	Fix string `json:"fix,omitempty"`
	// Path is the file, below the root.
	Path string `json:"path,omitempty"`
	// Set is the value that mqd tune would write there, empty if it would not.
	Set string `json:"set,omitempty"`
}

// Name is the setting with its place.
func (f *Finding) Name() string {
	if f.At == "" {
		return f.ID
	}
	return f.ID + " " + f.At
}

// Report is what there is to say of a machine.
type Report struct {
	// Version is that of the report's form, see Schema.
	Version int               `json:"version"`
	Profile Profile           `json:"profile"`
	Machine *topology.Machine `json:"machine"`
	CPUs    topology.Choice   `json:"cpus"`
	Counts  map[Level]int     `json:"counts"`
	// Findings are in the order of the catalogue, and then advice that was followed and
	// should not have been.
	Findings []Finding `json:"findings"`
}

// ReportVersion is the version of reports.
const ReportVersion = 1

// Check compares a machine with the catalogue.
func Check(h *Host) *Report {
	r := &Report{Version: ReportVersion, Profile: h.Profile, Machine: h.Machine, CPUs: topology.Choose(h.Machine), Counts: map[Level]int{}, Findings: []Finding{}}
	for _, l := range Levels {
		r.Counts[l] = 0
	}
	for _, s := range Catalogue() {
		if !s.holds(h.Profile) {
			continue
		}
		for _, reading := range s.look(h) {
			r.add(s.finding(reading))
		}
	}
	for _, a := range Refused() {
		if a.look == nil {
			continue
		}
		s := Setting{ID: a.ID, Class: HostWide, Matters: Nothing, Level: Note, Why: a.Why, Fix: "take it back to the kernel's default, unless another program wants it"}
		for _, reading := range a.look(h) {
			r.add(s.finding(reading))
		}
	}
	return r
}

func (r *Report) add(f Finding) {
	r.Findings = append(r.Findings, f)
	r.Counts[f.Level]++
}

// holds reports whether the setting is one of a kind of machine.
func (s *Setting) holds(p Profile) bool {
	for _, on := range s.On {
		if on == p {
			return true
		}
	}
	return len(s.On) == 0
}

func (s *Setting) finding(r reading) Finding {
	f := Finding{
		ID: s.ID, At: r.at, Level: OK, Found: strings.Join(strings.Fields(r.found), " "), Want: r.want.text,
		Class: s.Class, Matters: s.Matters, Why: s.Why, Path: r.path,
	}
	if r.want.ok(f.Found) {
		return f
	}
	if f.Level = s.Level; r.level != "" {
		f.Level = r.level
	}
	if r.want.set != "" && (s.Class == Safe || s.Class == HostWide) {
		f.Set = r.want.set
	} else {
		f.Fix = s.Fix
	}
	return f
}

// Worst is the worst level found.
func (r *Report) Worst() Level {
	worst := OK
	for _, l := range Levels {
		if r.Counts[l] > 0 {
			worst = l
		}
	}
	return worst
}

// clockLooks is how often the clock is looked at to measure that.
const clockLooks = 20_000

// MeasureClock is what a look at the monotonic clock costs: the best of several series,
// because a disturbance only makes one longer.
func MeasureClock() time.Duration {
	const series = 5
	best := time.Duration(1<<63 - 1)
	for range series {
		began := time.Now()
		for range clockLooks {
			_ = time.Since(began)
		}
		best = min(best, time.Since(began)/clockLooks)
	}
	return best
}
