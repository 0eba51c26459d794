package capture

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/mqd-broker/mqd/tuning"
	"github.com/mqd-broker/mqd/tuning/topology"
)

// kept are the parts of a machine of which anything is kept.
var kept = regexp.MustCompile(`^(proc|sys|etc/(sysctl\.d|udev/rules\.d|tmpfiles\.d)(/90-mqd\.[a-z]+)?$|dev/cpu_dma_latency$|run/\.containerenv$|\.dockerenv$)`)

var (
	program    = regexp.MustCompile(`^proc/[0-9]+/comm$`)
	open       = regexp.MustCompile(`^proc/(self|[0-9]+)/fd(/|$)`)
	status     = regexp.MustCompile(`^proc/(self|[0-9]+)/status$`)
	membership = regexp.MustCompile(`^proc/(self|[0-9]+)/cgroup$`)
)

// Words that are names of something: addresses of network cards, alone and in names of
// interfaces, and numbers that nobody else has.
var (
	hardware   = regexp.MustCompile(`\b([0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}\b`)
	interfaces = regexp.MustCompile(`\b(enx|wlx|wwx)[0-9a-f]{12}\b`)
	unique     = regexp.MustCompile(`\b([0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}|[0-9a-f]{32,})\b`)
)

// common are directories of control groups that many machines have.
var common = []string{"", "/", "system.slice", "user.slice", "machine.slice", "init.scope", "mqd.service"}

// redactor takes names out, each of them everywhere in the same way.
type redactor struct {
	dirs  []string
	host  *regexp.Regexp
	names map[string]string // what stands for a name
}

func redact(all []Entry, dirs []string, host string) []Entry {
	r := &redactor{dirs: dirs, names: map[string]string{}}
	if len(host) > 2 && host != "localhost" {
		r.host = regexp.MustCompile(`(?i)\b` + regexp.QuoteMeta(host) + `\b`)
	}
	for _, e := range all {
		if membership.MatchString(e.Name) {
			r.learn(string(e.Text))
		}
	}
	var left []Entry
	for _, e := range all {
		if !kept.MatchString(e.Name) || program.MatchString(e.Name) && !slices.Contains(tuning.Programs(), strings.TrimSpace(string(e.Text))) {
			continue
		}
		if open.MatchString(e.Name) && !strings.HasSuffix(e.Link, "dev/cpu_dma_latency") {
			continue
		}
		if !e.Dir && e.Link == "" {
			e.Text = []byte(r.words(r.content(e.Name, string(e.Text))))
		}
		e.Name, e.Link = r.words(r.groups(e.Name)), r.words(e.Link)
		left = append(left, e)
	}
	slices.SortFunc(left, func(a, b Entry) int { return cmp.Compare(a.Name, b.Name) })
	return left
}

// content is what stays of a file in which more stands than anybody has to see.
func (r *redactor) content(name, text string) string {
	switch {
	case name == "proc/self/mountinfo":
		return lines(text, r.mount)
	case name == "proc/swaps":
		return lines(text, func(line string) string {
			if fields := strings.Fields(line); len(fields) > 0 && strings.HasPrefix(fields[0], "/") {
				return "/swap" + line[len(fields[0]):]
			}
			return line
		})
	case name == "proc/cpuinfo":
		return lines(text, only("processor", "model name", "flags", "Features", "CPU implementer", "CPU part", ""))
	case name == "proc/meminfo":
		return lines(text, only("MemTotal"))
	case name == "proc/stat":
		return text[:strings.Index(text+"\n", "\n")+1]
	case name == bootID:
		return "00000000-0000-0000-0000-000000000000\n"
	case status.MatchString(name):
		return lines(text, only("CapEff", "Seccomp"))
	case membership.MatchString(name):
		return lines(text, func(line string) string {
			i := strings.LastIndex(line, ":")
			return line[:i+1] + r.group(line[i+1:])
		})
	}
	return text
}

