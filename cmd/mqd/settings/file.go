package settings

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxConfigFile bounds a configuration file, in bytes.
const maxConfigFile = 1 << 20

// FromFile takes settings from a YAML file of sections with keys. Every problem
// is named with file, line and column; unknown sections and keys are problems.
func FromFile(path string) (Layer, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("configuration file: %w", err)
	}
	defer f.Close()
	return parseFile(path, io.LimitReader(f, maxConfigFile+1))
}

// fileParser reads one file.
type fileParser struct {
	path  string
	layer Layer
	errs  []error
}

func parseFile(path string, r io.Reader) (Layer, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("configuration file %s: %w", path, err)
	}
	if len(data) > maxConfigFile {
		return nil, fmt.Errorf("configuration file %s: larger than %s", path, FormatSize(maxConfigFile))
	}
	p := &fileParser{path: path, layer: Layer{}}
	dec := yaml.NewDecoder(strings.NewReader(string(data)))
	var doc, second yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return p.layer, nil // nothing in it
	case err != nil:
		return nil, fmt.Errorf("%s:%s", path, yamlProblem(err, string(data)))
	}
	if err := dec.Decode(&second); !errors.Is(err, io.EOF) {
		p.fail(&second, "a second document; a configuration is one")
	}
	p.sections(doc.Content[0])
	return p.layer, errors.Join(p.errs...)
}

// yamlProblem is the parser's error as what follows the name of the file.
func yamlProblem(err error, data string) string {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	// The parser names neither tabs nor, always, their line.
	number := 0
	for line := range strings.Lines(data) {
		number++
		if indent := line[:len(line)-len(strings.TrimLeft(line, " \t"))]; strings.Contains(indent, "\t") && strings.TrimSpace(line) != "" {
			return fmt.Sprintf("%d: a tab before %.40q; lines are indented with spaces, tabs cannot", number, strings.TrimSpace(line))
		}
	}
	if line, ok := strings.CutPrefix(text, "line "); ok {
		return line
	}
	return " " + text
}

// place is where a node begins: file, line and column.
func (p *fileParser) place(at *yaml.Node) string {
	return fmt.Sprintf("%s:%d:%d", p.path, max(at.Line, 1), max(at.Column, 1))
}

func (p *fileParser) fail(at *yaml.Node, format string, args ...any) {
	p.errs = append(p.errs, fmt.Errorf("%s: %s", p.place(at), fmt.Sprintf(format, args...)))
}

// sections reads the top of the file.
func (p *fileParser) sections(top *yaml.Node) {
	if isNull(top) {
		return // comments alone
	}
	if top.Kind != yaml.MappingNode {
		p.fail(top, "expected sections such as \"journal:\" with keys below them")
		return
	}
	p.each(top, func(key, node *yaml.Node) {
		section, below, flat := strings.Cut(key.Value, keyDelim)
		switch {
		case flat:
			p.fail(key, "%q is written as %q with %q on a line below it", key.Value, section+":", "  "+below+": ...")
		case !slices.Contains(sectionNames(), section):
			p.fail(key, "%v", unknownSection(section))
		case isNull(node):
		case node.Kind != yaml.MappingNode:
			p.fail(node, "section %q: expected keys with values below it", section)
		default:
			p.keys(section, node)
		}
	})
}

func (p *fileParser) keys(section string, keys *yaml.Node) {
	all := Table()
	p.each(keys, func(key, node *yaml.Node) {
		name := section + keyDelim + key.Value
		text, ok := scalarText(node)
		i := slices.IndexFunc(all, func(s Setting) bool { return s.Name == name })
		switch {
		case i < 0:
			p.fail(key, "%v", unknown(name))
		case isNull(node):
			p.fail(key, "%s has no value", name)
		case !ok, node.Kind == yaml.SequenceNode && !all[i].isList():
			p.fail(node, "%s: expected a single value", name)
		default:
			p.layer[name] = Entry{text, p.place(node)}
		}
	})
}

// each calls f for the pairs of a mapping and finds keys that come twice.
func (p *fileParser) each(mapping *yaml.Node, f func(key, value *yaml.Node)) {
	seen := map[string]int{}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		if value.Kind == yaml.AliasNode {
			value = value.Alias
		}
		if line := seen[key.Value]; line > 0 {
			p.fail(key, "%q is here for the second time, after line %d", key.Value, line)
			continue
		}
		seen[key.Value] = key.Line
		f(key, value)
	}
}

// scalarText is the text of a value; a list is joined by commas.
func scalarText(node *yaml.Node) (string, bool) {
	switch node.Kind {
	case yaml.ScalarNode:
		return node.Value, true
	case yaml.SequenceNode:
		var parts []string
		for _, item := range node.Content {
			if item.Kind != yaml.ScalarNode {
				return "", false
			}
			parts = append(parts, item.Value)
		}
		return strings.Join(parts, ","), true
	}
	return "", false
}

func isNull(node *yaml.Node) bool { return node.Kind == yaml.ScalarNode && node.Tag == "!!null" }

// sectionNames lists the sections in the order of the table.
func sectionNames() []string {
	var names []string
	for _, s := range Table() {
		if section, _, _ := strings.Cut(s.Name, keyDelim); !slices.Contains(names, section) {
			names = append(names, section)
		}
	}
	return names
}
