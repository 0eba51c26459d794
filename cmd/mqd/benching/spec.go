package benching

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

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
	Version int              `yaml:"version"`
	All     map[string]any   `yaml:"all"`
	Cases   []map[string]any `yaml:"cases"`
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
	var spec specFile
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(&spec); err != nil {
		return nil, fmt.Errorf("%w: %w", errSpec, err)
	}
	if err := dec.Decode(new(any)); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: more than one document", errSpec)
	}
	if spec.Version != specVersion {
		return nil, fmt.Errorf("%w: version %d, expected %d", errSpec, spec.Version, specVersion)
	}
	if len(spec.Cases) == 0 {
		return nil, fmt.Errorf("%w: no cases", errSpec)
	}
	var all []bench.Load
	for i, c := range spec.Cases {
		loads, err := caseLoads(spec.All, c, over)
		if err != nil {
			return nil, fmt.Errorf("%w: case %d: %w", errSpec, i+1, err)
		}
		all = append(all, loads...)
	}
	return all, nil
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
				return nil, fmt.Errorf("%s %v: %w", key, v, err)
			}
		}
	}
	return f.loads()
}
