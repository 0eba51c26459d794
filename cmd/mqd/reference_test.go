package main

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/mqd-broker/mqd/broker/catalog"
	"github.com/mqd-broker/mqd/cmd/mqd/settings"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const generatedNote = "<!-- Written by go test ./cmd/mqd -update; do not edit. -->\n\n"

func TestTheReferenceOfSettingsIsThatOfTheTable(t *testing.T) {
	var b bytes.Buffer
	b.WriteString("# Settings\n\n" + generatedNote)
	b.WriteString("## The broker\n\nSettings of `mqd serve`. A flag wins over the environment, the environment over the file, the\n" +
		"file over the default. In the file, `section.key` is a section with keys below it;\n" +
		"`mqd config print` writes one to start from. Unknown names are errors.\n\n")
	b.WriteString("| setting | flag, environment | default | allowed | changes | what it does |\n|---|---|---|---|---|---|\n")
	for _, s := range settings.Table() {
		limits := s.Limits()
		if limits == "" {
			limits = s.Kind()
		}
		fmt.Fprintf(&b, "| `%s` | `--%s`, `%s` | `%s` | %s | %s | %s |\n", s.Name, s.Flag, s.Env(), s.Default, limits, s.Apply, s.Help)
	}
	b.WriteString("\n## Topics\n\nSettings of a topic: `mqd topic create --config`, `mqd topic alter --config`.\n\n" +
		"| setting | default | allowed | what it does |\n|---|---|---|---|\n")
	for _, in := range catalog.Settings() {
		limits := strings.Join(in.Words, ", ")
		if in.Min != "" {
			limits = in.Min + " to " + in.Max
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", in.Name, in.Default, limits, in.Help)
	}
	golden(t, "../../docs/reference/config.md", b.Bytes())
}

// commands are all verbs that can be run, in the order in which help shows them.
func commands(root *cobra.Command) []*cobra.Command {
	var all []*cobra.Command
	for _, c := range root.Commands() {
		if c.Runnable() && !c.Hidden {
			all = append(all, c)
		}
		all = append(all, commands(c)...)
	}
	return all
}

func TestTheReferenceOfVerbsIsTheirHelp(t *testing.T) {
	var b bytes.Buffer
	b.WriteString("# Command line\n\n" + generatedNote)
	for _, c := range commands(newRoot()) {
		about := c.Long
		if about == "" {
			about = c.Short
		}
		fmt.Fprintf(&b, "## %s\n\n```text\n%s\n\n%s```\n\n", c.CommandPath(), strings.TrimSpace(about), c.UsageString())
	}
	golden(t, "../../docs/reference/cli.md", append(bytes.TrimRight(b.Bytes(), "\n"), '\n'))
}

func TestEveryVerbHasHelpWithExamplesThatParse(t *testing.T) {
	for _, c := range commands(newRoot()) {
		path := c.CommandPath()
		if c.Short == "" || strings.HasSuffix(c.Short, ".") || c.Example == "" || c.Args == nil {
			t.Errorf("%s: short text, examples or check of arguments is missing", path)
		}
		if !strings.Contains(c.Example, path) {
			t.Errorf("%s: no example shows it", path)
		}
		out, errs, status := execute(append(strings.Fields(path)[1:], "--help")...)
		if status != 0 || !strings.Contains(out, "Examples:") {
			t.Errorf("%s --help: status %d, %s", path, status, errs)
		}
	}
}

func TestHelpHasEveryVerbInAPart(t *testing.T) {
	root, named := newRoot(), 0
	for _, part := range parts {
		named += len(strings.Fields(part.verbs))
	}
	for _, c := range root.Commands() {
		if c.GroupID != "" {
			named--
		} else if name := c.Name(); name != "version" && !c.Hidden {
			t.Errorf("mqd %s is in no part of the help", name)
		}
	}
	if named != 0 {
		t.Errorf("%d verbs of the parts are none", named)
	}
	out, _, _ := execute("--help")
	first, second := strings.Index(out, "\n  serve "), strings.Index(out, "\n  salvage ")
	if !strings.Contains(out, "When something is wrong:\n  debug ") || first < 0 || first > second {
		t.Errorf("help: %s", out)
	}
}

var (
	quoted   = regexp.MustCompile(`'[^']*'`)
	variable = regexp.MustCompile(`^[A-Z_]+=\S+ `)
)

// A flag that is shown with its type in Go tells nobody what to write.
func TestFlagsNameWhatTheyTake(t *testing.T) {
	for _, c := range commands(newRoot()) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			switch name, _ := pflag.UnquoteUsage(f); name {
			case "int", "ints", "int32", "int64Slice", "uint", "float", "strings":
				t.Errorf("%s --%s is shown to take %q", c.CommandPath(), f.Name, name)
			}
		})
	}
}

