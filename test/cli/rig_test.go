package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience ends a test that hangs. Nothing is measured with it.
const patience = 5 * time.Minute

// mqd is the path of the binary, built once.
var mqd string

// noBroker says why a broker cannot run here, "" if it can.
var noBroker string

func TestMain(m *testing.M) {
	if filter := os.Getenv(filterVar); filter != "" {
		runFiltered(filter, os.Args[1:])
	}
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "mqd-cli-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	mqd = filepath.Join(dir, "mqd")
	build := exec.Command("go", "build", "-ldflags=-checklinkname=0 -X main.version=v0.0.0-test", "-o", mqd, "./cmd/mqd")
	build.Dir = filepath.Join("..", "..")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build ./cmd/mqd: %v\n%s", err, out)
		return 1
	}
	// Another user runs it too, whatever the umask.
	for _, path := range []string{dir, mqd} {
		if err := os.Chmod(path, 0o755); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	for _, pair := range os.Environ() {
		if name, _, _ := strings.Cut(pair, "="); strings.HasPrefix(name, "MQD_") {
			if err := os.Unsetenv(name); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
		}
	}
	noBroker = whyNoBroker()
	return m.Run()
}

// whyNoBroker asks the binary whether it could run a broker.
func whyNoBroker() string {
	out, err := exec.Command(mqd, "version", "-o", "json").Output()
	if err != nil {
		return fmt.Sprintf("mqd version: %v", err)
	}
	var v struct {
		Drivers []struct{ Name, State string }
	}
	if err := json.Unmarshal(out, &v); err != nil {
		return fmt.Sprintf("mqd version: %v", err)
	}
	var states []string
	for _, d := range v.Drivers {
		if strings.HasPrefix(d.State, "available") {
			return ""
		}
		states = append(states, d.Name+": "+d.State)
	}
	return strings.Join(states, "; ")
}

// needBroker skips tests that start a broker where none can run.
func needBroker(t *testing.T) {
	t.Helper()
	if noBroker != "" {
		t.Skipf("no I/O driver works here: %s", noBroker)
	}
}

// logBuffer keeps what a process writes and lets tests wait for a line.
type logBuffer struct {
	mu    sync.Mutex
	more  *sync.Cond
	text  bytes.Buffer
	ended bool
}

func newLogBuffer() *logBuffer {
	l := &logBuffer{}
	l.more = sync.NewCond(&l.mu)
	return l
}

func (l *logBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.more.Broadcast()
	return l.text.Write(b)
}

func (l *logBuffer) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	l.more.Broadcast()
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// wait returns when text has been written, false if the process ends before.
func (l *logBuffer) wait(text string) bool {
	return l.waitFor(func(all string) bool { return strings.Contains(all, text) })
}

// waitFor returns when what has been written fits, false if the process ends before.
func (l *logBuffer) waitFor(fits func(all string) bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !fits(l.text.String()) {
		if l.ended {
			return false
		}
		l.more.Wait()
	}
	return true
}

// broker is a running mqd serve.
type broker struct {
	t    *testing.T
	cmd  *exec.Cmd
	addr string
	log  *logBuffer
	done chan error
}

// small are flags of a broker that starts fast and leaves CPU to its neighbours.
var small = []string{"--journal-size", "8MiB", "--cache-size", "16MiB", "--idle", "block", "--log-format", "json", "--admin-listen="}

// serve starts a broker on dir and waits until clients can connect.
func serve(t *testing.T, dir string, args ...string) *broker {
	t.Helper()
	needBroker(t)
	return serveBy(t, exec.Command(mqd), dir, args...)
}

// serveBy starts it by a command that becomes the program.
func serveBy(t *testing.T, cmd *exec.Cmd, dir string, args ...string) *broker {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b := &broker{t: t, log: newLogBuffer(), done: make(chan error, 1)}
	line := append([]string{"serve", "--data-dir", dir, "--listen", "127.0.0.1:0", "--ready-fd", "3"}, small...)
	b.cmd = cmd
	b.cmd.Args = append(append(b.cmd.Args, line...), args...)
	b.cmd.Stderr = b.log
	b.cmd.ExtraFiles = []*os.File{w}
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	go func() {
		err := b.cmd.Wait()
		b.log.end()
		b.done <- err
	}()
	t.Cleanup(func() {
		if b.cmd.ProcessState == nil {
			b.kill()
		}
		if t.Failed() {
			t.Logf("log of the broker on %s:\n%s", dir, b.log)
		}
	})
	// The pipe ends without a line if the process does.
	addr, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatalf("the broker did not start: %v: %s", err, b.log)
	}
	b.addr = strings.TrimSpace(addr)
	return b
}

