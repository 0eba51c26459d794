package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/knadh/koanf/v2"
)

// envPrefix begins every environment variable of the program. Those of settings
// have a "__" between section and key; others are left alone, so that what
// container platforms put into the environment does no harm.
const envPrefix = "MQD_"

// keyDelim separates section and key in a setting's name.
const keyDelim = "."

// entry is the text of a setting in one layer, and where it stands.
type entry struct{ text, where string }

// layer is one source of settings, by name. It is a provider of koanf.
type layer map[string]entry

// Read implements koanf.Provider: section, key, text.
func (l layer) Read() (map[string]any, error) {
	tree := map[string]any{}
	for name, e := range l {
		section, key, _ := strings.Cut(name, keyDelim)
		keys, ok := tree[section].(map[string]any)
		if !ok {
			keys = map[string]any{}
			tree[section] = keys
		}
		keys[key] = e.text
	}
	return tree, nil
}

// ReadBytes implements koanf.Provider; there are no bytes to parse.
func (l layer) ReadBytes() ([]byte, error) { return nil, errors.ErrUnsupported }

// config is the outcome of all layers.
type config struct {
	options
	table []setting
	// where says where the value of each setting comes from, text what it says.
	where, text map[string]string
}

// defaultSource is where a setting comes from that nobody has set.
const defaultSource = "default"

// isSet reports whether anybody has set the setting.
func (c *config) isSet(name string) bool { return c.where[name] != defaultSource }

// merge puts layers above the defaults, the last one on top, and stores the
// options. The error tells of every value that cannot be used, a line each.
func merge(layers ...layer) (*config, error) {
	c := &config{where: map[string]string{}, text: map[string]string{}}
	c.table = settings(&c.options)
	defaults := layer{}
	for i := range c.table {
		defaults[c.table[i].name] = entry{c.table[i].def, defaultSource}
	}
	k := koanf.New(keyDelim)
	for _, l := range append([]layer{defaults}, layers...) {
		if err := k.Load(l, nil); err != nil {
			return nil, err
		}
		for name, e := range l {
			c.where[name] = e.where
		}
	}
	var errs []error
	for i := range c.table {
		s := &c.table[i]
		c.text[s.name] = k.String(s.name)
		if err := s.value.set(c.text[s.name]); err != nil {
			errs = append(errs, fmt.Errorf("%s: %s is %w", c.where[s.name], s.name, err))
		}
	}
	return c, errors.Join(errs...)
}

// envLayer takes settings from an environment, "NAME=text" each.
func envLayer(environ []string) (layer, error) {
	l := layer{}
	var errs []error
	table := settings(&options{})
	for _, pair := range environ {
		variable, text, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(variable, envPrefix) || !strings.Contains(variable, "__") {
			continue
		}
		i := slices.IndexFunc(table, func(s setting) bool { return s.env() == variable })
		if i < 0 {
			name := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(variable, envPrefix), "__", keyDelim))
			errs = append(errs, fmt.Errorf("environment variable %s: %w", variable, unknownSetting(name)))
			continue
		}
		l[table[i].name] = entry{text, "environment variable " + variable}
	}
	return l, errors.Join(errs...)
}

// unknownSetting is the error of a name that is in no row of the table. It offers
// the nearest one.
func unknownSetting(name string) error {
	table := settings(&options{})
	best, least := "", len(name)/3+1
	for i := range table {
		if d := distance(name, table[i].name); d < least {
			best, least = table[i].name, d
		}
	}
	if best == "" {
		return fmt.Errorf("there is no setting %q; \"mqd config print\" lists all", name)
	}
	return fmt.Errorf("there is no setting %q; did you mean %q?", name, best)
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