// Examples run through the parser of flags, so that none shows one that is gone.
func TestExamplesUseFlagsThatExist(t *testing.T) {
	for _, c := range commands(newRoot()) {
		for line := range strings.Lines(c.Example) {
			for part := range strings.SplitSeq(strings.TrimSpace(line), "|") {
				part = strings.TrimSpace(variable.ReplaceAllString(strings.TrimSpace(part), ""))
				part, _, _ = strings.Cut(quoted.ReplaceAllString(part, "q"), " > ")
				words := strings.Fields(part)
				if words[0] != "mqd" {
					continue
				}
				cmd, rest, err := newRoot().Find(words[1:])
				if err == nil {
					err = cmd.ParseFlags(rest)
				}
				if err == nil {
					err = cmd.ValidateArgs(cmd.Flags().Args())
				}
				if err != nil {
					t.Errorf("%s: %q: %v", c.CommandPath(), part, err)
				}
			}
		}
	}
}

// full is where there is no room for anything.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

func TestHelpThatCannotBeWrittenIsAnError(t *testing.T) {
	clearEnv(t)
	for _, line := range []string{"", "--help", "help", "topic", "topic list --help", "help topic list", "-h topic", "version", "config print", "completion bash"} {
		var errs bytes.Buffer
		status := run(t.Context(), strings.Fields(line), strings.NewReader(""), full{}, &errs)
		if got := errs.String(); status != 1 || got != "mqd: "+syscall.ENOSPC.Error()+"\n" {
			t.Errorf("mqd %s: status %d, %q", line, status, got)
		}
	}
}

