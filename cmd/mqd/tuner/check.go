package tuner

import (
	"fmt"
	"slices"

	"github.com/mqd-broker/mqd/tuning"
	"github.com/spf13/cobra"
)

// Forms of output.
const (
	formTable  = "table"
	formJSON   = "json"
	formNagios = "nagios"
	formProm   = "prom"
)

// Exit statuses of mqd check, and those of a plugin of Nagios.
const (
	statusOff      = 2
	nagiosWarning  = 1
	nagiosCritical = 2
	nagiosUnknown  = 3
)

// NewCheck makes the verb check.
func NewCheck(n Needs) *cobra.Command {
	s := newSubject(n)
	var form func() string
	var failOn string
	var all bool
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Tell what on this host costs latency or safety",
		Long: `Compare this host with what a broker wants of it: io_uring and limits, the drive and
the filesystem of the data directory, CPUs, clocks, memory, network. Nothing is changed.

Every finding says why it matters. The column MATTERS says whether it does for what mqd
does, which is O_DIRECT through io_uring, and TCP: much that guides repeat does not, and
some of it is wrong. Values that such advice has left on this host are found too.

Levels: critical, where the broker fails or what it acknowledges is not safe; warning,
where latency is lost; note. Limits are those of this process: of a service they differ,
so that --pid of the running broker tells more.

With --root another machine is looked at, whose proc, sys, etc and var have been copied
below a directory. What is measured or asked, clock, io_uring and cards, is left out there. --capture writes
such a copy of what a check reads, a tar.gz to be unpacked below a directory. Names of the
host, of people and of files, serial numbers and addresses of cards are not in it.

The exit status is 0 if nothing is off, 2 if there is a finding of --fail-on or worse, and
1 if it could not be told. With -o nagios it is that of a plugin: 0, 1 for warnings, 2 for
critical findings, 3. -o prom is for the textfile collector of Prometheus' node exporter;
the form of -o json is described by mqd check --schema.`,
		Example: `  mqd check --data-dir /var/lib/mqd
  mqd check --pid 4711 -o nagios
  mqd check --profile metal -o json
  mqd check --capture machine.tar.gz`,
		Args: cobra.NoArgs,
	}
	schema := cmd.Flags().Bool("schema", false, "print the JSON Schema of -o json, and do nothing else")
	archive := cmd.Flags().String("capture", "", "write what a check reads of this machine to a new `file`, and do nothing else")
	cmd.Flags().BoolVar(&all, "all", false, "show what is right too")
	cmd.Flags().StringVar(&failOn, "fail-on", string(tuning.Warning), "least level that is a failure: note, warning, critical (a `word`)")
	s.addLook(cmd)
	form = n.Form(cmd, formTable, formJSON, formNagios, formProm)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *schema {
			_, err := fmt.Fprint(cmd.OutOrStdout(), tuning.Schema)
			return err
		}
		if *archive != "" {
			return s.capture(cmd.OutOrStdout(), *archive)
		}
		err := check(cmd, s, form(), tuning.Level(failOn), all)
		if form() == formNagios && err != nil {
			if _, known := err.(*statusError); !known {
				return &statusError{"MQD HOST UNKNOWN - " + err.Error(), nagiosUnknown}
			}
		}
		return err
	}
	return cmd
}

func check(cmd *cobra.Command, s *subject, form string, failOn tuning.Level, all bool) error {
	at := slices.Index(tuning.Levels, failOn)
	if at < 1 {
		return fmt.Errorf("--fail-on is %q, expected note, warning or critical", failOn)
	}
	_, r, err := s.look()
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	switch form {
	case formJSON:
		err = tuning.WriteJSON(out, r)
	case formNagios:
		if err := tuning.WriteNagios(out, r); err != nil {
			return err
		}
		return nagiosStatus(r)
	case formProm:
		return tuning.WriteProm(out, r)
	default:
		err = tuning.WriteTable(out, r, all)
	}
	if err == nil && slices.Index(tuning.Levels, r.Worst()) >= at {
		err = &statusError{"something is off on this host: " + tuning.Summary(r), statusOff}
	}
	return err
}

func nagiosStatus(r *tuning.Report) error {
	switch r.Worst() {
	case tuning.Critical:
		return &statusError{tuning.Summary(r), nagiosCritical}
	case tuning.Warning:
		return &statusError{tuning.Summary(r), nagiosWarning}
	}
	return nil
}
