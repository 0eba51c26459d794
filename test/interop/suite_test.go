package interop

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/mqd-broker/mqd/test/rig"
)

var (
	update = flag.Bool("update", false, "write what passes now to passes.txt, and the table of clients in docs/kafka.md")
	long   = flag.Bool("interop.long", false, "run the tests that take minutes")
)

// passesFile says, for each client, which scenarios it passes: lines of a client, a
// scenario and, where it does not pass, a colon and the reason.
const passesFile = "passes.txt"

// passes is what passesFile says.
type passes struct {
	mu   sync.Mutex
	rows map[string]string // by client and scenario: empty where it passes, else the reason
}

func readPasses(t *testing.T) *passes {
	t.Helper()
	p := &passes{rows: map[string]string{}}
	text, err := os.ReadFile(passesFile)
	if err != nil && !*update {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		key, why, absent := strings.Cut(line, ": ")
		if absent == (why == "") || len(strings.Fields(key)) != 2 {
			t.Fatalf("%s: %q", passesFile, line)
		}
		p.rows[strings.Join(strings.Fields(key), " ")] = why
	}
	return p
}

func (p *passes) write(t *testing.T) {
	t.Helper()
	var b strings.Builder
	b.WriteString("# What each client passes, and why it does not pass the rest. A line without a reason\n" +
		"# may only be added: what has passed has to pass. go test -run TestClients -update adds.\n")
	for _, c := range clientList(t) {
		b.WriteString("\n")
		for _, s := range scenariosOf(c.name) {
			key := c.name + " " + s.name
			why, known := p.rows[key]
			switch {
			case known && why == "":
				fmt.Fprintf(&b, "%s %s\n", c.name, s.name)
			case known:
				fmt.Fprintf(&b, "%s %s: %s\n", c.name, s.name, why)
			}
		}
	}
	if err := os.WriteFile(passesFile, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

// outcome holds what a scenario came to, unless it has failed, against the list. why says
// why the client cannot do it.
func (p *passes) outcome(t *testing.T, key, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	was, known := p.rows[key]
	switch {
	case known && was == "" && why == "":
	case known && was == "":
		t.Errorf("%s has passed before, and now the client says: %s", key, why)
		return
	case why == "":
		t.Logf("NEW: %s passes; add it to %s with -update", key, passesFile)
	default:
		t.Logf("it cannot: %s", why)
	}
	p.rows[key] = why
}

// skips is why a scenario is not run.
func (p *passes) skips(key string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if *update {
		return ""
	}
	return p.rows[key]
}

// clientVar names the only client that a process of this test is for, and has what fails
// fail at once.
const clientVar = "MQD_INTEROP_CLIENT"

// TestClients has each client do everything, with a broker of its own. What has passed
// before must pass; see passesFile.
//
// Several of the clients wait for seconds and no longer. So a client that fails beside the
// others is run once more, alone, and the test says so; with -interop.long it is not.
func TestClients(t *testing.T) {
	p := readPasses(t)
	only := os.Getenv(clientVar)
	if err := os.Unsetenv(clientVar); err != nil { // the broker would refuse it
		t.Fatal(err)
	}
	alone := !*long && !*update && only == ""
	var again again
	t.Run("all", func(t *testing.T) {
		for _, c := range clientList(t) {
			if only != "" && c.name != only {
				continue
			}
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				if !alone {
					runClient(t, p, c)
				} else if out, err := runProcess(t, c); err != nil {
					again.add(t, c, out)
				}
			})
		}
	})
	for _, c := range again.list {
		if out, err := runProcess(t, c); err != nil {
			t.Errorf("%s fails alone as well: %v: %s", c.name, err, out)
		}
	}
	if *update && !t.Failed() {
		p.write(t)
	}
}

// again are the clients that have failed once.
type again struct {
	mu   sync.Mutex
	list []listed
}

func (a *again) add(t *testing.T, c listed, out []byte) {
	a.mu.Lock()
	a.list = append(a.list, c)
	a.mu.Unlock()
	t.Logf("UNSTABLE: %s is run again alone, because it has failed: %s", c.name, out)
}

// runProcess has a client do everything in a process of its own, and skips the test where
// that does.
func runProcess(t *testing.T, c listed) ([]byte, error) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run", "^TestClients$", "-test.timeout", "15m")
	cmd.Env = append(os.Environ(), clientVar+"="+c.name, rig.BinaryVar+"="+rig.Binary(t))
	out, err := cmd.CombinedOutput()
	if skipped := regexp.MustCompile(`(?m)^ *--- SKIP: TestClients/all/[^/ ]+ `); err == nil && skipped.Match(out) {
		t.Skip(lastOf(out))
	}
	return out, err
}

func runClient(t *testing.T, p *passes, c listed) {
	h, ok := how[c.name]
	if !ok {
		t.Fatalf("nothing says how %s is run", c.name)
	}
	if why := h.missing(); why != "" {
		t.Skipf("%s is not run: %s", c.name, why)
	}
	b := start(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	d, err := h.start(b)
	if err != nil {
		t.Fatal(err)
	}
	a, err := d.do(ctx, request{Op: "hello"})
	if err != nil || a.Error != "" {
		t.Fatalf("%s does not start: %v %s: %s", c.name, err, a.Error, d.end())
	}
	if a.Version != c.version {
		t.Logf("this is version %s, the list is of %s", a.Version, c.version)
	}
	defer func() { d.end() }()
	for _, sc := range scenariosOf(c.name) {
		t.Run(sc.name, func(t *testing.T) {
			key := c.name + " " + sc.name
			if why := p.skips(key); why != "" {
				t.Skipf("it cannot: %s", why)
			}
			why := attempt(t, &stage{T: t, b: b, d: d, prefix: c.name + "-"}, sc)
			p.outcome(t, key, why)
		})
		if t.Failed() { // what the driver still does would disturb the rest
			return
		}
	}
}

// attempt runs a scenario, and returns why the client cannot do it. What the driver has
// said is logged where it fails.
func attempt(t *testing.T, s *stage, sc scenario) (why string) {
	var cancel context.CancelFunc
	s.ctx, cancel = context.WithTimeout(t.Context(), patience)
	s.renew()
	defer func() {
		cancel()
		if r := recover(); r != nil {
			u, ok := r.(unsupported)
			if !ok {
				panic(r)
			}
			why = string(u)
		}
		if t.Failed() {
			t.Logf("the driver has said: %s", s.d.end())
		}
	}()
	sc.run(s)
	return ""
}

// The list says of each client and each scenario what is the matter with it.
func TestTheListOfPassesIsComplete(t *testing.T) {
	p := readPasses(t)
	for _, c := range clientList(t) {
		for _, sc := range scenariosOf(c.name) {
			key := c.name + " " + sc.name
			if _, ok := p.rows[key]; !ok {
				t.Errorf("%s says nothing of %s", passesFile, key)
			}
			delete(p.rows, key)
		}
	}
	for key := range p.rows {
		t.Errorf("%s names %s, which is no client with a scenario: what has passed must not go", passesFile, key)
	}
}
