package main

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/mqd-broker/mqd/cmd/mqd/settings"
	"github.com/mqd-broker/mqd/cmd/mqd/tuner"
	"github.com/mqd-broker/mqd/node"
	"github.com/mqd-broker/mqd/tuning"
	"github.com/spf13/cobra"
)

// driverState says whether a driver would work on this machine.
type driverState struct {
	Name  string `json:"name"`
	State string `json:"state"` // "available", or why not
}

// build is what mqd version tells.
type build struct {
	Version string        `json:"version"`
	Commit  string        `json:"commit,omitempty"`
	Go      string        `json:"go"`
	Target  string        `json:"target"`
	Kernel  string        `json:"kernel"`
	Drivers []driverState `json:"drivers"`
}

func newVersion() *cobra.Command {
	format := formatFlag{}
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print version, commit, Go, kernel and the state of I/O drivers",
		Example: `  mqd version
  mqd version -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b := readBuild()
			if format.text == formatJSON {
				return printJSON(cmd.OutOrStdout(), b)
			}
			return printTable(cmd.OutOrStdout(), b.print)
		},
	}
	format.add(cmd, formatTable, formatJSON)
	return cmd
}

func readBuild() build {
	b := build{
		Version: version, Go: runtime.Version(), Target: runtime.GOOS + "/" + runtime.GOARCH,
		Kernel: kernel(), Drivers: driverStates(),
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				b.Commit = s.Value + b.Commit
			case s.Key == "vcs.modified" && s.Value == "true":
				b.Commit += " (modified)"
			}
		}
	}
	return b
}

// buildJSON is what mqd version prints as JSON.
func buildJSON() ([]byte, error) {
	var out bytes.Buffer
	err := printJSON(&out, readBuild())
	return out.Bytes(), err
}

func (b build) print(w io.Writer) {
	fmt.Fprintf(w, "version\t%s\n", b.Version)
	if b.Commit != "" {
		fmt.Fprintf(w, "commit\t%s\n", b.Commit)
	}
	fmt.Fprintf(w, "go\t%s %s\nkernel\t%s\n", b.Go, b.Target, b.Kernel)
	for _, d := range b.Drivers {
		fmt.Fprintf(w, "driver\t%s: %s\n", d.Name, d.State)
	}
}

// revision names the program in reports: the build's version, or what Go knows of it.
func revision() string {
	if b := readBuild(); b.Version == "unknown" && b.Commit != "" {
		return b.Commit
	}
	return version
}

// benchCheck is what mqd check says of this machine.
func benchCheck(dir string, pid int) (*tuning.Report, error) {
	return tuner.Look(hostNeeds(), dir, pid, nil)
}

// benchPlatform is the driver that a broker would have.
func benchPlatform() (node.Platform, error) {
	p, _, err := newPlatform(settings.Auto, false)
	return p, err
}
