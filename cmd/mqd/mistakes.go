package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/mqd-broker/mqd/cmd/mqd/settings"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A verb may be mistyped by one letter in so many and is still suggested.
const lettersPerTypo = 3

// mistakes is what a command line got wrong that cobra answers with help and
// status 0: a script that says "topic lst" must not go on.
type mistakes struct{ err error }

// watch has every command at and below root answer a mistake with one line that
// says what was expected, what was found, and where the help is.
func (m *mistakes) watch(root *cobra.Command) {
	root.Args = cobra.ArbitraryArgs // cobra's own answer takes four lines
	written := root.HelpFunc()
	// cobra does not look whether its help could be written.
	help := func(cmd *cobra.Command, args []string) {
		var text bytes.Buffer
		out := cmd.OutOrStdout()
		cmd.SetOut(&text)
		written(cmd, args)
		cmd.SetOut(out)
		_, m.err = out.Write(text.Bytes())
	}
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		stray := cmd.Flags().Args()
		if !cmd.HasSubCommands() || len(stray) == 0 {
			help(cmd, args)
			return
		}
		// "mqd -h topic" is parsed as the flag of mqd.
		if of, rest, err := cmd.Find(stray); err == nil && of != cmd {
			of.InitDefaultHelpFlag()
			help(of, rest)
			return
		}
		m.err = unknownVerb(cmd, stray[0])
	})
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		see := "; see"
		if stray := cmd.Flags().Args(); cmd.HasSubCommands() && len(stray) > 0 {
			return unknownVerb(cmd, stray[0]) // its flags are those of a verb that there is not
		}
		if flag := (*pflag.NotExistError)(nil); errors.As(err, &flag) {
			if near := nearestFlag(cmd, flag.GetSpecifiedName()); near != "" {
				see = fmt.Sprintf("; did you mean --%s? See", near)
			}
		}
		return fmt.Errorf("%s%s: %s --help", plainFlagError(err), see, cmd.CommandPath())
	})
	countArguments(root)
	root.InitDefaultHelpCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "help" {
			cmd.RunE = helpOn
		}
	}
}

// nearestFlag is the flag of cmd that name may have been meant to be, "" for none. A
// setting's name will do for its flag.
func nearestFlag(cmd *cobra.Command, name string) string {
	var names []string
	flags := map[string]string{}
	add := func(name, flag string) {
		names = append(names, name)
		flags[name] = flag
	}
	if len(name) == 1 {
		return "" // a letter is near to every other
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) { add(f.Name, f.Name) })
	for _, s := range settings.Table() {
		if f := cmd.Flags().Lookup(s.Flag); f != nil {
			if _, is := f.Value.(*settingFlag); is {
				add(strings.NewReplacer(".", "-", "_", "-").Replace(s.Name), s.Flag)
			}
		}
	}
	return flags[settings.Nearest(name, names)]
}

// helpOn is the verb help.
func helpOn(cmd *cobra.Command, args []string) error {
	of, rest, err := cmd.Root().Find(args)
	switch {
	case err != nil:
		return err
	case of.HasSubCommands() && len(rest) > 0:
		return unknownVerb(of, rest[0])
	}
	of.InitDefaultHelpFlag()
	return of.Help()
}

// unknownVerb is the error of a name that is none of parent's verbs.
func unknownVerb(parent *cobra.Command, name string) error {
	guess := "; see"
	parent.SuggestionsMinimumDistance = len(name) / lettersPerTypo
	if near := parent.SuggestionsFor(name); len(near) > 0 {
		// A letter is left out more often than one too many is written.
		slices.SortStableFunc(near, func(a, b string) int { return len(b) - len(a) })
		guess = fmt.Sprintf("; did you mean %q? See", cmp.Or(settings.Nearest(name, near), near[0]))
	}
	return fmt.Errorf("unknown command %q for %q%s: %s --help", name, parent.CommandPath(), guess, parent.CommandPath())
}

// countArguments has the verbs at and below cmd name the arguments they take.
func countArguments(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		countArguments(sub)
	}
	if check := cmd.Args; check != nil && !cmd.HasSubCommands() {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if check(cmd, args) == nil {
				return nil
			}
			found := "nothing"
			if len(args) > 0 {
				found = strings.Trim(fmt.Sprintf("%q", args), "[]")
			}
			_, expected, _ := strings.Cut(cmd.Use, " ")
			if strings.HasPrefix(expected, "[flags]") {
				// What stands after "--" was not refused.
				if dash := cmd.ArgsLenAtDash(); dash > 0 {
					found = strings.Trim(fmt.Sprintf("%q", args[:dash]), "[]")
				}
				expected = ""
			}
			if expected == "" {
				expected = "no argument"
			}
			verb := strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
			return fmt.Errorf("%s: expected %s, found %s; see: %s --help", verb, expected, found, cmd.CommandPath())
		}
	}
}

// plainFlagError leaves out how Go reads numbers.
func plainFlagError(err error) string {
	text := err.Error()
	if n := (*strconv.NumError)(nil); errors.As(err, &n) {
		plain := "expected a number"
		if errors.Is(n.Err, strconv.ErrRange) || strings.HasPrefix(n.Num, "-") {
			plain = "out of range"
		}
		text = strings.Replace(text, n.Error(), plain, 1)
	}
	return badDuration.ReplaceAllString(text, ": expected a duration such as 100ms or 30s, found ")
}

// badDuration is what Go says of what is no duration, up to that.
var badDuration = regexp.MustCompile(`: time: (invalid|missing unit in|unknown unit "[^"]*" in) duration `)
