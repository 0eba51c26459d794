package interop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// installed is the directory into which install.sh installs.
func installed() string {
	if dir := os.Getenv("MQD_INTEROP_DIR"); dir != "" {
		return dir
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	return filepath.Join(cache, "mqd-interop")
}

// system has what is run of the operating system's own Python.
const systemPython = "/usr/bin/python3"

// how says how each client of clients.txt is run.
var how = map[string]struct {
	// missing says why the client cannot be run; empty: it can.
	missing func() string
	start   func(b *broker) (driver, error)
}{
	"confluent-kafka":    {part("confluent-kafka"), python("confluent-kafka", "librdkafka.py")},
	"confluent-kafka-os": {module("confluent_kafka"), command(systemPython, "drivers/librdkafka.py")},
	"kafka-python":       {part("kafka-python"), python("kafka-python", "kafkapython.py")},
	"kafka-python-os":    {module("kafka"), command(systemPython, "drivers/kafkapython.py")},
	"kafkajs":            {part("node"), node("kafkajs.js")},
	"platformatic-kafka": {part("node"), node("platformatic.js")},
	"java-3":             {jars("java-3"), java("java-3")},
	"java-4":             {jars("java-4"), java("java-4")},
	"franz-go":           {always, franz},
	"sarama":             {always, saramaClient},
	"kafka-go":           {always, kafkaGo},
	"kcat":               {onPath("kcat"), kcatDriver},
	"streams-3":          {inLongRuns(jars("streams-3")), streams("streams-3")},
	"streams-4":          {inLongRuns(jars("streams-4")), streams("streams-4")},
}

func always() string { return "" }

// inLongRuns: it takes a minute, and is left to make interop.
func inLongRuns(missing func() string) func() string {
	return func() string {
		if !*long {
			return "it takes a minute: make interop has it (install.sh --long, -interop.long)"
		}
		if why := missing(); why != "" {
			return why + ", with --long"
		}
		return ""
	}
}

// part is what install.sh has installed whole.
func part(name string) func() string {
	return func() string {
		if _, err := os.Stat(filepath.Join(installed(), name, "stamp")); err != nil {
			return fmt.Sprintf("%v; test/interop/install.sh installs it", err)
		}
		return ""
	}
}

func onPath(program string) func() string {
	return func() string {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Sprintf("%v; test/interop/install.sh --apt installs it on Debian", err)
		}
		return ""
	}
}

// module is one of the operating system's Python.
func module(name string) func() string {
	return func() string {
		if out, err := exec.Command(systemPython, "-c", "import "+name).CombinedOutput(); err != nil {
			lines := strings.Split(strings.TrimSpace(string(out)), "\n")
			return fmt.Sprintf("%v: %s; test/interop/install.sh --apt installs it on Debian", err, lines[len(lines)-1])
		}
		return ""
	}
}

func jars(name string) func() string {
	return func() string {
		if why := part(name)(); why != "" {
			return why
		}
		return onPath("java")()
	}
}

func command(args ...string) func(*broker) (driver, error) {
	return func(b *broker) (driver, error) { return startProgram(append(args, b.kafka)...) }
}

func python(part, script string) func(*broker) (driver, error) {
	return command(filepath.Join(installed(), part, "bin", "python"), filepath.Join("drivers", script))
}

// node runs a script where it finds what is installed.
func node(script string) func(*broker) (driver, error) {
	return func(b *broker) (driver, error) {
		found, err := filepath.Glob(filepath.Join(installed(), "node", "node_modules", "node-linux-*", "bin", "node"))
		if err != nil || len(found) != 1 {
			return nil, fmt.Errorf("node: %q, %v", found, err)
		}
		return startProgram(found[0], filepath.Join("drivers", script), b.kafka, filepath.Join(installed(), "node", "node_modules"))
	}
}

// java compiles the driver against the client's jars, and runs it.
func java(name string) func(*broker) (driver, error) {
	return func(b *broker) (driver, error) {
		classes := filepath.Join(installed(), name, "jars", "*")
		return startProgram("java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", classes, filepath.Join("drivers", "Driver.java"), b.kafka)
	}
}

// listed is a client of clients.txt.
type listed struct{ name, from, version string }

// clientList reads clients.txt.
func clientList(t *testing.T) []listed {
	t.Helper()
	text, err := os.ReadFile("clients.txt")
	if err != nil {
		t.Fatal(err)
	}
	var all []listed
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] != "#" {
			all = append(all, listed{f[0], f[1], f[2]})
		}
	}
	return all
}

// moduleVersion is the version of a module that go.mod asks for.
func moduleVersion(path string) (string, error) {
	text, err := os.ReadFile("go.mod")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == path {
			return strings.TrimPrefix(f[1], "v"), nil
		}
	}
	return "", fmt.Errorf("go.mod does not have %s", path)
}
