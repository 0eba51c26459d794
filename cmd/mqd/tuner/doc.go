// Package tuner has the verbs that look at the host and change it: mqd check and
// mqd tune.
package tuner

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mqd-broker/mqd/tuning"
	"github.com/mqd-broker/mqd/tuning/ethtool"
	"github.com/mqd-broker/mqd/tuning/topology"
	"github.com/mqd-broker/mqd/tuning/tree"
	"github.com/mqd-broker/mqd/tuning/undo"
	"github.com/spf13/cobra"
)

// Needs are what the verbs have of the program.
type Needs struct {
	// Form gives a command the flag -o with the forms that it has, and returns what
	// tells the chosen one.
	Form func(cmd *cobra.Command, forms ...string) func() string
	// DataDir is the data directory, with what a flag says, and DirDefault says in
	// words what it is without.
	DataDir    func(flag string) string
	DirDefault string
	// Probe makes an io_uring for real.
	Probe func() error
	// Sync tells what the kernel says of its clock; nil is not known.
	Sync func() (tuning.TimeSync, error)
	// Version is the program's.
	Version string
}

// automatic is the profile that the machine looks like.
const automatic = "auto"

// machine is what is looked at and changed.
type machine interface {
	tuning.Files
	undo.Files
}

// subject is the machine that flags name.
type subject struct {
	needs   Needs
	root    string
	dir     string
	profile string
	pid     int

	open func(root string) machine
	// see, if there is one, stands between the check and the machine's files.
	see func(tuning.Files) tuning.Files
}

func newSubject(n Needs) *subject {
	return &subject{needs: n, open: func(root string) machine { return tree.New(root) }}
}

// addRoot gives cmd the flag for the root.
func (s *subject) addRoot(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.root, "root", "/", "`directory` with the machine's proc, sys, etc and var")
}

// addLook gives cmd the flags of what looks at a machine.
func (s *subject) addLook(cmd *cobra.Command) {
	s.addRoot(cmd)
	cmd.Flags().StringVar(&s.dir, "data-dir", "", "`directory` of all data; "+s.needs.DirDefault)
	cmd.Flags().StringVar(&s.profile, "profile", automatic, "kind of machine: auto, laptop, vm, metal, metal-isolated (a `word`)")
	cmd.Flags().IntVar(&s.pid, "pid", 0, "look at the limits of the process with this `number`, as a running broker's, instead of this one's")
}

// machine opens it.
func (s *subject) machine() (machine, error) {
	m := s.open(s.root)
	if !m.Exists("proc/sys/kernel/osrelease") {
		return nil, fmt.Errorf("%s has no files of a Linux kernel (proc/sys)", s.root)
	}
	return m, nil
}

// look checks the machine.
func (s *subject) look() (machine, *tuning.Report, error) {
	profile := tuning.Profile(s.profile)
	if s.profile != automatic && !slices.Contains(tuning.Profiles, profile) {
		return nil, nil, fmt.Errorf("--profile is %q, expected auto, laptop, vm, metal or metal-isolated", s.profile)
	}
	if s.pid < 0 {
		return nil, nil, fmt.Errorf("--pid is %d, expected the number of a process", s.pid)
	}
	dir, err := filepath.Abs(s.needs.DataDir(s.dir))
	if err != nil {
		return nil, nil, err
	}
	m, err := s.machine()
	if err != nil {
		return nil, nil, err
	}
	if s.pid != 0 && !m.Exists(fmt.Sprintf("proc/%d/limits", s.pid)) {
		return nil, nil, fmt.Errorf("there is no process %d (--pid)", s.pid)
	}
	var files tuning.Files = m
	if s.see != nil {
		files = s.see(m)
	}
	h := &tuning.Host{Files: files, Machine: topology.Read(files, dir), Profile: profile, PID: s.pid}
	if s.profile == automatic {
		h.Profile = tuning.Detect(h.Machine)
	}
	if filepath.Clean(s.root) == "/" { // what is measured is this machine
		h.Probe, h.Clock, h.Sync, h.Coalescing = s.needs.Probe, tuning.MeasureClock, s.needs.Sync, ethtool.Ask
	}
	return m, tuning.Check(h), nil
}

// Look checks this machine, for verbs that tell of it beside other things: with a data
// directory, and with the limits of a process, 0 for this one. What the check reads goes
// through see, if that is not nil.
func Look(n Needs, dir string, pid int, see func(tuning.Files) tuning.Files) (*tuning.Report, error) {
	s := newSubject(n)
	s.root, s.dir, s.profile, s.pid, s.see = "/", dir, automatic, pid, see
	_, r, err := s.look()
	return r, err
}

// statusError is an error with an exit status of its own.
type statusError struct {
	text   string
	status int
}

func (e *statusError) Error() string { return e.text }

// ExitStatus is the program's.
func (e *statusError) ExitStatus() int { return e.status }

// explain says what to do about a failure to change something.
func explain(err error) error {
	switch {
	case errors.Is(err, tree.ErrLocked):
		return errors.New("another mqd tune is at work on this machine; try again when it has ended")
	case err != nil && strings.Contains(err.Error(), "permission denied"):
		return fmt.Errorf("%w; this needs root", err)
	}
	return err
}
