package benching

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/mqd-broker/mqd/bench"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// specVersion is the form of a file of cases.
const specVersion = 1

// specFile is a file of cases. The keys of a case, and of what holds for all of
// them, are the names of flags.
type specFile struct {
	all   map[string]any
	cases []map[string]any
}

// errSpec: a file of cases cannot be used.
var errSpec = errors.New("file of cases")

// notOfCases are flags that hold for a whole run.
var notOfCases = []string{"server", "out", "spec", "repeat", "floors", "admin", "profile", "produce-on", "consume-on", "token-file", "samples", "live"}

// cases are the loads that a run is asked for, by its flags or by a file.
func (f *runFlags) cases(cmd *cobra.Command) ([]bench.Load, error) {
	if f.profile != "" {
		if f.spec != "" {
			return nil, fmt.Errorf("%w: --spec and --profile, expected one of them", errSpec)
		}
		text, err := profileText(f.profile)
		if err != nil {
			return nil, err
		}
		return parseSpec(text, given(cmd))
	}
	if f.spec == "" {
		return f.loads()
	}
	for name := range given(cmd) {
		return nil, fmt.Errorf("%w: --%s describes a load, and so does --spec", errSpec, name)
	}
	text, err := os.ReadFile(f.spec)
	if err != nil {
		return nil, err
	}
	loads, err := ParseSpec(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.spec, err)
	}
	return loads, nil
}

// ParseSpec reads a file of cases, for programs that measure other brokers under the same
// ones.
func ParseSpec(text []byte) ([]bench.Load, error) { return parseSpec(text, nil) }

// parseSpec is ParseSpec with values that win over those of the file.
func parseSpec(text []byte, over map[string]any) ([]bench.Load, error) {
	spec, err := readSpec(text)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errSpec, err)
	}
	var all []bench.Load
	for i, c := range spec.cases {
		loads, err := caseLoads(spec.all, c, over)
		if err != nil {
			return nil, fmt.Errorf("%w: case %d: %w", errSpec, i+1, err)
		}
		all = append(all, loads...)
	}
	return all, nil
}

// readSpec reads the form of a file; what its cases say is read later. Errors are in the
// words of who writes files, and not of who reads them into Go.
func readSpec(text []byte) (spec specFile, err error) {
	dec := yaml.NewDecoder(bytes.NewReader(text))
	var doc yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return spec, errors.New("nothing is in it")
	} else if err != nil {
		return spec, err
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return spec, errors.New("more than one document")
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return spec, fmt.Errorf("line %d: expected the keys version, all and cases", root.Line)
	}
	parts := map[string]*yaml.Node{}
	for i := 0; i+1 < len(root.Content); i += 2 {
		key := root.Content[i]
		if !slices.Contains([]string{"version", "all", "cases"}, key.Value) {
			return spec, fmt.Errorf("line %d: unknown key %q, expected version, all or cases", key.Line, key.Value)
		}
		if parts[key.Value] != nil {
			return spec, fmt.Errorf("line %d: %q is here for the second time", key.Line, key.Value)
		}
		parts[key.Value] = root.Content[i+1]
	}
	if v := parts["version"]; v == nil {
		return spec, fmt.Errorf("version is missing, expected %d", specVersion)
	} else if v.Value != strconv.Itoa(specVersion) {
		return spec, fmt.Errorf("line %d: version %s, expected %d", v.Line, v.Value, specVersion)
	}
	if of := parts["all"]; of != nil {
		if spec.all, err = flagValues(of); err != nil {
			return spec, err
		}
	}
	list := parts["cases"]
	if list == nil || list.Kind == yaml.SequenceNode && len(list.Content) == 0 {
		return spec, errors.New("no cases")
	}
	if list.Kind != yaml.SequenceNode {
		return spec, fmt.Errorf("line %d: cases is no list", list.Line)
	}
	for _, of := range list.Content {
		values, err := flagValues(of)
		if err != nil {
			return spec, err
		}
		spec.cases = append(spec.cases, values)
	}
	return spec, nil
}

// flagValues are the values of flags, by their names.
func flagValues(of *yaml.Node) (values map[string]any, err error) {
	if target := of.Alias; target != nil {
		of = target
	}
	if of.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("line %d: expected names of flags with their values, as rate: 1000", of.Line)
	}
	var twice *yaml.TypeError
	if err := of.Decode(&values); errors.As(err, &twice) && len(twice.Errors) > 0 {
		return nil, errors.New(twice.Errors[0])
	} else if err != nil {
		return nil, err
	}
	return values, nil
}

// caseLoads are the loads of one case: several where it has lists. Its own values win over
// those of all, and over wins over both.
func caseLoads(all, own, over map[string]any) ([]bench.Load, error) {
	f, cmd := &runFlags{}, &cobra.Command{}
	f.add(cmd)
	// A case that does not say how its client waits has one client, not two.
	if err := cmd.Flags().Set("client", bench.Poll.String()); err != nil {
		return nil, err
	}
	values := maps.Clone(all)
	if values == nil {
		values = map[string]any{}
	}
	maps.Copy(values, own)
	maps.Copy(values, over)
	if name, ok := values["name"]; ok {
		f.load.Name = fmt.Sprint(name)
		delete(values, "name")
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		flag := cmd.Flags().Lookup(key)
		if flag == nil || slices.Contains(notOfCases, key) {
			return nil, fmt.Errorf("unknown key %q", key)
		}
		list, ok := values[key].([]any)
		if !ok {
			list = []any{values[key]}
		} else if _, slice := flag.Value.(pflag.SliceValue); !slice {
			return nil, fmt.Errorf("%s is a list, expected one value", key)
		}
		for i, v := range list {
			set := flag.Value.Set
			if slice, ok := flag.Value.(pflag.SliceValue); ok && i > 0 {
				set = slice.Append
			} else if ok {
				set = func(text string) error { return slice.Replace([]string{text}) }
			}
			if err := set(fmt.Sprint(v)); err != nil {
				return nil, fmt.Errorf("%s is %v, expected %s", key, v, wanted(flag.Value.Type()))
			}
		}
	}
	return f.loads()
}

// wanted says what a flag of a type takes.
func wanted(kind string) string {
	switch strings.TrimSuffix(kind, "Slice") {
	case "int", "int64":
		return "a whole number"
	case "float64":
		return "a number"
	case "duration":
		return "a duration such as 100ms or 30s"
	}
	return "a " + kind
}
