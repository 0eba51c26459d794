package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/mqd-broker/mqd/bench"
	"github.com/mqd-broker/mqd/bench/machine"
	"github.com/mqd-broker/mqd/bench/report"
	"github.com/mqd-broker/mqd/cmd/mqd/benching"
	"github.com/mqd-broker/mqd/test/process"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.yaml.in/yaml/v3"
)

//go:embed compare.yaml
var compareCases []byte

// client says how messages travel over Kafka's protocol.
const client = "franz-go, acks=all, idempotent, linger 0"

// comparison is what kafkabench compare is told.
type comparison struct {
	mqd, installed, spec, dir, out string
	classes                        []string
	repeat                         int
	warm                           time.Duration
}

// durabilities say what an acknowledgement stands for in each class of mqd, and what
// Apache Kafka is measured beside it, with the configuration of its topic.
var durabilities = map[string]struct {
	mqd, apache string
	configs     map[string]string
}{
	"flushed": {"flushed to the device", "flushed to the device (flush.messages=1)", map[string]string{"flush.messages": "1"}},
	"written": {"written to the device, flushed within 1 s", "in the page cache (Kafka's default)", nil},
	"memory":  {"in memory, written within 100 ms", "in the page cache (Kafka's default)", nil},
}

// compare measures one file of cases against mqd by its own protocol, mqd by Kafka's, and
// Apache Kafka, in turn.
func compare(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("kafkabench compare", flag.ContinueOnError)
	c := &comparison{}
	flags.StringVar(&c.mqd, "mqd", "bin/mqd", "mqd's binary")
	flags.StringVar(&c.installed, "apache", installedApache(), "directory of Apache Kafka, with jars/ and stamp")
	flags.StringVar(&c.spec, "spec", "", "file of cases, without classes (default: those of compare.yaml)")
	flags.StringVar(&c.dir, "dir", ".", "directory for the brokers' data, on a disk; it is removed afterwards")
	flags.StringVar(&c.out, "out", "", "directory for all results")
	classes := flags.String("classes", "flushed,written,memory", "classes of mqd, each with what of Apache Kafka is nearest")
	flags.IntVar(&c.repeat, "repeat", 3, "times that everything is measured")
	flags.DurationVar(&c.warm, "warm", 30*time.Second, "time for which Apache Kafka works before it is measured, for each class")
	if err := flags.Parse(args); err != nil {
		return err
	}
	c.classes = strings.Split(*classes, ",")
	for _, class := range c.classes {
		if _, ok := durabilities[class]; !ok {
			return fmt.Errorf("-classes %s: there is no class %q", *classes, class)
		}
	}
	if c.repeat < 1 || c.warm < 0 {
		return fmt.Errorf("-repeat %d, -warm %v: expected 1 or more, 0 or more", c.repeat, c.warm)
	}
	text := compareCases
	if c.spec != "" {
		if text, err = os.ReadFile(c.spec); err != nil {
			return err
		}
	}
	if c.dir, err = os.MkdirTemp(c.dir, "mqd-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(c.dir)) }()
	if c.dir, err = filepath.Abs(c.dir); err != nil { // Java is not started here
		return err
	}
	if c.out == "" {
		c.out = filepath.Join(c.dir, "results")
	}
	return c.run(ctx, text, out)
}

// run starts the brokers, and measures class by class.
func (c *comparison) run(ctx context.Context, text []byte, out io.Writer) (err error) {
	for _, dir := range []string{"apache", "mqd"} {
		if err := os.Mkdir(filepath.Join(c.dir, dir), 0o700); err != nil {
			return err
		}
	}
	a, err := startApache(ctx, c.installed, filepath.Join(c.dir, "apache"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.kill()) }()
	door, err := freeAddress()
	if err != nil {
		return err
	}
	b, err := process.Start(process.Config{Binary: c.mqd, Dir: filepath.Join(c.dir, "mqd"), Args: []string{"--kafka-listen", door}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Kill()) }()
	native, _, err := b.Ready(ctx)
	if err != nil {
		return err
	}
	c.head(ctx, out, a)
	var failed []error
	for _, class := range c.classes {
		cases, err := casesOf(text, class)
		if err != nil {
			return err
		}
		d := durabilities[class]
		sides := []*side{
			{name: "mqd, its own protocol", durability: d.mqd, pid: b.PID(), measure: c.native(native)},
			{name: "mqd, Kafka's protocol", durability: d.mqd, pid: b.PID(), measure: kafka(door, map[string]string{"mqd.durability": class})},
			{name: "Apache Kafka", durability: d.apache, pid: a.pid, measure: kafka(a.addr, d.configs)},
		}
		if err := c.class(ctx, class, cases, sides); err != nil {
			return fmt.Errorf("%w\nApache Kafka's log: %s", err, a.tail())
		}
		failed = append(failed, table(out, class, sides))
	}
	return errors.Join(failed...)
}

// head says what is compared, and where.
func (c *comparison) head(ctx context.Context, out io.Writer, a *apache) {
	first := func(program string, args ...string) string {
		text, _ := exec.CommandContext(ctx, program, args...).CombinedOutput() // without it, nothing is told
		line, _, _ := strings.Cut(string(text), "\n")
		return strings.Join(strings.Fields(line), " ")
	}
	h := machine.ReadHost("/", c.dir, machine.NoCPU, revision())
	fmt.Fprintf(out, "mqd: %s, default settings\n", first(c.mqd, "version"))
	fmt.Fprintf(out, "Apache Kafka: %s, KRaft, one node, default settings, %s, %s\n", a.version, first("java", "-version"), strings.Join(apacheFlags, " "))
	fmt.Fprintf(out, "clients: mqd bench run; for Kafka's protocol %s\n", client)
	fmt.Fprintf(out, "machine: %d CPUs (%s), Linux %s, %s, load %s\n", h.CPUs, h.CPU, h.Kernel, h.Filesystem, h.LoadAverage)
	fmt.Fprintf(out, "medians of %d rounds, in turn; Apache Kafka warmed up for %v before each class\n\n", c.repeat, c.warm)
}

// casesOf are the cases of a file, each as a file of its own, in a durability class.
func casesOf(text []byte, class string) ([][]byte, error) {
	var spec struct {
		Version int
		All     map[string]any
		Cases   []map[string]any
	}
	// Before, because it names what is wrong in the words of who writes files.
	loads, err := benching.ParseSpec(text)
	if err != nil {
		return nil, err
	}
	if err := yaml.Unmarshal(text, &spec); err != nil {
		return nil, err
	}
	if len(loads) != len(spec.Cases) {
		return nil, fmt.Errorf("%d cases make %d measurements: lists are not for a comparison", len(spec.Cases), len(loads))
	}
	cases := make([][]byte, len(spec.Cases))
	for i, own := range spec.Cases {
		values := map[string]any{}
		maps.Copy(values, spec.All)
		maps.Copy(values, own)
		values["class"] = class
		if cases[i], err = yaml.Marshal(map[string]any{"version": spec.Version, "cases": []any{values}}); err != nil {
			return nil, err
		}
	}
	return cases, nil
}

// lasting is a case of casesOf that takes so long.
func lasting(text []byte, d time.Duration) ([]byte, error) {
	var spec struct {
		Version int
		Cases   []map[string]any
	}
	if err := yaml.Unmarshal(text, &spec); err != nil {
		return nil, err
	}
	spec.Cases[0]["warmup"], spec.Cases[0]["duration"] = "0s", d.String()
	return yaml.Marshal(map[string]any{"version": spec.Version, "cases": spec.Cases})
}

// class warms the brokers up and measures all sides, in turn.
func (c *comparison) class(ctx context.Context, class string, cases [][]byte, sides []*side) error {
	for i, text := range cases {
		for n, s := range sides {
			s.rounds = append(s.rounds, nil)
			warm := c.warm / time.Duration(len(cases))
			if n < len(sides)-1 {
				warm /= 10 // nothing is compiled while these run
			}
			if warm <= 0 {
				continue
			}
			short, err := lasting(text, warm)
			if err != nil {
				return err
			}
			if _, err := s.measure(ctx, short, s.durability, filepath.Join(c.out, class, fmt.Sprintf("case-%d", i+1), "warm", slug(s.name))); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
		}
	}
	for round := range c.repeat {
		for i, text := range cases {
			// Each comes first, second and last in turn.
			for n := range sides {
				s := sides[(n+round)%len(sides)]
				dir := filepath.Join(c.out, class, fmt.Sprintf("case-%d", i+1), fmt.Sprintf("round-%d", round+1), slug(s.name))
				before, _ := machine.CPUTime("/", s.pid) // unknown: it is not told
				res, err := s.measure(ctx, text, s.durability, dir)
				if err != nil {
					return fmt.Errorf("%s: %w", s.name, err)
				}
				if after, err := machine.CPUTime("/", s.pid); err == nil && res.Sent > 0 {
					res.BrokerCPU = float64(after-before) / float64(res.Sent)
				}
				s.rounds[i] = append(s.rounds[i], res)
			}
		}
	}
	return nil
}

// slug is a name for a directory.
func slug(name string) string {
	return strings.ToLower(strings.NewReplacer(",", "", " ", "-", "'", "").Replace(name))
}

// measurement runs a file of one case, and leaves the result in a directory.
type measurement func(ctx context.Context, spec []byte, durability, dir string) (*bench.Result, error)

// native measures by mqd bench.
func (c *comparison) native(addr string) measurement {
	return func(ctx context.Context, spec []byte, _, dir string) (*bench.Result, error) {
		file := filepath.Join(c.dir, "cases.yaml")
		if err := os.WriteFile(file, spec, 0o600); err != nil {
			return nil, err
		}
		text, failed := child(exec.CommandContext(ctx, c.mqd, "bench", "run", "--server", addr, "--spec", file, "--out", dir, "--floors=false", "--samples", "0s", "--live=false"))
		d, err := report.Read(dir)
		if err != nil {
			return nil, fmt.Errorf("%w: %s", errors.Join(failed, err), text)
		}
		return d.Cases[0].Result, nil // one that has lost messages too: the table tells
	}
}

// kafka measures by Kafka's protocol, with topics of some configurations.
func kafka(addr string, configs map[string]string) measurement {
	return func(ctx context.Context, spec []byte, durability, dir string) (*bench.Result, error) {
		loads, err := benching.ParseSpec(spec)
		if err != nil {
			return nil, err
		}
		runtime.GC() // what the last one has left is not this one's
		load := loads[0]
		load.Durability = "Kafka's protocol, acks all: " + durability
		res, err := bench.RunPort(ctx, newPort([]string{addr}, kgo.AllISRAcks(), load, configs), load)
		if err != nil {
			return nil, err
		}
		k := &bench.Case{}
		k.Add(res)
		k.Finish()
		return res, report.Write(dir, &report.Document{
			Schema: report.Version, Verb: "kafkabench", Started: time.Now(), Colocated: true, Cases: []*bench.Case{k},
			Host: machine.ReadHost("/", ".", machine.NoCPU, revision()), Placement: machine.Placement{Server: machine.NoCPU},
		})
	}
}
