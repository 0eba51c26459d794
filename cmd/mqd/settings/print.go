package settings

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Sources says whether [Config.Print] tells where values come from.
type Sources uint8

const (
	// WithoutSources prints values alone.
	WithoutSources Sources = iota
	// WithSources prints where each value comes from.
	WithSources
)

// Print writes a configuration file with all settings, explained. Those that
// nobody has set are commented out.
func (c *Config) Print(w io.Writer, sources Sources) error {
	var out bytes.Buffer
	out.WriteString("# Settings of mqd serve. Flags win over the environment, the environment over\n" +
		"# this file, this file over the defaults, which are commented out.\n")
	last := ""
	for i := range c.table {
		s := &c.table[i]
		section, key, _ := strings.Cut(s.Name, keyDelim)
		out.WriteString("\n")
		if section != last {
			fmt.Fprintf(&out, "%s:\n", section)
			last = section
		}
		limits := s.Limits()
		if limits != "" {
			limits = " (" + limits + ")"
		}
		fmt.Fprintf(&out, "  # %s\n  # %s%s, default %s; --%s, %s; %s\n",
			s.Help, s.Kind(), limits, s.Default, s.Flag, s.Env(), s.Apply)
		if sources == WithSources {
			fmt.Fprintf(&out, "  # from: %s\n", c.where[s.Name])
		}
		mark := ""
		if !c.IsSet(s.Name) {
			mark = "# "
		}
		value := yaml.Node{Kind: yaml.ScalarNode, Value: c.text[s.Name]}
		if value.Value == "" {
			value.Style = yaml.DoubleQuotedStyle // else it would be no value
		}
		text, err := yaml.Marshal(&value)
		if err != nil {
			return err
		}
		fmt.Fprintf(&out, "  %s%s: %s\n", mark, key, strings.TrimSpace(string(text)))
	}
	_, err := out.WriteTo(w)
	return err
}
