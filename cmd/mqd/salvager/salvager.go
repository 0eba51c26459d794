// Package salvager is the verb mqd salvage.
package salvager

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/mqd-broker/mqd/broker/catalog"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/engine/checkpoint"
	"github.com/mqd-broker/mqd/engine/journal"
	"github.com/mqd-broker/mqd/internal/quantity"
	"github.com/mqd-broker/mqd/salvage"
	"github.com/spf13/cobra"
)

// statusLost is the exit status when something is lost and has not been given up.
const statusLost = 2

const formText = "text"

// Needs is what the verb has from the program.
type Needs struct {
	// Driver makes a driver for tools.
	Driver func() (aio.Driver, error)
	// DataDir is the data directory that a flag names, or the default one.
	DataDir func(flag string) string
	// DirDefault says in a phrase what stands for a flag that is not given.
	DirDefault string
	// Form gives a command the flag for the form of the output.
	Form func(cmd *cobra.Command, forms ...string) func() string
}

// verb is the verb and its flags.
type verb struct {
	needs     Needs
	form      func() string
	dir       string
	topic     string
	partition int64
	dry, yes  bool
	out       io.Writer
	failed    error
}

// New makes the verb.
func New(n Needs) *cobra.Command {
	v := &verb{needs: n}
	cmd := &cobra.Command{
		Use:   "salvage",
		Short: "Give up what cannot be read any more",
		Long: `Give up what cannot be read any more, in a data directory on which no broker runs.

A broker gives nothing up by itself: a fetch of damaged messages is answered with an
error, at every start again. This verb tells which messages are lost, offset by offset.
With --yes it also accepts that: the lost offsets are recorded as a gap, which consumers
pass over, and a damaged log is replaced by a copy without what cannot be read. No other
message is touched, and no offset changes. The damaged log stays beside the new one with
.orphan at the end of its name; remove it when nobody needs it any more.

First try what may bring the bytes back: another copy, or the device once more. What has
been given up stays so. A salvage that was interrupted is run again.

A journal that is missing behind a crash, without which no broker starts, is given up as a
whole, with every message that was in it alone; so bring it back if you can. For each
partition of its shard a line tells up to which offset everything is there, and where it
goes on at the next start: so far above that no offset is given out twice. With shard 0 it
may have held changes of the catalog: topics created since are then gone, topics deleted
since are back. It concerns all topics, so that --topic leaves it alone.

Not salvaged is the catalog's log, and, unless the broker was stopped in order, the end of
a partition's newest segment, which the journals may mend, and what only the journals
know. Such things are told, with what to do about them.

The output has a line for every finding and a summary. With -o jsonl, or json, every
line is an object: findings with type lost, rewrite, journal or left, and at the end one
with type summary.

The exit status is 0 if nothing is lost any more, 2 if something is that has not been
given up or that could not be looked at, and 1 if it could not be done.`,
		Example: `  mqd salvage --data-dir ./data
  mqd salvage --data-dir ./data --topic orders --partition 3 --yes`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v.out = cmd.OutOrStdout()
			return v.run()
		},
	}
	cmd.Flags().StringVar(&v.dir, "data-dir", "", "`directory` of all data; "+n.DirDefault)
	cmd.Flags().StringVar(&v.topic, "topic", "", "look at this `topic` only")
	cmd.Flags().Int64Var(&v.partition, "partition", salvage.AllPartitions, "look at this `partition` only, with --topic; -1 is all")
	cmd.Flags().BoolVar(&v.dry, "dry-run", false, "tell what is lost and change nothing; so it is without --yes too")
	cmd.Flags().BoolVar(&v.yes, "yes", false, "give up what is lost")
	v.form = n.Form(cmd, formText, "json", "jsonl")
	return cmd
}

func (v *verb) run() (err error) {
	switch {
	case v.yes && v.dry:
		return errors.New("--yes and --dry-run exclude each other")
	case v.partition < salvage.AllPartitions:
		return fmt.Errorf("--partition is %d, expected a partition or -1", v.partition)
	case v.partition >= 0 && v.topic == "":
		return errors.New("--partition needs --topic")
	}
	dir := v.needs.DataDir(v.dir)
	d, err := v.needs.Driver()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	sum, err := salvage.Run(d, salvage.Options{Dir: dir, Topic: v.topic, Partition: v.partition, Accept: v.yes, Report: v.tell})
	switch {
	case errors.Is(err, salvage.ErrInUse):
		return fmt.Errorf("a broker runs on %s: stop it first", dir)
	case errors.Is(err, salvage.ErrUnknownTopic):
		return fmt.Errorf("topic %q is not in %s", v.topic, dir)
	case errors.Is(err, salvage.ErrUnknownPartition):
		return fmt.Errorf("nothing of partition %d of topic %q is in %s", v.partition, v.topic, dir)
	case errors.Is(err, checkpoint.ErrUnsupported), errors.Is(err, journal.ErrVersion), errors.Is(err, catalog.ErrUnsupported):
		return fmt.Errorf("%s was written by a newer version of mqd; salvage it with that version, this one has changed nothing: %v", dir, oneLine(err))
	case errors.Is(err, salvage.ErrNoDirectory):
		return fmt.Errorf("%w; name another with --data-dir", err)
	case err != nil: // both generations of a checkpoint may have a reason
		return errors.New(oneLine(err))
	}
	return v.end(&sum)
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// tell writes a finding.
func (v *verb) tell(n *salvage.Note) {
	if v.form() != formText {
		v.object(n)
		return
	}
	v.line(n.Line(v.yes))
}

// end writes the summary and makes the exit status.
func (v *verb) end(s *salvage.Summary) error {
	if v.form() != formText {
		v.object(struct {
			Type string `json:"type"`
			*salvage.Summary
		}{"summary", s})
	} else {
		v.line(fmt.Sprintf("looked at: %s with %s", quantity.Of(s.Partitions, "partition", "partitions"), quantity.Of(s.Segments, "segment", "segments")))
		v.line(s.Verdict())
	}
	switch {
	case v.failed != nil:
		return v.failed
	case s.Left > 0, s.Losses+s.Rewrites+s.Journals > 0 && !s.Accepted:
		return lossError{s.Verdict()}
	}
	return nil
}

// lossError is the end of a run behind which something is lost.
type lossError struct{ text string }

func (e lossError) Error() string { return e.text }

// ExitStatus is the status.
func (lossError) ExitStatus() int { return statusLost }

func (v *verb) object(what any) {
	b, err := json.Marshal(what)
	if v.failed = errors.Join(v.failed, err); err == nil {
		v.line(string(b))
	}
}

// line writes a line. What goes wrong is told at the end.
func (v *verb) line(text string) {
	if v.failed == nil {
		_, v.failed = fmt.Fprintln(v.out, text)
	}
}
