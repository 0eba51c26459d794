package settings

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/knadh/koanf/v2"
)

// EnvPrefix begins every environment variable of the program.
const EnvPrefix = "MQD_"

// Environment variables that are no settings.
const (
	// ConfigVar names the configuration file.
	ConfigVar = EnvPrefix + "CONFIG"
	// ServerVar names the broker that the other verbs talk to.
	ServerVar = EnvPrefix + "SERVER"
	// AdminVar names the admin HTTP that mqd admin talks to.
	AdminVar = EnvPrefix + "ADMIN"
)

// serviceLink matches what Kubernetes puts into the environment of every container
// beside a service whose name is mqd or begins with mqd-.
var serviceLink = regexp.MustCompile(`^MQD_(.+_)?(SERVICE_HOST|SERVICE_PORT(_.+)?|PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)

// keyDelim is between section and key in a setting's name, envDelim in its
// environment variable.
const (
	keyDelim = "."
	envDelim = "__"
)

// Entry is the text of a setting in one layer, and where it stands.
type Entry struct{ Text, Where string }

// Layer is one source of settings, by name. It is a provider of koanf.
type Layer map[string]Entry

// Read implements koanf.Provider: section, key, text.
func (l Layer) Read() (map[string]any, error) {
	tree := map[string]any{}
	for name, e := range l {
		section, key, _ := strings.Cut(name, keyDelim)
		keys, ok := tree[section].(map[string]any)
		if !ok {
			keys = map[string]any{}
			tree[section] = keys
		}
		keys[key] = e.Text
	}
	return tree, nil
}

// ReadBytes implements koanf.Provider; there are no bytes to parse.
func (l Layer) ReadBytes() ([]byte, error) { return nil, errors.ErrUnsupported }

// Config is the outcome of all layers.
type Config struct {
	Options
	table       []Setting // stores into Options
	where, text map[string]string
}

// defaultSource is where a setting comes from that nobody has set.
const defaultSource = "default"

// IsSet reports whether anybody has set the setting.
func (c *Config) IsSet(name string) bool { return c.where[name] != defaultSource }

// Where says where the setting's value comes from.
func (c *Config) Where(name string) string { return c.where[name] }

// Text is the setting's value as it was written.
func (c *Config) Text(name string) string { return c.text[name] }

// Adopt takes the value of one setting from another configuration.
func (c *Config) Adopt(name string, from *Config) error {
	for i := range c.table {
		if s := &c.table[i]; s.Name == name {
			c.where[name], c.text[name] = from.where[name], from.text[name]
			return s.value.set(c.text[name])
		}
	}
	return unknown(name)
}

// Merge puts layers above the defaults, the last one on top, and stores the
// options. The error tells of every value that cannot be used, a line each.
func Merge(layers ...Layer) (*Config, error) {
	c := &Config{where: map[string]string{}, text: map[string]string{}}
	c.table = table(&c.Options)
	defaults := Layer{}
	for i := range c.table {
		defaults[c.table[i].Name] = Entry{c.table[i].Default, defaultSource}
	}
	k := koanf.New(keyDelim)
	for _, l := range append([]Layer{defaults}, layers...) {
		if err := k.Load(l, nil); err != nil {
			return nil, err
		}
		for name, e := range l {
			c.where[name] = e.Where
		}
	}
	var errs []error
	for i := range c.table {
		s := &c.table[i]
		c.text[s.Name] = k.String(s.Name)
		if err := s.value.set(c.text[s.Name]); err != nil {
			errs = append(errs, fmt.Errorf("%s: %s is %w", c.where[s.Name], s.Name, err))
		}
	}
	return c, errors.Join(errs...)
}

// FromEnv takes settings from an environment, "NAME=text" each. Variables of the
// program that mean nothing are errors.
func FromEnv(environ []string) (Layer, error) {
	l := Layer{}
	var errs []error
	all := Table()
	for _, pair := range environ {
		variable, text, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(variable, EnvPrefix) || variable == ConfigVar || variable == ServerVar || variable == AdminVar || serviceLink.MatchString(variable) {
			continue
		}
		i := slices.IndexFunc(all, func(s Setting) bool { return s.Env() == variable })
		if i < 0 && !strings.Contains(variable, envDelim) {
			errs = append(errs, unknownVariable(variable))
			continue
		}
		if i < 0 {
			name := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(variable, EnvPrefix), envDelim, keyDelim))
			errs = append(errs, fmt.Errorf("environment variable %s: %w", variable, unknown(name)))
			continue
		}
		l[all[i].Name] = Entry{text, "environment variable " + variable}
	}
	return l, errors.Join(errs...)
}

// unknown is the error of a name that is in no row of the table. It offers
// the nearest one.
func unknown(name string) error {
	var names []string
	for _, s := range Table() {
		names = append(names, s.Name)
	}
	best := Nearest(name, names)
	if best == "" {
		return fmt.Errorf("there is no setting %q; \"mqd config print\" lists all", name)
	}
	return fmt.Errorf("there is no setting %q; did you mean %q?", name, best)
}

// unknownSection is the error of a section that there is not.
func unknownSection(name string) error {
	names := sectionNames()
	if best := Nearest(name, names); best != "" {
		return fmt.Errorf("there is no section %q; did you mean %q?", name, best)
	}
	return fmt.Errorf("there is no section %q; sections are %s", name, strings.Join(names, ", "))
}

// unknownVariable is the error of a variable that has no section and key.
func unknownVariable(variable string) error {
	names := []string{ConfigVar, ServerVar, AdminVar}
	byFlag := map[string]string{} // --listen is net.listen: who knows the flag tries MQD_LISTEN
	var flags []string
	for _, s := range Table() {
		names = append(names, s.Env())
		flag := EnvPrefix + strings.ToUpper(strings.ReplaceAll(s.Flag, "-", "_"))
		byFlag[flag] = s.Env()
		flags = append(flags, flag)
	}
	best := cmp.Or(byFlag[variable], Nearest(variable, names), byFlag[Nearest(variable, flags)])
	if best != "" {
		return fmt.Errorf("environment variable %s means nothing; did you mean %s?", variable, best)
	}
	return fmt.Errorf("environment variable %s means nothing; settings are %sSECTION__KEY, with two underscores between, and \"mqd config print\" lists them", variable, EnvPrefix)
}

// Nearest is the one of names that name may have been meant to be, "" for none: less
// than every third character differs.
func Nearest(name string, names []string) string {
	best, least := "", len(name)/3+1
	for _, candidate := range names {
		if d := distance(name, candidate); d < least {
			best, least = candidate, d
		}
	}
	return best
}

// distance is the number of characters to insert, delete or replace that turns a
// into b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
