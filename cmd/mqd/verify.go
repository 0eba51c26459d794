package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/mqd-broker/mqd/client"
	"github.com/mqd-broker/mqd/cmd/mqd/consent"
	"github.com/mqd-broker/mqd/cmd/mqd/settings"
	"github.com/mqd-broker/mqd/engine/aio"
	"github.com/mqd-broker/mqd/internal/quantity"
	"github.com/mqd-broker/mqd/verify"
	"github.com/mqd-broker/mqd/verify/live"
	"github.com/spf13/cobra"
)

// statusDamaged is the exit status of mqd verify when something is damaged.
const statusDamaged = 2

// verification is the verb that reads everything.
type verification struct {
	dir, topic string
	server     server
	format     formatFlag
	out, errs  io.Writer
	line       bool // the progress stands on the terminal
	failed     error
}

func newVerify() *cobra.Command {
	v := &verification{}
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Read everything that is stored and tell what is damaged",
		Long: `Read everything that is stored and tell what is damaged.

A data directory is read while no broker runs on it, and its lock is held meanwhile.
Every checksum is compared: node file, checkpoints, catalog, anchors and rounds of the
journals with their chain, and in every segment all batches, the chain of their
offsets, the regions and the entries of the index. Nothing is changed, not even what
the next start of a broker would repair. --topic reads the segments of one topic only,
and everything else as always.

What a crash leaves is no damage: a torn end of a journal, and the ends of segments
that the journals stand in for. Both are told as notes.

With --server it is a running broker that is asked: every partition is read from its log
start to what was its durable end when the verb began, every batch is checked and the
chain of offsets followed. Damage that the broker itself meets is told with its range,
and what is behind it is read too.

The output has a line for every finding and a summary. With -o jsonl, or json, every
line is an object: findings with type damage, note or unchecked, and at the end one with
type summary. Numbers that mean nothing are -1.

The exit status is 0 if nothing is damaged, 2 if something is, and 1 if it could not be
done, or not for everything and what could be read is not damaged.`,
		Example: `  mqd verify --data-dir ./data
  mqd verify --data-dir ./data --topic orders -o json
  mqd verify --server 127.0.0.1:7878`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v.out, v.errs = cmd.OutOrStdout(), cmd.ErrOrStderr()
			v.server.set = func() bool { return true }
			switch {
			case v.server.addr == "":
				return v.files()
			case v.dir != "":
				return errors.New("--server and --data-dir exclude each other")
			}
			return v.served(cmd.Context())
		},
	}
	cmd.Flags().StringVarP(&v.server.addr, "server", "s", "", "`address` of a running broker to be read, host:port")
	cmd.Flags().DurationVar(&v.server.timeout, "timeout", 10*time.Second, "longest wait for an answer of the broker")
	cmd.Flags().StringVar(&v.dir, "data-dir", "", "`directory` of all data; "+dataDirDefault())
	cmd.Flags().StringVar(&v.topic, "topic", "", "read the segments of this `topic` only")
	v.format.add(cmd, formatText, formatJSON, formatLines)
	return cmd
}

// dataDirSetting is the setting that says where the data is.
func dataDirSetting() settings.Setting {
	for _, s := range settings.Table() {
		if s.Flag == "data-dir" {
			return s
		}
	}
	return settings.Setting{}
}

func dataDirDefault() string {
	s := dataDirSetting()
	return fmt.Sprintf("without it %s, or %s", s.Env(), s.Default)
}

// dataDir is the directory that a flag, the environment or the default names.
func dataDir(flag string) string {
	s := dataDirSetting()
	for _, dir := range []string{flag, os.Getenv(s.Env()), s.Default} {
		if dir != "" {
			return filepath.Clean(dir)
		}
	}
	return "."
}

