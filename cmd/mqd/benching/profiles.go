package benching

import (
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// profiles are files of cases that come with the program, by the names of --profile.
//
//go:embed profiles/*.yaml
var profiles embed.FS

// profileNames are those, in order.
func profileNames() []string {
	files, err := profiles.ReadDir("profiles")
	if err != nil {
		return nil
	}
	var names []string
	for _, f := range files {
		names = append(names, strings.TrimSuffix(f.Name(), path.Ext(f.Name())))
	}
	return names
}

// profileText is the file of a profile.
func profileText(name string) ([]byte, error) {
	text, err := profiles.ReadFile(path.Join("profiles", name+".yaml"))
	if err != nil {
		return nil, fmt.Errorf("--profile %q: expected one of %s", name, strings.Join(profileNames(), ", "))
	}
	return text, nil
}

// given are the flags of a load that stand on the command line, as a case has them: they
// win over a profile.
func given(cmd *cobra.Command) map[string]any {
	values, inherited := map[string]any{}, cmd.InheritedFlags()
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if slices.Contains(notOfCases, flag.Name) || flag.Name == "help" || inherited.Lookup(flag.Name) != nil {
			return
		}
		values[flag.Name] = flag.Value.String()
		if list, ok := flag.Value.(pflag.SliceValue); ok {
			var all []any
			for _, v := range list.GetSlice() {
				all = append(all, v)
			}
			values[flag.Name] = all
		}
	})
	return values
}
