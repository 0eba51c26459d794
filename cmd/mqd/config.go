package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"
)

// configVar names the configuration file where --config does not.
const configVar = "MQD_CONFIG"

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
errors here too.`,
		Example: `  mqd config print > mqd.yaml
  mqd config print --config mqd.yaml --with-source
  MQD_JOURNAL__SIZE=64MiB mqd config print --with-source`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := resolve(cmd)
			if err != nil {
				return err
			}
			return printConfig(cmd.OutOrStdout(), c, withSource)
		},
	}
	addSettingFlags(cmd)
	cmd.Flags().BoolVar(&withSource, "with-source", false, "say where each value comes from")
	return cmd
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
	for _, s := range settings(&options{}) {
		help := s.help + " ("
		if limits := s.value.limits(); limits != "" && s.value.kind() != kindSwitch {
			help += limits + "; "
		}
		cmd.Flags().Var(&settingFlag{s.def, s.value.kind()}, s.flag, help+s.env()+")")
		if s.value.kind() == kindSwitch {
			cmd.Flags().Lookup(s.flag).NoOptDefVal = "true"
		}
	}
	cmd.Flags().String("config", "", "configuration `file` ("+configVar+")")
}

// resolve puts the settings of cmd together: flags, above environment, above
// file, above defaults.
func resolve(cmd *cobra.Command) (*config, error) {
	path, err := cmd.Flags().GetString("config")
	if err != nil {
		return nil, err
	}
	if path == "" {
		path = os.Getenv(configVar)
	}
	file := layer{}
	var fileErr error
	if path != "" {
		file, fileErr = fileLayer(path)
	}
	env, envErr := envLayer(os.Environ())
	if err := errors.Join(fileErr, envErr); err != nil {
		return nil, err
	}
	flags := layer{}
	for _, s := range settings(&options{}) {
		if f := cmd.Flags().Lookup(s.flag); f.Changed {
			flags[s.name] = entry{f.Value.String(), "flag --" + s.flag}
		}
	}
	return merge(file, env, flags)
}

// printConfig writes a configuration file with all settings.
func printConfig(w io.Writer, c *config, withSource bool) error {
	var out bytes.Buffer
	out.WriteString("# Settings of mqd serve. Flags win over the environment, the environment over\n" +
		"# this file, this file over the defaults, which are commented out.\n")
	last := ""
	for i := range c.table {
		s := &c.table[i]
		section, key, _ := strings.Cut(s.name, keyDelim)
		if section != last {
			fmt.Fprintf(&out, "\n%s:\n", section)
			last = section
		} else {
			out.WriteString("\n")
		}
		limits := s.value.limits()
		if limits != "" {
			limits = " (" + limits + ")"
		}
		fmt.Fprintf(&out, "  # %s\n  # %s%s, default %s; --%s, %s; %s\n",
			s.help, s.value.kind(), limits, s.def, s.flag, s.env(), s.apply)
		if withSource {
			fmt.Fprintf(&out, "  # from: %s\n", c.where[s.name])
		}
		mark := ""
		if !c.isSet(s.name) {
			mark = "# "
		}
		text, err := yaml.Marshal(&yaml.Node{Kind: yaml.ScalarNode, Value: c.text[s.name]})
		if err != nil {
			return err
		}
		fmt.Fprintf(&out, "  %s%s: %s\n", mark, key, strings.TrimSpace(string(text)))
	}
	_, err := out.WriteTo(w)
	return err
}

// String says how a change of the setting comes into force.
func (a apply) String() string {
	if a == onReload {
		return "takes effect on SIGHUP"
	}
	return "needs a restart"
}
