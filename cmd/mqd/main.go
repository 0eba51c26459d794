// Command mqd is the broker and everything to work with it: one file per verb.
//
// It is the only place that picks an I/O driver.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/mqd-broker/mqd/cmd/mqd/adminclient"
	"github.com/mqd-broker/mqd/cmd/mqd/benching"
	"github.com/mqd-broker/mqd/cmd/mqd/bundler"
	"github.com/mqd-broker/mqd/cmd/mqd/consent"
	"github.com/mqd-broker/mqd/cmd/mqd/groups"
	"github.com/mqd-broker/mqd/cmd/mqd/salvager"
	"github.com/mqd-broker/mqd/cmd/mqd/top"
	"github.com/mqd-broker/mqd/cmd/mqd/tuner"
	"github.com/spf13/cobra"
)

// version is set by the build with -X main.version.
var version = "unknown"

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// statusError is an error with an exit status of its own.
type statusError struct {
	error
	status int
}

// ExitStatus is the status.
func (e *statusError) ExitStatus() int { return e.status }

// run carries out a command line and returns the exit status: 0, 1, or that that
// the error says.
func run(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	root := newRoot()
	if len(args) > 0 && args[0] == "--version" {
		args = append([]string{"version"}, args[1:]...)
	}
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errs)
	var m mistakes
	m.watch(root)
	err := root.ExecuteContext(ctx)
	if err == nil {
		err = m.err
	}
	if err == nil {
		return 0
	}
	for line := range strings.Lines(strings.TrimSpace(err.Error())) {
		// The client's errors name the program too, wherever they stand in a line.
		line = strings.ReplaceAll(": "+strings.TrimSpace(line), ": mqd: ", ": ")
		fmt.Fprintln(errs, "mqd"+line)
	}
	if e := (interface{ ExitStatus() int })(nil); errors.As(err, &e) {
		return e.ExitStatus()
	}
	return 1
}

// hostNeeds are what looks at the host has of the program.
func hostNeeds() tuner.Needs {
	return tuner.Needs{Form: addForm, DataDir: dataDir, DirDefault: dataDirDefault(), Probe: probeRing, Sync: timeSync, Version: version}
}

// newRoot makes the command with all its verbs.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "mqd",
		Short: "A durable message broker with microsecond latency",
		Long: `mqd is a message broker for many small messages that have to be durable and
delivered in microseconds. This program is the broker (mqd serve) and the tools to
work with it.`,
		Example: `  mqd serve --data-dir ./data
  mqd topic create orders --partitions 4
  echo hello | mqd produce orders
  mqd consume orders`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	host := hostNeeds()
	root.Flags().Bool("version", false, "the same as mqd version")
	root.AddCommand(
		benching.New(benching.Needs{Platform: benchPlatform, Revision: revision, Reach: reach, Check: benchCheck}),
		newServe(), newConfig(), adminclient.New(addForm),
		newTopic(), newProduce(), newConsume(),
		groups.New(func(cmd *cobra.Command) groups.Broker {
			s := addServer(cmd)
			return groups.Broker{With: s.With, Topics: s.topicNames}
		}, addForm),
		newVerify(), salvager.New(salvager.Needs{Driver: toolDriver, DataDir: dataDir, DirDefault: dataDirDefault(), Form: addForm}), newInspect(),
		top.New(func(w io.Writer) bool { return consent.Terminal(w) }), tuner.NewCheck(host), tuner.NewTune(host),
		bundler.New(bundler.Needs{Resolve: resolve, Build: buildJSON, Host: host}), newGenerate(), newVersion(),
	)
	arrange(root)
	return root
}

// parts are the parts of the help, in its order, with the verbs of each.
var parts = []struct{ title, verbs string }{
	{"The broker and its messages", "serve topic produce consume group config"},
	{"Watching it, and the machine below it", "admin top check tune bench generate"},
	{"When something is wrong", "debug inspect verify salvage"},
}

// arrange puts the verbs into parts, so that whoever has never seen them finds the first
// one to try.
func arrange(root *cobra.Command) {
	for _, part := range parts {
		root.AddGroup(&cobra.Group{ID: part.title, Title: part.title + ":"})
		for _, c := range root.Commands() {
			if slices.Contains(strings.Fields(part.verbs), c.Name()) {
				c.GroupID = part.title
			}
		}
	}
}
