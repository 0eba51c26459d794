package interop

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// kafkaGoModule has tests of its own, which want a broker on localhost:9092.
const (
	kafkaGoModule  = "github.com/segmentio/kafka-go"
	kafkaGoAddress = "localhost:9092"
	// kafkaGoList names the tests that pass, and those of them that take long.
	kafkaGoList = "kafkago.txt"
	// kafkaGoLimit is far more than all tests of the list take.
	kafkaGoLimit = 3 * time.Minute
	kafkaGoTries = 3
)

// kafkaGoTests reads the list. Those that take long are in it if all are wanted.
func kafkaGoTests(t *testing.T, all bool) []string {
	t.Helper()
	text, err := os.ReadFile(kafkaGoList)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) == 0 || f[0] == "#" {
			continue
		}
		if len(f) > 2 || len(f) == 2 && f[1] != "long" {
			t.Fatalf("%s: %q", kafkaGoList, line)
		}
		if len(f) == 1 || all {
			names = append(names, f[0])
		}
	}
	return names
}

// kafkaGoBroker starts a broker where the tests look for it, and as they expect it.
func kafkaGoBroker(t *testing.T) {
	t.Helper()
	l, err := net.Listen("tcp", kafkaGoAddress)
	if err != nil {
		t.Skipf("kafka-go's tests want a broker on %s, which is taken: %v", kafkaGoAddress, err)
	}
	_ = l.Close() // taken by the broker at once
	// The last one of a name counts.
	start(t, "--kafka-listen", kafkaGoAddress, "--kafka-advertise", kafkaGoAddress)
}

var kafkaGoVerdict = regexp.MustCompile(`(?m)^--- (PASS|FAIL|SKIP): (\w+) `)

// unreachable is what go says of modules that it cannot get.
var unreachable = regexp.MustCompile(`dial tcp|no such host|connection refused|i/o timeout|handshake timeout|module lookup disabled|50[0-9] |proxyconnect`)

// TestKafkaGoPassesItsOwnTests runs those of kafka-go's tests that are in the list.
func TestKafkaGoPassesItsOwnTests(t *testing.T) {
	names := kafkaGoTests(t, *long)
	kafkaGoBroker(t)
	binary := filepath.Join(t.TempDir(), "kafkago.test")
	if out, err := exec.Command("go", "test", "-c", "-o", binary, kafkaGoModule).CombinedOutput(); err != nil {
		if unreachable.Match(out) {
			t.Skipf("what its tests need is out of reach: %v: %s", err, out)
		}
		t.Fatalf("its tests do not build: %v: %s", err, out)
	}
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", kafkaGoModule).Output()
	if err != nil {
		t.Fatal(err)
	}
	// Some of them wait for seconds and no longer, so what fails is run again, alone.
	wanted := names
	for try := 1; ; try++ {
		failed, out := runKafkaGo(t, binary, strings.TrimSpace(string(dir)), wanted)
		if len(failed) == 0 {
			break
		}
		if try == kafkaGoTries {
			t.Fatalf("%q do not pass: %s", failed, out)
		}
		t.Logf("%q are run again: %s", failed, out)
		wanted = failed
	}
	t.Logf("%d of its tests", len(names))
}

// runKafkaGo runs tests, and returns those that do not pass and the end of the output.
func runKafkaGo(t *testing.T, binary, dir string, names []string) (failed []string, end string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), kafkaGoLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "-test.v", "-test.timeout", kafkaGoLimit.String(), "-test.run", "^("+strings.Join(names, "|")+")$")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "KAFKA_SKIP_NETTEST=1", "KAFKA_VERSION=3.7.0")
	out, err := cmd.CombinedOutput()
	passed := map[string]bool{}
	for _, m := range kafkaGoVerdict.FindAllStringSubmatch(string(out), -1) {
		passed[m[2]] = m[1] == "PASS"
	}
	for _, name := range names {
		if !passed[name] {
			failed = append(failed, name)
		}
	}
	if len(failed) > 0 {
		end = fmt.Sprintf("%v: %s", err, lastOf(out))
	}
	return failed, end
}

// lastOf is the end of what a program wrote.
func lastOf(out []byte) string {
	if over := len(out) - 4*keptBytes; over > 0 {
		return fmt.Sprintf("(%d bytes before)%s", over, out[over:])
	}
	return string(out)
}