// lines has each line become what do makes of it; "" goes.
func lines(text string, do func(line string) string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if line = do(strings.TrimSuffix(line, "\n")); line != "" {
			out.WriteString(line + "\n")
		}
	}
	return out.String()
}

// only keeps lines that begin with one of some words and a colon.
func only(words ...string) func(string) string {
	return func(line string) string {
		word, _, _ := strings.Cut(line, ":")
		if slices.Contains(words, strings.TrimSpace(word)) {
			return line
		}
		return ""
	}
}

// options are those of mounts that say something of a drive or of safety; the others name
// servers, users and directories.
var options = regexp.MustCompile(`^([a-z0-9_]+|(data|barrier|commit|discard)=[a-z0-9]+)$`)

// mount keeps of a line of mountinfo what is mounted where and how, for places that hold
// the data and those that every machine has.
func (r *redactor) mount(line string) string {
	all := topology.Mounts(lineOf(line))
	if len(all) != 1 {
		return ""
	}
	m := all[0]
	system := strings.HasPrefix(m.Dir, "/sys") || m.Dir == "/proc" || m.Dir == "/dev"
	holds := func(dir string) bool { return m.Dir == "/" || dir == m.Dir || strings.HasPrefix(dir, m.Dir+"/") }
	if !system && !slices.ContainsFunc(r.dirs, holds) {
		return ""
	}
	var few []string
	for _, o := range m.Options {
		if options.MatchString(o) {
			few = append(few, o)
		}
	}
	return fmt.Sprintf("1 1 %s / %s %s - %s none %s", m.Device, strings.ReplaceAll(m.Dir, " ", `\040`), strings.Join(few, ","), m.Filesystem, strings.Join(few, ","))
}

// lineOf are files of which there is one, mountinfo, with a line.
type lineOf string

func (l lineOf) Text(string) string                  { return string(l) }
func (l lineOf) Exists(string) bool                  { return false }
func (l lineOf) Glob(string) []string                { return nil }
func (l lineOf) Resolve(name string) (string, error) { return name, nil }

// learn gives the control groups of a process names without a meaning.
func (r *redactor) learn(text string) {
	for line := range strings.Lines(text) {
		r.group(strings.TrimSpace(line[strings.LastIndex(line, ":")+1:]))
	}
}

// group is the path of a control group, with names that say nothing.
func (r *redactor) group(at string) string {
	parts := strings.Split(at, "/")
	for i, part := range parts {
		if !slices.Contains(common, part) {
			parts[i] = r.name("group", part)
		}
	}
	return strings.Join(parts, "/")
}

// groups is a path, with the names of control groups in it that group has given.
func (r *redactor) groups(name string) string {
	rest, ok := strings.CutPrefix(name, "sys/fs/cgroup/")
	if !ok {
		return name
	}
	parts := strings.Split(rest, "/")
	for i, part := range parts {
		if given, ok := r.names["group "+part]; ok {
			parts[i] = given
		}
	}
	return path.Join("sys/fs/cgroup", strings.Join(parts, "/"))
}

// name is what stands for a name of a kind.
func (r *redactor) name(kind, name string) string {
	key := kind + " " + name
	if r.names[key] == "" {
		r.names[key] = fmt.Sprintf("%s-%d", kind, len(r.names)+1)
	}
	return r.names[key]
}

// words takes out names that may stand anywhere.
func (r *redactor) words(text string) string {
	text = interfaces.ReplaceAllStringFunc(text, func(s string) string { return fmt.Sprintf("%s%012x", s[:3], r.number(s)) })
	text = hardware.ReplaceAllString(text, "00:00:00:00:00:00")
	text = unique.ReplaceAllStringFunc(text, func(s string) string {
		if strings.Trim(s, "0-") == "" {
			return s
		}
		return r.name("id", s)
	})
	if r.host != nil {
		text = r.host.ReplaceAllString(text, "host")
	}
	return text
}

// number is one for each name.
func (r *redactor) number(name string) int {
	var n int
	_, _ = fmt.Sscanf(r.name("interface", name), "interface-%d", &n)
	return n
}
