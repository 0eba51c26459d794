package cli

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mqd-broker/mqd/test/process"
)

// A producer that was told to end waits for the answers to what it has sent. Told once
// more it ends on the spot.
func TestASecondSignalEndsAProducerThatWaits(t *testing.T) {
	b := serve(t, t.TempDir())
	b.must("", "topic", "create", "t")
	acks := filepath.Join(t.TempDir(), "acks")
	cmd := exec.Command(mqd, "produce", "t", "--acks-file", acks, "--timeout", "1h", "--server", b.addr)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(patience, func() {
		t.Error("the producer does not end")
		_ = cmd.Process.Kill()
	})
	defer timer.Stop()
	send := func(line string) {
		t.Helper()
		if _, err := in.Write([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	send("answered\n")
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); ; <-tick.C {
		if text, err := os.ReadFile(acks); err == nil && bytes.HasPrefix(text, []byte("0 0 1\n")) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the first message is not acknowledged")
		}
	}
	b.signal(syscall.SIGSTOP)
	patient, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := process.Frozen(patient, b.cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	send("not answered\n")
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGTERM} {
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
	}
	_ = cmd.Wait() // how it ended is in ProcessState
	if cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("the producer ended with %v", cmd.ProcessState)
	}
	b.signal(syscall.SIGCONT)
	b.stop()
}

// A configuration that cannot be read, because nobody writes into the pipe that it is, keeps
// nobody from ending the broker. It is put into force when it comes after all.
func TestAConfigurationThatDoesNotComeHoldsNoSignalUp(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mqd.yaml")
	if err := os.WriteFile(file, []byte("log:\n  level: info\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := serve(t, t.TempDir(), "--config", file)
	timer := time.AfterFunc(patience, func() {
		t.Error("the broker does not end")
		_ = b.cmd.Process.Kill()
	})
	defer timer.Stop()
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(file, 0o600); err != nil {
		t.Fatal(err)
	}
	b.signal(syscall.SIGHUP)
	pipe := readBy(t, file)
	b.signal(syscall.SIGHUP) // asks for one more reading behind this one
	if _, err := pipe.Write([]byte("log:\n  level: debug\n")); err != nil {
		t.Fatal(err)
	}
	pipe.Close()
	if !b.log.waitFor(func(text string) bool { return strings.Contains(text, `"log_level":"debug"`) }) {
		t.Fatal("the configuration is not in force")
	}
	again := readBy(t, file)
	defer again.Close()
	b.stop()
}

// readBy opens a pipe for writing when somebody has opened it for reading.
func readBy(t *testing.T, path string) *os.File {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); ; <-tick.C {
		pipe, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		if err == nil {
			return pipe
		}
		if !errors.Is(err, syscall.ENXIO) || time.Now().After(deadline) {
			t.Fatalf("nobody reads the pipe: %v", err)
		}
	}
}