// toolDriver is a driver for verbs that read files without a shard.
func toolDriver() (aio.Driver, error) {
	p, _, err := newPlatform(settings.IOPortable, false)
	if err != nil {
		return nil, err
	}
	return p.NewDriver(0, aio.Options{ArenaBytes: 8 << 20, RecvBuffers: 1, RecvBufferBytes: aio.BlockSize, Files: 64, Helpers: 1})
}

// files reads a data directory.
func (v *verification) files() (err error) {
	dir := dataDir(v.dir)
	d, err := toolDriver()
	if err != nil {
		return err
	}
	defer closing(&err, d)
	o := verify.Options{Dir: dir, Topic: v.topic, Report: v.tell}
	if consent.Terminal(v.errs) {
		o.Progress = func(done, total int64) { v.progress(quantity.Bytes(done), quantity.Bytes(total)) }
	}
	sum, err := verify.Run(d, o)
	v.clear()
	switch {
	case errors.Is(err, verify.ErrInUse):
		return fmt.Errorf("a broker runs on %s: stop it, or read what it serves with: mqd verify --server", dir)
	case errors.Is(err, verify.ErrUnknownTopic):
		return fmt.Errorf("topic %q is not in %s", v.topic, dir)
	case errors.Is(err, verify.ErrNoDirectory):
		return fmt.Errorf("%w; name another with --data-dir", err)
	case err != nil:
		return err
	}
	return v.end(&sum, sum.Lines())
}

// served reads what a broker serves.
func (v *verification) served(ctx context.Context) error {
	s := &v.server
	if s.timeout <= 0 {
		return fmt.Errorf("--timeout is %v, expected more than 0", s.timeout)
	}
	o := live.Options{Server: s.address(), Timeout: s.timeout, ClientID: "mqd " + version, Topic: v.topic, Report: v.tell}
	if consent.Terminal(v.errs) {
		o.Progress = func(done, total int64) { v.progress(quantity.Grouped(done), quantity.Grouped(total)+" offsets") }
	}
	sum, err := live.Run(ctx, o)
	v.clear()
	switch {
	case errors.Is(err, verify.ErrUnknownTopic):
		return s.explain(&client.Error{Op: "verify", Topic: v.topic, Partition: -1, Offset: -1, Err: client.ErrUnknownTopic})
	case err != nil:
		return s.explain(err)
	}
	return v.end(&sum, sum.ServedLines())
}

// end writes the summary and makes the exit status.
func (v *verification) end(sum *verify.Summary, lines []string) error {
	if v.format.text != formatText {
		v.write(struct {
			Type string `json:"type"`
			*verify.Summary
		}{"summary", sum})
	} else {
		for _, line := range lines {
			v.write(line)
		}
	}
	switch {
	case v.failed != nil:
		return v.failed
	case sum.Damages > 0:
		return &statusError{errors.New(sum.Verdict()), statusDamaged}
	case sum.Unchecked > 0:
		return errors.New(sum.Verdict())
	}
	return nil
}

// tell writes a finding.
func (v *verification) tell(f *verify.Finding) {
	v.clear()
	if v.format.text != formatText {
		v.write(f)
		return
	}
	v.write(f.String())
}

// write writes a line of text, or a value as a line of JSON. What goes wrong is told at
// the end: nobody reads what is written then.
func (v *verification) write(what any) {
	line, ok := what.(string)
	if !ok {
		b, err := json.Marshal(what)
		if v.failed = errors.Join(v.failed, err); err != nil {
			return
		}
		line = string(b)
	}
	if v.failed == nil {
		_, v.failed = fmt.Fprintln(v.out, line)
	}
}

// progress shows on a terminal how far it is.
func (v *verification) progress(done, total string) {
	v.line = true
	// A terminal that is gone does not matter.
	_, _ = fmt.Fprintf(v.errs, "\r\x1b[K%s of %s", done, total)
}

// clear takes the progress away.
func (v *verification) clear() {
	if v.line {
		v.line = false
		_, _ = fmt.Fprint(v.errs, "\r\x1b[K")
	}
}
