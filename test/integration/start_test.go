package integration

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/test/process"
	"github.com/mqd-broker/mqd/test/rig"
)

// mustNotStart runs mqd serve, which has to end with status 1 and one line that
// contains want.
func mustNotStart(t *testing.T, want string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, rig.Binary(t), append([]string{"serve", "--log-level", "error"}, args...)...)
	out, err := cmd.CombinedOutput()
	text := string(out)
	if cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("%v: ended with %v (%v), expected status 1: %s", args, cmd.ProcessState, err, text)
	}
	if !strings.Contains(text, want) || strings.Count(text, "\n") != 1 {
		t.Errorf("%v: said %q, expected one line with %q", args, text, want)
	}
}

func TestWhatStopsAStartIsSaidInOneLine(t *testing.T) {
	b := start(t)
	dir := rig.DataDir(t)
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("no directory"), 0o600); err != nil {
		t.Fatal(err)
	}
	strange := filepath.Join(dir, "strange")
	if err := os.Mkdir(strange, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(strange, "holiday.jpg"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	unused := filepath.Join(dir, "unused")
	mustNotStart(t, "port in use", "--data-dir", unused, "--listen", b.addr)
	mustNotStart(t, "is a file", "--data-dir", file)
	mustNotStart(t, "is no data directory", "--data-dir", strange)
	mustNotStart(t, "--insecure", "--data-dir", unused, "--listen", "0.0.0.0:0")
	mustNotStart(t, "journal", "--data-dir", unused, "--journal-size", "1KiB")
	b.mustServe(b.open(), b.topic("unharmed", 1))
}

// driverVar is the environment variable of the setting io.driver. The whole suite runs
// on the driver that it names.
const driverVar = "MQD_IO__DRIVER"

func TestTheDriverOfTheEnvironmentServes(t *testing.T) {
	want := "driver="
	switch os.Getenv(driverVar) {
	case "portable":
		want = "driver=portable"
	case "uring":
		want = "driver=io_uring"
	}
	b := start(t)
	b.wait("the broker says "+want, func() bool { return strings.Contains(b.p.LogTail(), want) })
}

func TestADataDirectoryHasOneBroker(t *testing.T) {
	rig.NeedDriver(t)
	dir := rig.DataDir(t)
	p, err := process.Start(process.Config{Binary: rig.Binary(t), Dir: dir, Args: []string{"--journal-size", "8MiB"}})
	if err != nil {
		t.Fatal(err)
	}
	b := &broker{t: t, p: p}
	t.Cleanup(b.stop)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if b.addr, _, err = p.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	id := b.topic("mine", 1)
	mustNotStart(t, "is locked", "--data-dir", dir, "--listen", "127.0.0.1:0")
	b.mustServe(b.open(), id)
}

func TestASignalDuringTheStartEndsItInOrder(t *testing.T) {
	rig.NeedDriver(t)
	dir := rig.DataDir(t)
	// At whatever point of the start the signal comes, the broker ends in order
	// and the next one starts.
	for delay := time.Duration(0); delay < 300*time.Millisecond; delay += 30 * time.Millisecond {
		p, err := process.Start(process.Config{Binary: rig.Binary(t), Dir: dir, Args: []string{"--journal-size", "8MiB", "--shards", "2"}})
		if err != nil {
			t.Fatal(err)
		}
		after := time.NewTimer(delay + 20*time.Millisecond)
		select {
		case <-after.C:
		case <-p.Done():
		}
		after.Stop()
		if err := p.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		<-p.Done()
		// It may have come before the program could listen to signals.
		if how := p.Ended(); how != "exit status 0" && how != "signal: terminated" {
			t.Errorf("after %v: %s: %s", delay, how, p.LogTail())
		}
	}
	p, err := process.Start(process.Config{Binary: rig.Binary(t), Dir: dir, Args: []string{"--journal-size", "8MiB", "--shards", "2"}})
	if err != nil {
		t.Fatal(err)
	}
	b := &broker{t: t, p: p}
	t.Cleanup(b.stop)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if b.addr, _, err = p.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	b.mustServe(b.open(), b.topic("started", 1))
}