// signal sends a signal to the process.
func (b *broker) signal(sig os.Signal) {
	b.t.Helper()
	if err := b.cmd.Process.Signal(sig); err != nil {
		b.t.Fatal(err)
	}
}

// kill ends the process as a crash does.
func (b *broker) kill() {
	b.t.Helper()
	b.signal(syscall.SIGKILL)
	<-b.done
}

// stop ends the process in order.
func (b *broker) stop() {
	b.t.Helper()
	b.signal(syscall.SIGTERM)
	if err := <-b.done; err != nil {
		b.t.Fatalf("the broker did not end in order: %v\n%s", err, b.log)
	}
}

// serving are the fields of the log line that ends the start. The log comes
// through a pipe of its own, so it can arrive behind the address.
func (b *broker) serving() map[string]any {
	b.t.Helper()
	var fields map[string]any
	if !b.log.waitFor(func(text string) bool {
		for line := range strings.Lines(text) {
			if strings.HasSuffix(line, "\n") && json.Unmarshal([]byte(line), &fields) == nil && fields["msg"] == "serving" {
				return true
			}
		}
		return false
	}) {
		b.t.Fatalf("no line \"serving\" in the log:\n%s", b.log)
	}
	return fields
}

// warned waits for a warning. The log comes through a pipe of its own, so it can be behind
// all that has happened since.
func (b *broker) warned(text string) {
	b.t.Helper()
	if !b.log.waitFor(func(all string) bool {
		return slices.ContainsFunc(warningsOf(all), func(line string) bool { return strings.Contains(line, text) })
	}) {
		b.t.Fatalf("no warning %q in the log:\n%s", text, b.log)
	}
}

// warnings are the warnings in the log so far, a line each.
func (b *broker) warnings() []string { return warningsOf(b.log.String()) }

func warningsOf(text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		if strings.Contains(line, `"level":"WARN"`) && strings.HasSuffix(line, "\n") {
			lines = append(lines, line)
		}
	}
	return lines
}

// result is what came of a command.
type result struct {
	out, errs string
	status    int
}

// run runs the program with an input and waits for its end.
func run(t *testing.T, input string, args ...string) result {
	t.Helper()
	cmd := exec.Command(mqd, args...)
	cmd.Stdin = strings.NewReader(input)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	// A test that hangs says where.
	timer := time.AfterFunc(patience, func() {
		t.Errorf("mqd %s does not end", strings.Join(args, " "))
		_ = cmd.Process.Kill()
	})
	defer timer.Stop()
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

// must runs the program against the broker and returns its output.
func (b *broker) must(input string, args ...string) string {
	b.t.Helper()
	r := run(b.t, input, append(args, "--server", b.addr)...)
	if r.status != 0 || r.errs != "" {
		b.t.Fatalf("mqd %s: status %d\n%s", strings.Join(args, " "), r.status, r.errs)
	}
	return r.out
}

// fails runs the program against the broker and returns the error that it ends
// with: one line.
func (b *broker) fails(input string, args ...string) string {
	b.t.Helper()
	return oneLine(b.t, run(b.t, input, append(args, "--server", b.addr)...))
}

// oneLine is the only line of a command's errors.
func oneLine(t *testing.T, r result) string {
	t.Helper()
	text, ended := strings.CutSuffix(r.errs, "\n")
	if r.status != 1 || !ended || strings.Contains(text, "\n") || !strings.HasPrefix(text, "mqd: ") {
		t.Fatalf("status %d, expected 1 and one line:\n%s", r.status, r.errs)
	}
	return text
}

// wants checks that a text has parts.
func wants(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q lacks %q", text, part)
		}
	}
}

// message is a line of mqd consume -o json.
type message struct {
	Partition   int32
	Offset      int64
	Timestamp   *int64
	Key         *string
	KeyBase64   []byte `json:"key_base64"`
	Value       *string
	ValueBase64 []byte `json:"value_base64"`
	Headers     []struct {
		Key, Value string
	}
}

// parse reads the output of mqd consume -o json.
func parse(t *testing.T, out string) []message {
	t.Helper()
	var all []message
	for line := range strings.Lines(out) {
		var m message
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		all = append(all, m)
	}
	return all
}