func TestMistakesOnTheCommandLineAreErrors(t *testing.T) {
	clearEnv(t)
	for line, want := range map[string]string{
		"frobnicate":                                `mqd: unknown command "frobnicate" for "mqd"; see: mqd --help`,
		"topik list":                                `mqd: unknown command "topik" for "mqd"; did you mean "topic"? See: mqd --help`,
		"topic lst":                                 `mqd: unknown command "lst" for "mqd topic"; did you mean "list"? See: mqd topic --help`,
		"topic --server x lst":                      `mqd: unknown command "lst" for "mqd topic"; did you mean "list"? See: mqd topic --help`,
		"config show":                               `mqd: unknown command "show" for "mqd config"; see: mqd config --help`,
		"config check --config F":                   `mqd: unknown command "check" for "mqd config"; see: mqd config --help`,
		"completion tcsh":                           `mqd: unknown command "tcsh" for "mqd completion"; see: mqd completion --help`,
		"help nosuch":                               `mqd: unknown command "nosuch" for "mqd"; see: mqd --help`,
		"prodcue t":                                 `mqd: unknown command "prodcue" for "mqd"; did you mean "produce"? See: mqd --help`,
		"help topic lst":                            `mqd: unknown command "lst" for "mqd topic"; did you mean "list"? See: mqd topic --help`,
		"serve now":                                 `mqd: serve: expected no argument, found "now"; see: mqd serve --help`,
		"bench run extra":                           `mqd: bench run: expected no argument, found "extra"; see: mqd bench run --help`,
		"bench run a -- --shards 1":                 `mqd: bench run: expected no argument, found "a"; see: mqd bench run --help`,
		"bench max 5000":                            `mqd: bench max: expected no argument, found "5000"; see: mqd bench max --help`,
		"bench sweep 5000":                          `mqd: bench sweep: expected no argument, found "5000"; see: mqd bench sweep --help`,
		"bench all now":                             `mqd: bench all: expected no argument, found "now"; see: mqd bench all --help`,
		"bench backlog now":                         `mqd: bench backlog: expected no argument, found "now"; see: mqd bench backlog --help`,
		"serve --no-such":                           "mqd: unknown flag: --no-such; see: mqd serve --help",
		"serve --lisen 127.0.0.1:0":                 `mqd: unknown flag: --lisen; did you mean --listen? See: mqd serve --help`,
		"serve --shard-count 1":                     `mqd: unknown flag: --shard-count; did you mean --shards? See: mqd serve --help`,
		"topic list --sever x":                      `mqd: unknown flag: --sever; did you mean --server? See: mqd topic list --help`,
		"consume t --shard-count 1":                 `mqd: unknown flag: --shard-count; see: mqd consume --help`,
		"topic create":                              "mqd: topic create: expected NAME, found nothing; see: mqd topic create --help",
		"topic create a b":                          `mqd: topic create: expected NAME, found "a" "b"; see: mqd topic create --help`,
		"topic delete":                              "mqd: topic delete: expected NAME..., found nothing; see: mqd topic delete --help",
		"topic create t --partitions -3":            "mqd: --partitions is -3, expected 0 or more",
		"topic create t --partitions x":             `mqd: invalid argument "x" for "-p, --partitions" flag: expected a number; see: mqd topic create --help`,
		"topic list --timeout 5":                    `mqd: invalid argument "5" for "--timeout" flag: expected a duration such as 100ms or 30s, found "5"; see: mqd topic list --help`,
		"topic list --timeout abc":                  `mqd: invalid argument "abc" for "--timeout" flag: expected a duration such as 100ms or 30s, found "abc"; see: mqd topic list --help`,
		"topic list --timeout 7d":                   `mqd: invalid argument "7d" for "--timeout" flag: expected a duration such as 100ms or 30s, found "7d"; see: mqd topic list --help`,
		"topic list --server localhost:x":           `mqd: the broker's address (--server or MQD_SERVER) is "localhost:x", expected host:port with a port of 1 to 65535`,
		"topic list --server localhost:0":           `mqd: the broker's address (--server or MQD_SERVER) is "localhost:0", expected host:port with a port of 1 to 65535`,
		"generate messages --count -1":              `mqd: invalid argument "-1" for "-n, --count" flag: out of range; see: mqd generate messages --help`,
		"consume t --partition -7":                  "mqd: --partition is -7, expected 0 or more, or -1 for all",
		"produce t --partition -7":                  "mqd: --partition is -7, expected 0 or more, or -1 for none in particular",
		"topic create t --config x":                 `mqd: --config "x": expected key=value, each key once`,
		"topic create t --durability x":             `mqd: --durability is "x", expected flushed, written or memory`,
		"topic alter t":                             "mqd: nothing to change; give --partitions, --durability, --config or --unset",
		"topic alter t --config a=1 --unset a":      "mqd: a is set and unset at once",
		"topic list -o yaml":                        `mqd: invalid argument "yaml" for "-o, --output" flag: expected one of table, json, jsonl; see: mqd topic list --help`,
		"produce t --compression rar":               `mqd: --compression is "rar", expected one of none, gzip, snappy, lz4, zstd`,
		"produce t --input xml":                     `mqd: --input is "xml", expected lines or jsonl`,
		"produce t --rate -1":                       "mqd: --rate is -1, expected 0 or more",
		"produce t --file /no/such":                 "mqd: open /no/such: no such file or directory",
		"produce t --input jsonl --key-separator :": `mqd: --key-separator is for --input lines; JSON lines have a field "key"`,
		"consume t --from yesterday":                `mqd: --from is "yesterday", expected start, end, an offset such as 4711, @1700000000000 (milliseconds) or @2026-01-31T12:00:00Z`,
		"consume t --count -1":                      "mqd: --count is -1, expected 0 or more",
		"consume t --timeout 0s":                    "mqd: --timeout is 0s, expected more than 0",
		"generate messages --min 0":                 "mqd: --min 0 and --max 512: expected 1 <= min <= max <= 16777216",
	} {
		out, errs, status := execute(strings.Fields(line)...)
		if status != 1 || out != "" || strings.TrimSpace(errs) != want {
			t.Errorf("mqd %s: status %d, output %q\n%s\nwant %s", line, status, out, errs, want)
		}
	}
}
