// Package generator has the verbs of mqd generate that write what others read: the unit
// of systemd, the seccomp profile of containers, alerts for Prometheus and a dashboard for
// Grafana.
package generator

import (
	_ "embed" // for the files
	"io"

	"github.com/spf13/cobra"
)

// Unit is the unit of systemd.
//
//go:embed files/mqd.service
var Unit string

// Seccomp is the profile of system calls for containers, in the form of Docker and of
// Kubernetes.
//
//go:embed files/seccomp.json
var Seccomp string

// New makes the verbs.
func New() []*cobra.Command {
	return []*cobra.Command{newUnit(), newSeccomp(), newAlerts(), newDashboard()}
}

// printing makes a verb that writes a text.
func printing(cmd *cobra.Command, text string) *cobra.Command {
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		_, err := io.WriteString(cmd.OutOrStdout(), text)
		return err
	}
	return cmd
}

func newUnit() *cobra.Command {
	return printing(&cobra.Command{
		Use:   "systemd",
		Short: "Write a hardened unit of systemd",
		Long: `Write a unit of systemd that runs the broker as user mqd with the configuration
/etc/mqd/mqd.yaml, with enough locked memory and files, and with no right that it does
not need.`,
		Example: `  mqd generate systemd > /etc/systemd/system/mqd.service`,
	}, Unit)
}

func newSeccomp() *cobra.Command {
	return printing(&cobra.Command{
		Use:   "seccomp",
		Short: "Write a seccomp profile for containers",
		Long: `Write a seccomp profile that allows what the broker needs, io_uring among it, which
the profiles that come with container runtimes refuse. It is a list of what is allowed,
and shorter than theirs.`,
		Example: `  mqd generate seccomp > mqd-seccomp.json`,
	}, Seccomp)
}
