package main

import (
	"context"
	"errors"
	"os"

	"github.com/mqd-broker/mqd/cmd/mqd/placement"
	"github.com/mqd-broker/mqd/cmd/mqd/settings"
	"github.com/spf13/cobra"
)

// configVar names the configuration file where --config does not.
const configVar = settings.ConfigVar

func newConfig() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show how a broker would be configured",
	}
	cmd.AddCommand(newConfigPrint())
	return cmd
}

func newConfigPrint() *cobra.Command {
	withSource := false
	cmd := &cobra.Command{
		Use:   "print",
		Short: "Print every setting of mqd serve, explained, as a configuration file",
		Long: `Print every setting of mqd serve with what it means and the value that mqd serve
would take with the same flags, environment and file. What has its default is
commented out, so that the output is a good start for a configuration file.

Nothing is started and nothing is changed. Values that mqd serve would refuse are
errors here too; so are addresses that it would not listen on, and CPUs that this
machine does not have.`,
		Example: `  mqd config print > mqd.yaml
  mqd config print --config mqd.yaml --with-source
  MQD_JOURNAL__SIZE=64MiB mqd config print --with-source`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := resolve(cmd)
			if err != nil {
				return err
			}
			if err := wouldServe(cmd.Context(), c); err != nil {
				return err
			}
			sources := settings.WithoutSources
			if withSource {
				sources = settings.WithSources
			}
			return c.Print(cmd.OutOrStdout(), sources)
		},
	}
	addSettingFlags(cmd)
	cmd.Flags().BoolVar(&withSource, "with-source", false, "say where each value comes from")
	return cmd
}

// wouldServe refuses what mqd serve refuses for its settings alone.
func wouldServe(ctx context.Context, c *settings.Config) error {
	if err := checkHost(ctx, c); err != nil {
		return err
	}
	if err := checkListen(c); err != nil {
		return err
	}
	m, err := placement.Read("/", c.DataDir)
	if err != nil {
		return err
	}
	p, err := placement.Place(c, m)
	if err != nil {
		return err
	}
	b := &broker{cfg: c}
	return b.nodeConfig(p).Validate()
}

// settingFlag is the flag of a setting. Its text is checked with all the others.
type settingFlag struct{ text, kind string }

func (f *settingFlag) String() string { return f.text }
func (f *settingFlag) Type() string   { return f.kind }

func (f *settingFlag) Set(text string) error {
	f.text = text
	return nil
}

// addSettingFlags gives cmd a flag for every setting, and --config.
func addSettingFlags(cmd *cobra.Command) {
	for _, s := range settings.Table() {
		help := s.Help + " ("
		if limits := s.Limits(); limits != "" && s.Kind() != settings.Switch {
			help += limits + "; "
		}
		cmd.Flags().Var(&settingFlag{s.Default, s.Kind()}, s.Flag, help+s.Env()+")")
		if s.Kind() == settings.Switch {
			cmd.Flags().Lookup(s.Flag).NoOptDefVal = "true"
		}
	}
	cmd.Flags().String("config", "", "configuration `file` ("+configVar+")")
}

// resolve puts the settings of cmd together: flags, above environment, above
// file, above defaults.
func resolve(cmd *cobra.Command) (*settings.Config, error) {
	path, err := cmd.Flags().GetString("config")
	if err != nil {
		return nil, err
	}
	if path == "" {
		path = os.Getenv(configVar)
	}
	file := settings.Layer{}
	var fileErr error
	if path != "" {
		file, fileErr = settings.FromFile(path)
	}
	env, envErr := settings.FromEnv(os.Environ())
	if err := errors.Join(fileErr, envErr); err != nil {
		return nil, err
	}
	flags := settings.Layer{}
	for _, s := range settings.Table() {
		if f := cmd.Flags().Lookup(s.Flag); f != nil && f.Changed { // some verbs have few of them
			flags[s.Name] = settings.Entry{Text: f.Value.String(), Where: "flag --" + s.Flag}
		}
	}
	return settings.Merge(file, env, flags)
}
